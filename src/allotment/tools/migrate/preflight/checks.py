"""All checks of the pre-flight, in the order in which they are told: the greatest danger first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from allotment.tools.migrate.preflight.admin_access import admission
from allotment.tools.migrate.preflight.charts import charts
from allotment.tools.migrate.preflight.check import Check
from allotment.tools.migrate.preflight.dependents import watching
from allotment.tools.migrate.preflight.double_allocation import twice
from allotment.tools.migrate.preflight.driver import driver
from allotment.tools.migrate.preflight.facts import Facts
from allotment.tools.migrate.preflight.mig import mig
from allotment.tools.migrate.preflight.quotas import quotas
from allotment.tools.migrate.preflight.release import release
from allotment.tools.migrate.preflight.runtime import runtime
from allotment.tools.migrate.preflight.sharing import sharing
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.simulation.comparison import Comparison

_CHECKS: Final[tuple[Callable[[Facts], Iterator[Check]], ...]] = (
    twice,
    release,
    driver,
    sharing,
    mig,
    admission,
    charts,
    runtime,
    quotas,
    watching,
)


def checks_of(migration: Migration, trial: Comparison | None) -> tuple[Check, ...]:
    """What must hold before the new manifests are applied; nothing where no workload asks for anything."""
    if not migration.workloads:
        return ()
    facts = Facts(migration, trial)
    return tuple(check for look in _CHECKS for check in look(facts))
