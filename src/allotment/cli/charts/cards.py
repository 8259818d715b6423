"""Draws a group of equal machines as a card: type and price, GPUs side by side, and the pods on each GPU.

All lengths are inches, with the origin at the lower left corner of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.patches import FancyBboxPatch, Rectangle

from allotment.cli.charts.palette import EDGE, FAINT, FREE, INK, OTHER, PAPER, TRACK, ink_on
from allotment.cli.charts.text_metrics import FAMILY, fitted, width_of
from allotment.planning.reasons.machine_groups import MachineGroup
from allotment.planning.reasons.machine_layout import GpuLayout, GpuPart
from allotment.planning.reasons.refusal_text import short_name
from allotment.planning.reasons.wording import dollars, workload_of
from allotment.planning.report import PodPlacement

#: Maximum width of a GPU.
_WIDEST_GPU: Final = 2.5
_GAP: Final = 0.06
_STRIP: Final = 0.07
HATCH: Final = "////"


@dataclass(frozen=True, slots=True)
class Frame:
    """The position of a card. ``labels_at_side``: its text is to the left of the machine, not above it."""

    x: float
    y: float
    width: float
    height: float
    labels_at_side: bool


def label(axes: Any, x: float, y: float, text: str, size: float, colour: str = INK, **more: Any) -> None:
    """Draw a text at a position; ``ha`` and ``va`` as in matplotlib."""
    weight = "bold" if more.pop("bold", False) else "normal"
    settings = {"ha": "left", "va": "center", **more}
    axes.text(x, y, text.replace("$", r"\$"), fontsize=size, color=colour, family=FAMILY, weight=weight, **settings)


def draw_card(axes: Any, sort: MachineGroup, frame: Frame, colours: Mapping[str, str]) -> None:
    """Draw a group of machines in its frame."""
    words = 2.75 if frame.labels_at_side else 0.0
    _words(axes, sort, frame, words)
    top = frame.y + frame.height - (0.0 if frame.labels_at_side else 0.36)
    body = Frame(
        frame.x + words, frame.y, frame.width - words - (1.15 if frame.labels_at_side else 0.0), top - frame.y, False
    )
    _machine(axes, sort, body, colours)


def _words(axes: Any, sort: MachineGroup, frame: Frame, room: float) -> None:
    """Draw number, type, zone, capacity type and price."""
    machine, count = sort.first, len(sort.machines)
    title = f"{count} × {machine.instance}" if count > 1 else machine.instance
    price = dollars(sort.total)
    each = f"{dollars(machine.usd_per_hour)} each" if count > 1 else "USD/h"
    where = f"{machine.zone or 'any zone'} · {machine.capacity_type}"
    names = machine.node if count == 1 else f"{machine.node} … {sort.machines[-1].node}"
    if sort.layout.gpus:
        names = f"{len(sort.layout.gpus)} × {short_name(sort.layout.product)} · {names}"
    top = frame.y + frame.height
    right = frame.x + frame.width
    if frame.labels_at_side:
        space = room - 0.2
        label(axes, frame.x, top - 0.12, fitted(title, space, 9, True, numbered=False), 9, bold=True)
        label(axes, frame.x, top - 0.31, fitted(where, space, 7, numbered=False), 7, FAINT)
        label(axes, frame.x, top - 0.47, fitted(names, space, 7, numbered=False), 7, FAINT)
        label(axes, right, top - 0.16, price, 10, ha="right", bold=True)
        label(axes, right, top - 0.36, each, 7, FAINT, ha="right")
        return
    cost = price if count == 1 else f"{price} ({each})"
    space = frame.width - width_of(cost, 7.5, True) - 0.15
    label(axes, frame.x, top - 0.1, fitted(title, space, 7.5, True, numbered=False), 7.5, bold=True)
    label(axes, right, top - 0.1, cost, 7.5, ha="right", bold=True)
    label(axes, frame.x, top - 0.25, fitted(f"{where} · {names}", frame.width, 6, numbered=False), 6, FAINT)


def _machine(axes: Any, sort: MachineGroup, body: Frame, colours: Mapping[str, str]) -> None:
    """Draw the GPUs, and below them the requested cpu and memory."""
    machine, gpus = sort.first, sort.layout.gpus
    strips = bool(machine.cpu_milli and machine.memory)
    below = 2 * _STRIP + 0.1 if strips else 0.0
    number = max(len(gpus), 1)
    width = min(body.width, number * _WIDEST_GPU)
    height = body.height - below
    box = FancyBboxPatch(
        (body.x, body.y + below), width, height, boxstyle="round,pad=0,rounding_size=0.06", facecolor=PAPER,
        edgecolor=EDGE, linewidth=0.8, zorder=1,
    )  # fmt: skip
    axes.add_patch(box)
    cell = (width - _GAP * (number + 1)) / number
    for place, gpu in enumerate(gpus):
        at = Frame(body.x + _GAP + place * (cell + _GAP), body.y + below + _GAP, cell, height - 2 * _GAP, False)
        _gpu(axes, gpu, at, colours, is_single=len(sort.machines) == 1)
    if not gpus:
        inner = Frame(body.x + _GAP, body.y + below + _GAP, width - 2 * _GAP, height - 2 * _GAP, False)
        _without_gpus(axes, machine.placements, machine.cpu_milli, inner, colours)
    if strips:
        cpu = [(workload_of(placement), placement.cpu_milli / machine.cpu_milli) for placement in machine.placements]
        memory = [(workload_of(placement), placement.memory / machine.memory) for placement in machine.placements]
        for rank, (name, shares) in enumerate((("cpu", cpu), ("mem", memory))):
            y = body.y + below - 0.06 - (rank + 1) * _STRIP - rank * 0.03
            _strip(axes, name, shares, Frame(body.x, y, width, _STRIP, False), colours)


def _strip(axes: Any, name: str, shares: Sequence[tuple[str, float]], at: Frame, colours: Mapping[str, str]) -> None:
    """Draw the pods' requests of cpu or memory as fractions of the machine's capacity."""
    room = 0.24
    label(axes, at.x, at.y + at.height / 2, name, 5.5, FAINT)
    x, width = at.x + room, at.width - room
    axes.add_patch(Rectangle((x, at.y), width, at.height, facecolor=TRACK, linewidth=0, zorder=2))
    for owner, share in _together(shares):
        part = min(share, 1.0) * width
        axes.add_patch(
            Rectangle((x, at.y), part, at.height, facecolor=colours.get(owner, OTHER), linewidth=0, zorder=3)
        )
        x += part


def _together(shares: Iterable[tuple[str, float]]) -> Iterable[tuple[str, float]]:
    found: dict[str, float] = {}
    for owner, share in shares:
        found[owner] = found.get(owner, 0.0) + share
    return found.items()


def _gpu(axes: Any, gpu: GpuLayout, at: Frame, colours: Mapping[str, str], is_single: bool) -> None:
    """Draw a GPU with its partitions in proportion; unused ones are hatched."""
    for part in gpu.parts:
        x = at.x + float(part.start) * at.width
        width = float(part.size) * at.width
        _part(axes, part, Frame(x, at.y, width, at.height, False), colours, is_single)
    axes.add_patch(Rectangle((at.x, at.y), at.width, at.height, fill=False, edgecolor=FAINT, linewidth=0.7, zorder=5))


def _part(axes: Any, part: GpuPart, at: Frame, colours: Mapping[str, str], is_single: bool) -> None:
    if not part.pods:
        _free(axes, at, part.kind)
        return
    colour = colours.get(workload_of(part), OTHER)
    axes.add_patch(
        Rectangle((at.x, at.y), at.width, at.height, facecolor=colour, edgecolor=PAPER, linewidth=0.6, zorder=3)
    )
    names = [pod.partition("/")[2] for pod in part.pods] if is_single else [workload_of(part)]
    if not is_single and len(part.pods) > 1:
        names = [f"{len(part.pods)} × {workload_of(part)}"]
    _lines(axes, [*names[:4], *([f"and {len(names) - 4} more"] if len(names) > 4 else []), part.kind], at, colour)


def _free(axes: Any, at: Frame, kind: str) -> None:
    axes.add_patch(
        Rectangle(
            (at.x, at.y), at.width, at.height, facecolor=FREE, edgecolor=EDGE, linewidth=0.5, hatch=HATCH, zorder=2
        )
    )
    if kind:
        _lines(axes, [kind], at, FREE)


def _lines(axes: Any, texts: Sequence[str], at: Frame, colour: str) -> None:
    """Draw lines of text in the middle of a box, as far as they fit; in a narrow box vertically."""
    texts = [text for text in texts if text]
    upright = at.width >= 0.42
    along, across = (at.width, at.height) if upright else (at.height, at.width)
    size = 6.5
    step = size * 1.25 / 72
    most = int((across - 0.02) / step)
    shown = [cut for text in texts[: max(most, 0)] if (cut := fitted(text, along - 0.08, size))]
    for rank, text in enumerate(shown):
        offset = ((len(shown) - 1) / 2 - rank) * step
        middle = (at.x + at.width / 2, at.y + at.height / 2)
        x, y = (middle[0], middle[1] + offset) if upright else (middle[0] - offset, middle[1])
        label(axes, x, y, text, size, ink_on(colour), ha="center", rotation=0 if upright else 90, zorder=6)


def _without_gpus(
    axes: Any, placements: Sequence[PodPlacement], whole: int, at: Frame, colours: Mapping[str, str]
) -> None:
    """Draw a machine without GPUs, with its pods by requested cpu."""
    x = at.x
    for owner, share in _together(
        (workload_of(placement), placement.cpu_milli / whole if whole else 0.0) for placement in placements
    ):
        part = Frame(x, at.y, min(share, 1.0) * at.width, at.height, False)
        colour = colours.get(owner, OTHER)
        axes.add_patch(
            Rectangle(
                (part.x, part.y), part.width, part.height, facecolor=colour, edgecolor=PAPER, linewidth=0.6, zorder=3
            )
        )
        _lines(axes, [owner], part, colour)
        x += part.width
    if x < at.x + at.width:
        _free(axes, Frame(x, at.y, at.x + at.width - x, at.height, False), "")
