"""The checks made, one after the other; what one of them finds does not keep the others from being made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from allotment.cluster.errors import StatusError
from allotment.drivers.verify.check import CheckResult, DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.suite import CHECKS
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped

_NO_COMMAND = "needs --command: the kit must start the driver itself"


async def verify(
    session: DriverSession,
    on_start: Callable[[DriverCheck], None],
    on_result: Callable[[CheckResult], None],
    checks: Iterable[DriverCheck] = CHECKS,
) -> list[CheckResult]:
    """Make the checks; ``begun`` and ``done`` are told as they go. Raises Unreachable when the cluster is gone."""
    rows = []
    unavailable = ""
    for check in checks:
        on_start(check)
        start = time.monotonic()
        if unavailable:
            row = CheckResult(check, "skipped", unavailable)
        else:
            row = await _run(session, check)
            if row.result in ("FAIL", "warn") and await session.unavailable():
                unavailable = await _restart_driver(session, check)
            if row.result == "FAIL" and check.name == "prepare":
                session.skip_reason = "preparing a single claim fails"
        row = row._replace(seconds=time.monotonic() - start)
        rows.append(row)
        on_result(row)
    return rows


async def _run(session: DriverSession, check: DriverCheck) -> CheckResult:
    if check.needs_command and session.life is None:
        return CheckResult(check, "skipped", _NO_COMMAND)
    try:
        return CheckResult(check, "pass", await check.run(session))
    except CheckSkipped as error:
        return CheckResult(check, "skipped", str(error))
    except CheckFailed as error:
        wanted = error.wanted or check.expected
        return CheckResult(check, "warn" if check.advice else "FAIL", error.seen, wanted, error.remedy)
    except StatusError as error:
        return CheckResult(check, "skipped", f"the cluster refused: {error}")


async def _restart_driver(session: DriverSession, check: DriverCheck) -> str:
    """Start the driver again where the kit can; else why the other checks cannot be made."""
    if session.life is not None:
        try:
            await session.kill()
            await session.start()
        except CheckFailed as error:
            return f"the driver does not come back since {check.name}: {error.seen.splitlines()[0]}"
        return ""
    return f"the driver does not answer since {check.name}: start it again, and the kit"
