"""``allot plan``: plans the cheapest machines for pending pods, with reasons, savings, comparisons and a diagram."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from allotment.api.inputs import Inputs
from allotment.api.unread_resources import NEEDED, OF_DEVICES, OF_PODS, must_know
from allotment.cli.inputs.objects import is_live, read_inputs
from allotment.cli.output.console import Screen, open_screen
from allotment.cli.output.errors import describe
from allotment.cli.plan.comparison import BaselineComparison, compare, comparison_lines
from allotment.cli.plan.json_output import data_of
from allotment.cli.plan.limits import limits_of
from allotment.cli.plan.objects import to_plan
from allotment.cli.plan.offerings import Offered, offered
from allotment.cli.plan.progress import steps_for, watching
from allotment.cli.plan.text_output import Manner, print_plan
from allotment.errors import InputError, InvalidManifests
from allotment.explanation.text import NEXT
from allotment.extras import require
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.errors import suggestion
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.packing.step_limit import StepLimit
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import read_demand
from allotment.planning.placement.nominations import place_nominated_pods
from allotment.planning.planner import plan_demand
from allotment.planning.reasons.type_verdicts import MAX_GROUPS, group_verdicts
from allotment.planning.relaxations.savings import relaxations
from allotment.planning.relaxations.uncordoning import cordoned_nodes_that_fit
from allotment.planning.report import ProvisioningPlan, UntriedRelaxations
from allotment.tools.unread import unread_notes, unread_resources

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
    _check(arguments)
    offer = offered(arguments.catalog)
    _known_why(arguments.why, offer.catalog.types)
    limits = limits_of(arguments, offer.providers, offer.catalog.types)
    inputs, notes = _inputs(arguments)
    must_know(inputs.cluster, *OF_DEVICES, *OF_PODS)
    unread = unread_resources(inputs.cluster, NEEDED)
    chosen = to_plan(inputs.cluster, inputs.queried, arguments.only)
    nominated = place_nominated_pods(chosen.values, inputs.features)
    found, compared = _planned(arguments, nominated.objects, offer, limits, inputs.features)
    found = replace(
        found,
        notes=tuple(dict.fromkeys((*notes, *unread_notes(unread), *chosen.notes, *found.notes))),
        existing=(*nominated.placements, *found.existing),
    )
    if arguments.picture:
        _draw(found, arguments.picture)
    _write(screen, arguments, found, offer, compared)
    complained = offer.catalog.complain() if arguments.output not in ("json", "yaml") else bool(offer.catalog.problems)
    return EXIT_NOT_SERVED if found.unserved or complained else EXIT_SERVED


def _check(arguments: Namespace) -> None:
    """Validate the options before any input is read."""
    if arguments.picture and Path(arguments.picture).suffix.lower() not in _PICTURES:
        hint = f"for example plan{_PICTURES[0]}"
        raise InputError(
            f"--picture: expected a name that ends in {' or '.join(_PICTURES)}, found {arguments.picture!r}", hint
        )
    if arguments.time_limit is not None and not 0 <= arguments.time_limit < float("inf"):
        raise InputError(f"--time-limit: expected a number >= 0, found {arguments.time_limit:g}")
    if arguments.picture:
        _can_draw(Path(arguments.picture))


def _can_draw(path: Path) -> None:
    """Check before the search that the picture can be written. Raises InputError."""
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


def _inputs(arguments: Namespace) -> tuple[Inputs, tuple[str, ...]]:
    """Return the objects of files, snapshots and live clusters."""
    if not is_live(arguments):
        return read_inputs(arguments), ()
    from allotment.cli.live.cluster_state import live_inputs
    from allotment.cluster.inspection.snapshot import DEVICES, PODS, VOLUMES, SnapshotResource

    return live_inputs(arguments, (*DEVICES, *PODS, *VOLUMES, SnapshotResource("apps", "daemonsets")))


def _planned(
    arguments: Namespace, values: Sequence[Object], offer: Offered, limits: PlanLimits, features: Features
) -> tuple[ProvisioningPlan, BaselineComparison | None]:
    """Return the plan with the verdicts per type and the savings of relaxations."""
    catalog = offer.catalog.types
    # Without a time limit of the user, the work is limited in steps, so that the plan is the same on every machine.
    seconds = inf if arguments.time_limit is None else arguments.time_limit
    demand = read_demand(values, features)
    with watching(seconds) as watch:
        limit = StepLimit(steps_for(values), watch.keep_going)
        keep_going = limit if arguments.time_limit is None else watch.keep_going
        found = plan_demand(
            demand, catalog, limits, keep_going=keep_going, seed=arguments.seed, progress=watch.progress
        )
        if seconds and found.total > found.bound and (limit.exhausted or not watch.keep_going()):
            end = f"after {limit.count} steps" if limit.exhausted else f"after {seconds:g} s"
            end = "by Ctrl-C" if watch.stopped else end
            note = f"the search for machines was ended {end}; with a longer --time-limit the plan may be cheaper"
            found = replace(found, notes=(*found.notes, note))
        cordoned = (each.note for each in cordoned_nodes_that_fit(values, found, limits, features))
        found = replace(found, notes=(*cordoned, *found.notes))
        most = MAX_GROUPS if arguments.why is None else _ALL
        found = replace(found, choices=group_verdicts(demand, catalog, limits, features, most))
        compared = compare(demand, catalog, limits) if arguments.compare else None
        if watch.stopped:
            found = replace(found, untried=UntriedRelaxations(limit="time"))
        elif seconds:  # with --time-limit 0, relaxations are skipped
            watch.restart(seconds)
            watch.show("evaluating relaxations  (Ctrl-C: skip)")
            more = relaxations(values, found, catalog, limits, features, keep_going=watch.keep_going)
            found = replace(found, relaxations=more.relaxations, untried=more.untried)
    return found, compared


def _draw(found: ProvisioningPlan, path: str) -> None:
    from allotment.cli.charts.plan import draw

    draw(found, path)
    sys.stderr.write(f"Wrote {path}.\n")


def _write(
    screen: Screen, arguments: Namespace, found: ProvisioningPlan, offer: Offered, compared: BaselineComparison | None
) -> None:
    match arguments.output:
        case "json" | "yaml":
            data = data_of(found, _problems(offer), compared.data if compared is not None else None)
            step = _next_step(arguments, found)
            screen.data({**data, **({"next": step} if step else {})}, arguments.output)
        case "nodeclaims":
            from allotment.cli.plan.manifest_output import nodeclaims

            screen.out.write(nodeclaims(found.machines, arguments.node_class))
        case "machines":
            from allotment.cli.plan.manifest_output import nodes

            screen.out.write(nodes(found.machines, offer.catalog.types))
        case _:
            manner = Manner(wide=arguments.output == "wide", why=arguments.why)
            print_plan(screen, found, manner, comparison_lines(compared, found) if compared is not None else ())
            if step := _next_step(arguments, found):
                screen.line()
                screen.line(f"{NEXT}{step}")


def _next_step(arguments: Namespace, found: ProvisioningPlan) -> str:
    """Return the command that lists why each type is rejected, if a pod is not placed and they are not listed yet."""
    if not found.unserved or arguments.why is not None:
        return ""
    return shlex.join(("allot", *arguments.words, "--why"))


def _problems(offer: Offered) -> tuple[dict[str, Any], ...]:
    """Return the rejected rows of the catalog as data."""
    if not offer.catalog.problems:
        return ()
    described = describe(InvalidManifests(offer.catalog.problems, dict(offer.catalog.texts).get))
    return tuple(described.data["problems"]) if described is not None else ()
