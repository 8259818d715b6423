"""The checks made, one after the other; what one of them finds does not keep the others from being made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from allotment.cluster.errors import StatusError
from allotment.drivers.verify.check import Check, Row
from allotment.drivers.verify.driver_under_test import Trial
from allotment.drivers.verify.suite import CHECKS
from allotment.drivers.verify.verdict import NotChecked, Wrong

_NO_COMMAND = "needs --command: the kit must start the driver itself"


async def verify(
    trial: Trial, begun: Callable[[Check], None], done: Callable[[Row], None], checks: Iterable[Check] = CHECKS
) -> list[Row]:
    """Make the checks; ``begun`` and ``done`` are told as they go. Raises Unreachable when the cluster is gone."""
    rows = []
    dead = ""
    for check in checks:
        begun(check)
        began = time.monotonic()
        if dead:
            row = Row(check, "skipped", dead)
        else:
            row = await _made(trial, check)
            if row.result in ("FAIL", "warn") and await trial.alive():
                dead = await _revived(trial, check)
            if row.result == "FAIL" and check.name == "prepare":
                trial.hopeless = "preparing a single claim fails"
        row = row._replace(seconds=time.monotonic() - began)
        rows.append(row)
        done(row)
    return rows


async def _made(trial: Trial, check: Check) -> Row:
    if check.needs_command and trial.life is None:
        return Row(check, "skipped", _NO_COMMAND)
    try:
        return Row(check, "pass", await check.run(trial))
    except NotChecked as error:
        return Row(check, "skipped", str(error))
    except Wrong as error:
        wanted = error.wanted or check.expected
        return Row(check, "warn" if check.advice else "FAIL", error.seen, wanted, error.remedy)
    except StatusError as error:
        return Row(check, "skipped", f"the cluster refused: {error}")


async def _revived(trial: Trial, check: Check) -> str:
    """Start the driver again where the kit can; else why the other checks cannot be made."""
    if trial.life is not None:
        try:
            await trial.kill()
            await trial.start()
        except Wrong as error:
            return f"the driver does not come back since {check.name}: {error.seen.splitlines()[0]}"
        return ""
    return f"the driver does not answer since {check.name}: start it again, and the kit"
