"""``allot plan``: plans the cheapest machines for pending pods, with reasons, savings, comparisons and a diagram."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from allotment.api.plan import search_seconds
from allotment.api.plans.catalog import Catalog, select_catalog
from allotment.api.plans.inputs import plan_inputs
from allotment.api.question import Question
from allotment.cli.inputs.catalogs import limits_of, report_problems
from allotment.cli.inputs.clusters import cluster_errors_of, cluster_of, objects_of
from allotment.cli.output.console import Screen, open_screen
from allotment.cli.plan.comparison import comparison_lines
from allotment.cli.plan.progress import watching
from allotment.cli.plan.text_output import Manner, print_plan
from allotment.errors import InputError
from allotment.explanation.text import NEXT
from allotment.extras import require
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.errors import suggestion
from allotment.planning.limits import PlanLimits
from allotment.planning.machine_plan import MachinePlan
from allotment.planning.reasons.type_verdicts import MAX_GROUPS
from allotment.planning.report import ProvisioningPlan
from allotment.shell_words import shell_line

EXIT_SERVED, EXIT_NOT_SERVED = 0, 1
_PICTURES: Final = (".svg", ".png")
#: With --why, verdicts of all groups are printed.
_ALL: Final = 10_000


def run(arguments: Namespace) -> int:
    """Plan, and return 0 if all pods are placed and all rows of the catalog are valid, else 1."""
    screen = open_screen()
    if arguments.paths:
        arguments.files = [*arguments.files, arguments.paths]
    if arguments.picture:  # the solver is optional: without it the bound is weaker
        require("allot plan", "plan", modules=("matplotlib",))
        _check_picture(arguments.picture)
    seconds = search_seconds(arguments.time_limit)
    catalog = select_catalog(arguments.catalog)
    _known_why(arguments.why, catalog.types)
    limits = limits_of(arguments, catalog)
    found = _planned(arguments, catalog, limits, seconds)
    if arguments.picture:
        _draw(found, arguments.picture)
    _write(screen, arguments, found, catalog)
    complained = report_problems(catalog) if arguments.output not in ("json", "yaml") else bool(catalog.problems)
    return EXIT_NOT_SERVED if found.unserved or complained else EXIT_SERVED


def _planned(arguments: Namespace, catalog: Catalog, limits: PlanLimits, seconds: float) -> MachinePlan:
    """Return the plan, with the next command in the words of the user."""
    cluster = cluster_of(arguments)
    with cluster_errors_of(cluster):
        question = Question.of(objects_of(arguments), cluster, arguments.namespace)
        inputs = plan_inputs(question, catalog, limits, arguments.only or "")
    groups = MAX_GROUPS if arguments.why is None else _ALL
    with watching(seconds) as watch:
        found = inputs.plan(watch, seed=arguments.seed, comparison=arguments.compare, most_groups=groups)
    if not found.unserved or arguments.why is not None:
        return found
    return replace(found, next=shell_line(("allot", *arguments.words, "--why")))


def _check_picture(name: str) -> None:
    """Check before the search that the picture can be written. Raises InputError."""
    path = Path(name)
    if path.suffix.lower() not in _PICTURES:
        hint = f"for example plan{_PICTURES[0]}"
        raise InputError(f"--picture: expected a name that ends in {' or '.join(_PICTURES)}, found {name!r}", hint)
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"--picture {path}: directory not found: {folder}")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"--picture {path}: not writable")


def _known_why(pattern: str | None, catalog: Sequence[InstanceType]) -> None:
    """Check that ``--why`` matches a type of the catalog. Raises InputError."""
    keys = [instance_type.key for instance_type in catalog]
    if pattern is not None and not any(fnmatchcase(key, pattern) or pattern in key for key in keys):
        raise InputError(
            f"--why: no type in the catalog matches {pattern!r}",
            suggestion(pattern, keys) or "allot catalog lists all types",
        )


def _draw(found: ProvisioningPlan, path: str) -> None:
    from allotment.cli.charts.plan import draw

    draw(found, path)
    sys.stderr.write(f"Wrote {path}.\n")


def _write(screen: Screen, arguments: Namespace, found: MachinePlan, catalog: Catalog) -> None:
    match arguments.output:
        case "json" | "yaml":
            screen.data(found.to_dict(), arguments.output)
        case "nodeclaims":
            from allotment.cli.plan.manifest_output import nodeclaims

            screen.out.write(nodeclaims(found.machines, arguments.node_class))
        case "machines":
            from allotment.cli.plan.manifest_output import nodes

            screen.out.write(nodes(found.machines, catalog.types))
        case _:
            manner = Manner(wide=arguments.output == "wide", why=arguments.why)
            compared = comparison_lines(found.compared, found.total) if found.compared is not None else ()
            print_plan(screen, found, manner, compared)
            if found.next:
                screen.line()
                screen.line(f"{NEXT}{found.next}")
