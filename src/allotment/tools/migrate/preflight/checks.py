"""Runs all pre-flight checks, in the order of the output: the greatest danger first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from allotment.tools.migrate.preflight.admin_access import check_admin_access
from allotment.tools.migrate.preflight.charts import check_charts
from allotment.tools.migrate.preflight.check import Check
from allotment.tools.migrate.preflight.dependents import check_dependents
from allotment.tools.migrate.preflight.double_allocation import check_double_allocation
from allotment.tools.migrate.preflight.driver import check_driver
from allotment.tools.migrate.preflight.facts import Facts
from allotment.tools.migrate.preflight.mig import check_mig
from allotment.tools.migrate.preflight.quotas import check_quotas
from allotment.tools.migrate.preflight.release import check_release
from allotment.tools.migrate.preflight.runtime import check_runtime
from allotment.tools.migrate.preflight.sharing import check_sharing
from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.simulation.comparison import Comparison

_CHECKS: Final[tuple[Callable[[Facts], Iterator[Check]], ...]] = (
    check_double_allocation,
    check_release,
    check_driver,
    check_sharing,
    check_mig,
    check_admin_access,
    check_charts,
    check_runtime,
    check_quotas,
    check_dependents,
)


def checks_of(migration: Migration, trial: Comparison | None) -> tuple[Check, ...]:
    """The results of all checks; empty if no workload requests devices."""
    if not migration.workloads:
        return ()
    facts = Facts(migration, trial)
    return tuple(check for look in _CHECKS for check in look(facts))
