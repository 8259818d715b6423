"""Reads ``--catalog``, reports rows that are ignored, and parses the limits of plans."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from allotment.api.plans.catalog import Catalog, select_catalog
from allotment.api.plans.limits import plan_limits
from allotment.cli.output.console import width_of
from allotment.cli.output.errors import describe
from allotment.fleet.catalog import InstanceType
from allotment.planning.limits import PlanLimits


def report_problems(catalog: Catalog) -> int:
    """Report ignored rows on standard error, and return the exit code; valid rows are used nevertheless."""
    if not catalog.problems:
        return 0
    described = describe(catalog.error, width_of(sys.stderr))
    assert described is not None
    sys.stderr.write("".join(f"{line}\n" for line in described.lines))
    return 1


def selected_types(words: Sequence[str]) -> tuple[InstanceType, ...]:
    """Return the types of ``--catalog``; ignored rows are reported on standard error. Raises InputError."""
    catalog = select_catalog(words)
    report_problems(catalog)
    return catalog.selected_types


def checked_catalog(words: Sequence[str]) -> tuple[str, ...]:
    """Return the values of ``--catalog``; ignored rows are reported on standard error. Raises InputError."""
    report_problems(select_catalog(words))
    return tuple(words)


def limits_of(arguments: Namespace, catalog: Catalog) -> PlanLimits:
    """Return the limits of the options. Raises InputError for an invalid one."""
    return plan_limits(
        catalog,
        types=arguments.types,
        exclude_types=arguments.exclude_types,
        zones=arguments.zones,
        capacity_type=arguments.capacity_type,
        max_spot=arguments.max_spot,
        budget=arguments.budget,
        max_machines=arguments.max_machines,
        max_per_type=arguments.max_per_type,
        modes=arguments.modes,
    )
