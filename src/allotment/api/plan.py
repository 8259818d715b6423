"""``plan``: the cheapest machines for pending pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import inf
from os import PathLike, fspath

from msgspec.structs import replace

from allotment.api.cluster import Cluster
from allotment.api.load import Source
from allotment.api.plans.catalog import select_catalog
from allotment.api.plans.inputs import plan_inputs
from allotment.api.plans.limits import plan_limits
from allotment.api.plans.search_control import SearchControl
from allotment.api.question import Question
from allotment.errors import InputError
from allotment.planning.limits import CapacityPolicy
from allotment.planning.machine_plan import MachinePlan
from allotment.shell_words import shell_line


def plan(
    objects: Source | None = None,
    cluster: Cluster | None = None,
    *,
    only: str = "",
    catalog: Sequence[str | PathLike[str]] = (),
    types: Sequence[str] = (),
    exclude_types: Sequence[str] = (),
    zones: Sequence[str] = (),
    capacity_type: CapacityPolicy = "on-demand",
    max_spot: Decimal | float | str | None = None,
    budget: Decimal | float | str | None = None,
    max_machines: int | None = None,
    max_per_type: Mapping[str, int] = {},
    modes: Sequence[str] = (),
    time_limit: float | None = None,
    seed: int = 0,
    compare: bool = False,
    namespace: str | None = None,
) -> MachinePlan:
    """Return the cheapest machines for pending pods, with a proven bound, and why each type was taken or not.

    ``objects``: workloads, pods and claims to plan for; without them, all pending pods of ``cluster``, by default the
    running one. With ``objects``, pending pods of the cluster are not planned for; a note counts them. ``only``: a name
    or ``kind/name`` among these. ``namespace``: that of objects which state none.

    ``catalog``: providers (``"aws"``) and CSV files that add types and prices; by default all packaged types.
    ``types``, ``exclude_types``: patterns such as ``"aws/g5.*"``. ``zones``: by name. ``max_spot``: the maximum share
    of spot machines (``"50%"`` or 0.5) for capacity type ``cheapest``. ``budget``: USD per hour of all machines.
    ``max_per_type``: the maximum number of machines by pattern. ``modes``: the modes of GPUs to consider; by default
    those that claims require.

    ``time_limit``: seconds to search for; by default a number of steps, with the same plan on every machine; 0: no
    search and no relaxations. ``compare``: also return the cost under other autoscalers' rules.

    Raises InputError for invalid arguments, InvalidManifests for objects, StatusError and Unreachable for a cluster.
    """
    chosen = select_catalog(catalog)
    limits = plan_limits(
        chosen,
        types=types,
        exclude_types=exclude_types,
        zones=zones,
        capacity_type=capacity_type,
        max_spot=max_spot,
        budget=budget,
        max_machines=max_machines,
        max_per_type=max_per_type,
        modes=modes,
    )
    seconds = search_seconds(time_limit)
    question = Question.of(objects, cluster, namespace)
    found = plan_inputs(question, chosen, limits, only).plan(SearchControl(seconds), seed=seed, comparison=compare)
    if not found.unserved or not question.is_repeatable:
        return found
    options = (
        ("-n", [namespace or ""]),
        ("--only", [only]),
        ("--catalog", [fspath(each) for each in ((catalog,) if isinstance(catalog, str) else catalog)]),
        ("--types", limits.types),
        ("--exclude-types", limits.excluded_types),
        ("--zones", limits.zones),
        ("--capacity-type", ["" if capacity_type == "on-demand" else capacity_type]),
        ("--max-spot", [_text(max_spot)]),
        ("--budget", [_text(budget)]),
        ("--max-machines", [_text(max_machines)]),
        ("--max-per-type", [f"{pattern}={number}" for pattern, number in limits.max_by_pattern]),
        ("--modes", limits.modes),
        ("--time-limit", [_text(time_limit)]),
        ("--seed", [str(seed) if seed else ""]),
    )
    words = [word for option, values in options for value in values if value for word in (option, value)]
    command = (
        "allot",
        "plan",
        *question.files,
        *question.options,
        *words,
        *(("--compare",) if compare else ()),
        "--why",
    )
    return replace(found, next=shell_line(command))


def search_seconds(time_limit: float | None) -> float:
    """Return the seconds of a search; infinite without a limit. Raises InputError."""
    if time_limit is not None and not 0 <= time_limit < inf:
        raise InputError(f"expected a number >= 0, found {time_limit:g}", argument="time_limit")
    return inf if time_limit is None else time_limit


def _text(value: object) -> str:
    return "" if value is None else str(value)
