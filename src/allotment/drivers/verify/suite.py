"""All checks in order (those without devices first, those that stop the driver last), and their execution."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from allotment.cluster.errors import StatusError
from allotment.drivers.verify import (
    concurrency,
    health,
    prepare,
    publishing,
    registration,
    rejections,
    restarts,
    unprepare,
)
from allotment.drivers.verify.check import CheckResult, DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped

CHECKS: Final[tuple[DriverCheck, ...]] = (
    *registration.CHECKS,
    *publishing.CHECKS,
    *prepare.CHECKS,
    *unprepare.CHECKS,
    *rejections.CHECKS,
    *concurrency.CHECKS,
    *health.CHECKS,
    *restarts.CHECKS,
)


_NO_COMMAND = "requires the driver's command: this check starts and stops it"


async def verify(
    session: DriverSession,
    on_start: Callable[[DriverCheck], None],
    on_result: Callable[[CheckResult], None],
    checks: Iterable[DriverCheck] = CHECKS,
) -> list[CheckResult]:
    """Run the checks one after the other, even if some fail, with callbacks before and after each.

    Raises Unreachable if the cluster is not reachable.
    """
    results = []
    unavailable = ""
    for check in checks:
        on_start(check)
        start = time.monotonic()
        if unavailable:
            result = CheckResult(check, "skipped", unavailable)
        else:
            result = await _run(session, check)
            if result.result in ("FAIL", "warn") and await session.unavailable():
                unavailable = await _restart_driver(session, check)
            if result.result == "FAIL" and check.name == "prepare":
                session.skip_reason = "preparing a single claim fails"
        result = result._replace(seconds=time.monotonic() - start)
        results.append(result)
        on_result(result)
    return results


async def _run(session: DriverSession, check: DriverCheck) -> CheckResult:
    if check.needs_command and session.process is None:
        return CheckResult(check, "skipped", _NO_COMMAND)
    try:
        return CheckResult(check, "pass", await check.run(session))
    except CheckSkipped as error:
        return CheckResult(check, "skipped", str(error))
    except CheckFailed as error:
        expected = error.expected or check.expected
        return CheckResult(check, "warn" if check.advice else "FAIL", error.seen, expected, error.remedy)
    except StatusError as error:
        return CheckResult(check, "skipped", f"rejected by the cluster: {error}")


async def _restart_driver(session: DriverSession, check: DriverCheck) -> str:
    """Restart the driver if possible; return why the remaining checks cannot run, or ""."""
    if session.process is not None:
        try:
            await session.kill()
            await session.start()
        except CheckFailed as error:
            return f"the driver has not restarted since {check.name}: {error.seen.splitlines()[0]}"
        return ""
    return f"the driver has not responded since {check.name}: restart it, and run this command again"
