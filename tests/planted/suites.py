"""The suites that must notice planted faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests import preload
from tests.power_cut import cuts
from tests.power_cut import faults as power_cut_faults
from tests.power_cut.recording import compiled
from tests.storm import driver_faults, drivers, faults, pauses, storm

#: Kills after which a fault must have been noticed.
_CYCLES: Final = 15
_DRIVER_CYCLES: Final = 60
#: States of each subject after a power cut.
_POINTS: Final = 400
_SETTLE_SECONDS: Final = 15.0
_NEEDED: Final = "this requires Linux and a C compiler"


class NotTested(Exception):
    """Raised when this machine cannot run a suite."""


class PlantedFault(NamedTuple):
    """``find`` runs the suite in an empty folder and returns its report, empty if it noticed nothing.

    ``noticed``: a part of the expected report.
    """

    find: Callable[[Path], str]
    noticed: str


def _in_storm(fault: str, folder: Path) -> str:
    try:
        asyncio.run(
            storm.storm(folder, cycles=_CYCLES, seed=1, fault=fault, longest=1.0, settle_seconds=_SETTLE_SECONDS)
        )
    except storm.InvariantViolated as error:
        return str(error)
    return ""


def _in_driver_storm(fault: str, folder: Path) -> str:
    try:
        drivers.Storm(folder, 1, fault).run(_DRIVER_CYCLES)
    except drivers.InvariantViolated as error:
        return str(error)
    return ""


def _in_power_cut(fault: str, folder: Path) -> str:
    library = compiled(folder)
    if library is None:
        raise NotTested(_NEEDED)
    for name in ("store", "files"):
        operations = cuts.recorded(library, name, folder, fault)
        for found in cuts.cut(name, operations, folder, points=_POINTS, seed=1, stop_after=1).cuts:
            return found.problem
    return ""


def _in_pauses(fault: str, folder: Path) -> str:
    library = preload.compiled(pauses.CLOCKS, folder)
    if library is None:
        raise NotTested(_NEEDED)
    try:
        asyncio.run(pauses.PausedLab(folder, library, fault).run(pauses.PAUSES))
    except pauses.Disrupted as error:
        return str(error)
    return ""


FAULTS: Final[Mapping[str, PlantedFault]] = {
    **{name: PlantedFault(partial(_in_pauses, name), fault.noticed) for name, fault in faults.PAUSE_FAULTS.items()},
    **{name: PlantedFault(partial(_in_storm, name), fault.noticed) for name, fault in faults.FAULTS.items()},
    **{
        name: PlantedFault(partial(_in_driver_storm, name), fault.noticed)
        for name, fault in driver_faults.FAULTS.items()
    },
    **{
        f"{name}, and the power is cut": PlantedFault(partial(_in_power_cut, name), "")
        for name in power_cut_faults.FAULTS
    },
}
