"""Plans as text: cost, machines with their pods, unplaced pods, and rejected types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from allotment.cli.output.console import Screen, folded, table
from allotment.cli.plan.rejected_types import print_verdicts
from allotment.model.meta import ObjectKey
from allotment.phrases import counted
from allotment.planning.reasons.machine_groups import MachineGroup, group_machines
from allotment.planning.reasons.machine_layout import MachineLayout
from allotment.planning.reasons.wording import (
    abbreviated_names,
    dollars,
    plan_summary,
    saving_text,
    total,
    untried_text,
)
from allotment.planning.report import GroupVerdicts, PlannedMachine, PodPlacement, ProvisioningPlan, UnservedPod

#: Maximum number of pods of one workload on a machine that are listed individually.
_EACH: Final = 3
#: Maximum number of devices that are listed individually.
_NAMED: Final = 3
#: Maximum number of ranges of pod names.
_RUNS: Final = 4


def placement_lines(sort: MachineGroup, plain: bool) -> list[str]:
    """Return the pods on equal machines. ``plain``: omit the namespace, which is the same for all pods."""
    by_owner: dict[str, list[PodPlacement]] = {}
    for placement in sort.first.placements:
        by_owner.setdefault(placement.owner, []).append(placement)
    lines = []
    for owner, placements in by_owner.items():
        if len(sort.machines) == 1 and len(placements) <= _EACH:
            lines += [_line([_name(placement, plain)], _devices([placement])) for placement in placements]
            continue
        every = [_name(s, plain) for machine in sort.machines for s in machine.placements if s.owner == owner]
        text = _line(every, _devices(placements))
        lines.append(f"{text} on each" if len(sort.machines) > 1 else text)
    return lines


def _line(pods: Sequence[str], devices: str) -> str:
    names = _short(pods)
    return f"{names}  {devices}" if devices else names


def _short(pods: Sequence[str]) -> str:
    runs = abbreviated_names(sorted(pods, key=_order)).split(", ")
    return ", ".join(runs) if len(runs) <= _RUNS else f"{', '.join(runs[: _RUNS - 1])}, … ({len(pods)} pods)"


def _order(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)


def _name(placement: PodPlacement, plain: bool) -> str:
    return placement.pod.name if plain else str(placement.pod)


def _devices(placements: Iterable[PodPlacement]) -> str:
    """Return the devices of placements; a share has its amount, and its name if the amounts differ."""
    names: dict[str, None] = {}
    shares: dict[str, None] = {}
    for placement in placements:
        for claim in placement.claims:
            for device in claim.devices:
                names[device.device] = None
                if text := _share(device.share):
                    shares[text] = None
    found = list(names)
    text = ", ".join(found) if len(found) <= _NAMED else f"{found[0]} … {found[-1]}"
    if len(shares) == 1:
        text += f" ({next(iter(shares))} each)"
    elif shares:
        text += f" ({', '.join(shares) if len(shares) <= _NAMED else f'{len(shares)} amounts'})"
    return text


def _share(share: Mapping[str, str]) -> str:
    """Return the capacity of a share: ``9Gi``, or ``shares 2`` if it is not memory; zero capacities are omitted."""
    given = [(name, amount) for name, amount in share.items() if amount != "0"]
    return ", ".join(amount if name == "memory" else f"{name} {amount}" for name, amount in given)


DEFAULT_WIDTH: Final = 80
_HEADERS: Final = ("NODE", "TYPE", "ZONE", "CAPACITY", "USD/H", "GPUS", "FREE")
#: Columns to move below the row if the terminal is too narrow, in this order.
_MOVED: Final = ("ZONE", "CAPACITY", "GPUS")
_GIB: Final = 1 << 30
#: Default number of machine groups to print.
_SORTS: Final = 40


@dataclass(frozen=True, slots=True)
class Manner:
    """The level of detail. ``why``: a pattern of types whose verdicts are all printed; None for the nearest."""

    wide: bool = False
    why: str | None = None


def print_plan(screen: Screen, plan: ProvisioningPlan, manner: Manner, compared: Sequence[str] = ()) -> None:
    """Print the plan: cost, machines, existing nodes, unplaced pods, rejected types, relaxations, notes."""
    _answer(screen, plan)
    if plan.machines:
        screen.line()
        _machines(screen, plan, manner.wide)
    if plan.existing:
        screen.line()
        _existing(screen, plan.existing)
    if plan.unserved:
        screen.line()
        _unserved(screen, plan)
    if choices := plan.choices if manner.why is not None else _undecided(plan):
        screen.line()
        print_verdicts(screen, plan, choices, manner.why)
    if plan.relaxations:
        screen.line()
        _relaxations(screen, plan)
    if untried := untried_text(plan.untried):
        screen.line()
        _paragraph(screen, untried)
    if compared:
        screen.line()
        for line in compared:
            screen.line(line)
    if plan.notes:
        screen.line()
        for note in plan.notes:
            _paragraph(screen, f"note: {note}")


def _undecided(plan: ProvisioningPlan) -> tuple[GroupVerdicts, ...]:
    """Return the verdicts for pods that are not placed on existing nodes."""
    housed = {placement.pod for placement in plan.existing}
    return tuple(choice for choice in plan.choices if not housed.issuperset(choice.pods))


def _paragraph(screen: Screen, text: str, indent: str = "") -> None:
    for line in folded(text, screen.width or DEFAULT_WIDTH, indent):
        screen.line(line)


def _answer(screen: Screen, plan: ProvisioningPlan) -> None:
    """Print two lines: the machines with their cost, and the numbers of pods by placement."""
    provisioned = sum(len(machine.placements) for machine in plan.machines)
    there, left = len(plan.existing), len(plan.unserved)
    if not provisioned and not there and not left:
        screen.line("No pod or claim is pending: no machines are needed.")
        return
    words = plan_summary(plan)
    screen.line(screen.paint(f"{words[0].upper()}{words[1:]}", "red" if left else "green"))
    parts = [f"{counted(provisioned, 'pod')} on new machines"] if provisioned else []
    parts += [f"{counted(there, 'pod')} on existing nodes"] if there else []
    parts += [f"{counted(left, 'pod')} not placed"] if left else []
    _paragraph(screen, f"{', '.join(parts)}.")


# --- machines -------------------------------------------------------------------------------------------------------


def _machines(screen: Screen, plan: ProvisioningPlan, wide: bool) -> None:
    every = group_machines(plan.machines)
    sorts = every if wide else every[:_SORTS]
    headers = [*_HEADERS, *(("CPU", "MEMORY") if wide else ())]
    rows = [_row(sort, wide) for sort in sorts]
    columns = list(range(len(headers)))
    width = screen.width
    moved: list[int] = []
    if width is not None and not wide:
        for name in _MOVED:
            if max(map(len, _lines(headers, rows, columns))) <= width:
                break
            columns.remove(at := headers.index(name))
            moved.append(at)
    first, *lines = _lines(headers, rows, columns)
    screen.line(first)
    namespaces = {placement.pod.namespace for machine in plan.machines for placement in machine.placements}
    for sort, row, line in zip(sorts, rows, lines, strict=True):
        screen.line(line)
        facts = [row[at] for at in sorted(moved)]
        facts += [text] if (text := _layout(sort)) else []
        if facts:
            _paragraph(screen, screen.paint(", ".join(facts), "dim"), "  ")
        for text in placement_lines(sort, plain=len(namespaces) == 1):
            _paragraph(screen, text, "  ")
    if rest := every[len(sorts) :]:
        machines = counted(sum(len(sort.machines) for sort in rest), "more machine")
        cost = dollars(total(sort.total for sort in rest))
        screen.line(f"and {machines} of {counted(len(rest), 'more kind')}, {cost} USD/h (-o wide shows all)")


def _lines(headers: Sequence[str], rows: Iterable[Sequence[str]], columns: Sequence[int]) -> list[str]:
    return table([headers[at] for at in columns], ([row[at] for at in columns] for row in rows), None)


def _row(sort: MachineGroup, wide: bool) -> list[str]:
    machine, count = sort.first, len(sort.machines)
    price = dollars(machine.usd_per_hour)
    cells = [
        _nodes(sort),
        machine.instance,
        machine.zone or "any",
        machine.capacity_type,
        f"{count} × {price}" if count > 1 else price,
        machine.form.partition("/")[0],
        free_of(sort.layout) or _free_cpu(machine),
    ]
    if wide:
        cpu = sum(placement.cpu_milli for placement in machine.placements)
        memory = sum(placement.memory for placement in machine.placements)
        cells += [f"{_cores(cpu)}/{_cores(machine.cpu_milli)}", f"{memory / _GIB:.0f}/{machine.memory / _GIB:.0f}Gi"]
    return cells


def _free_cpu(machine: PlannedMachine) -> str:
    """Return the free cpu of a machine without GPUs."""
    return f"{_cores(machine.cpu_milli - sum(placement.cpu_milli for placement in machine.placements))} CPU"


def _cores(milli: int) -> str:
    return f"{milli / 1000:.1f}".removesuffix(".0")


def _nodes(sort: MachineGroup) -> str:
    names = [machine.node for machine in sort.machines]
    short = abbreviated_names(names)
    return short if "," not in short else f"{names[0]} +{len(names) - 1}"


def _layout(sort: MachineGroup) -> str:
    """Return how the GPUs are partitioned or shared; empty for whole GPUs."""
    layouts = dict.fromkeys(_pieces(layout) for layout in sort.first.layout)
    if any(layouts):
        return "MIG " + " / ".join(text or "whole" for text in layouts)
    mode = sort.first.form.partition("/")[2]
    return f"mode {mode}" if mode else ""


def _pieces(layout: Sequence[str]) -> str:
    return " + ".join(f"{layout.count(name)} × {name}" for name in dict.fromkeys(layout))


def free_of(inside: MachineLayout) -> str:
    """Return the free devices: whole GPUs, partitions, and the free fraction of shared GPUs."""
    rest = sum(float(1 - gpu.allocated) for gpu in inside.gpus if gpu.allocated and gpu.is_whole)
    if rest >= 0.005:
        found = [f"{rest:.0%} of a GPU" if inside.idle + rest < 1 else f"{inside.idle + rest:.2f} GPUs"]
    else:
        found = [counted(inside.idle, "GPU")] if inside.idle else []
    found += [f"{number} × {kind}" for kind, number in inside.spare]
    return ", ".join(found) or ("0" if inside.gpus else "")


# --- pods -----------------------------------------------------------------------------------------------------------


def _existing(screen: Screen, placements: Sequence[PodPlacement]) -> None:
    screen.line("On existing nodes:")
    by_node: dict[str, list[str]] = {}
    for placement in placements:
        by_node.setdefault(placement.node, []).append(str(placement.pod))
    for node, pods in by_node.items():
        _paragraph(screen, f"{node}: {abbreviated_names(pods)}", "  ")


def _unserved(screen: Screen, plan: ProvisioningPlan) -> None:
    screen.line(screen.paint("Not placed:", "red"))
    for pods, pod in _group_unserved(plan.unserved):
        owner = f" ({pod.owner})" if pod.owner else ""
        _paragraph(screen, f"{_names(pods)}{owner}: {pod.text} [{pod.code}]", "  ")
        if pod.nearest and pod.code != "run-time-only":  # without known capacity no type is nearer than another
            _paragraph(screen, f"nearest: {', '.join(pod.nearest[:3])}", "    ")
        for change in pod.reasons.headline.changes[:1] if pod.reasons is not None else ():
            where = f" ({change.object}: {change.path})" if change.object else ""
            _paragraph(screen, f"would be placed with: {change.text}{where}", "    ")


def _names(pods: Sequence[ObjectKey]) -> str:
    return abbreviated_names([str(pod) for pod in pods])


def _group_unserved(unserved: Iterable[UnservedPod]) -> Iterator[tuple[list[ObjectKey], UnservedPod]]:
    """Yield groups of pods of one workload that are rejected for the same reason."""
    groups: dict[tuple[str, str, str], tuple[list[ObjectKey], UnservedPod]] = {}
    for pod in unserved:
        groups.setdefault((pod.owner, pod.code, pod.text), ([], pod))[0].append(pod.pod)
    yield from groups.values()


# --- other ----------------------------------------------------------------------------------------------------------


def _relaxations(screen: Screen, plan: ProvisioningPlan) -> None:
    screen.line("Savings from relaxing one requirement:")
    for relaxation in plan.relaxations:
        _paragraph(screen, f"{relaxation.what}: {saving_text(plan.total, relaxation.total)}", "  ")
        where = f"{relaxation.object}: {relaxation.path}" if relaxation.object else relaxation.path
        if where:
            _paragraph(screen, screen.paint(where, "dim"), "    ")
