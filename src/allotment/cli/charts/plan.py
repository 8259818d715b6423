"""Draws a plan: machines with their GPUs and pods, the price of each, and the lower bound of the cost.

Equal machines are drawn once, with their number. The same plan gives the same bytes: no date, no random
identifiers, one font that comes with matplotlib.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from allotment.cli.charts.cards import HATCH, Frame, draw_card, label
from allotment.cli.charts.palette import ALARM, EDGE, FAINT, FREE, INK, PAPER, TRACK, colours_of
from allotment.cli.charts.text_metrics import fitted, width_of
from allotment.phrases import counted
from allotment.planning.reasons.machine_groups import MachineGroup, group_machines
from allotment.planning.reasons.wording import dollars, proof_text, total, workload_of
from allotment.planning.report import ProvisioningPlan

SUFFIXES: Final = (".svg", ".png")
_MARGIN: Final = 0.45
_DPI: Final = 144
#: Maximum number of workloads in the legend.
_NAMED: Final = 12
#: Maximum number of machine groups to draw; the cheapest of the rest are only counted.
_DRAWN: Final = 120


@dataclass(frozen=True, slots=True)
class _Page:
    """The layout of cards: number of columns, width, height and gaps."""

    columns: int
    width: float
    height: float
    gap: float
    labels_at_side: bool

    @property
    def full(self) -> float:
        """The width of the page in inches."""
        return 2 * _MARGIN + self.columns * self.width + (self.columns - 1) * 0.35


def _page(sorts: int) -> _Page:
    if sorts <= 10:
        return _Page(1, 10.4, 0.86, 0.3, True)
    if sorts <= 20:
        return _Page(2, 5.4, 0.98, 0.22, False)
    return _Page(3, 4.7, 0.9, 0.2, False) if sorts <= 48 else _Page(4, 4.1, 0.86, 0.2, False)


def draw(plan: ProvisioningPlan, path: Path | str) -> None:
    """Write the chart of a plan in the format of the suffix. Raises ValueError for a suffix not in `SUFFIXES`."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{target}: expected a name that ends in {' or '.join(SUFFIXES)}")
    with matplotlib.rc_context({"svg.hashsalt": "allotment", "svg.fonttype": "path", "hatch.linewidth": 0.4}):
        figure = _figure(plan)
        undated = {"Date": None, "Creator": "allot plan"} if suffix == ".svg" else {"Software": None}
        figure.savefig(target, format=suffix.removeprefix("."), metadata=undated)


def _figure(plan: ProvisioningPlan) -> Figure:
    sorts = group_machines(plan.machines)
    drawn, rest = sorts[:_DRAWN], sorts[_DRAWN:]
    page = _page(len(drawn))
    rows = math.ceil(len(drawn) / page.columns)
    colours = _colours(plan)
    head, legend, foot = 0.95, _legend_height(plan, colours, page.full), 1.0 if plan.machines else 0.2
    height = _MARGIN * 2 + head + legend + rows * (page.height + page.gap) + (0.3 if rest else 0.0) + foot
    figure = Figure(figsize=(page.full, height), dpi=_DPI, facecolor=PAPER)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, page.full)
    axes.set_ylim(0, height)
    axes.axis("off")
    top = height - _MARGIN
    _head(axes, plan, top, page.full)
    _legend(axes, plan, colours, top - head, page.full)
    y = top - head - legend
    for number, sort in enumerate(drawn):
        column, row = divmod(number, rows)
        x = _MARGIN + column * (page.width + 0.35)
        at = y - row * (page.height + page.gap) - page.height
        draw_card(axes, sort, Frame(x, at, page.width, page.height, page.labels_at_side), colours)
    if rest:
        machines = sum(len(sort.machines) for sort in rest)
        words = f"and {counted(machines, 'more machine')} of {counted(len(rest), 'more kind')}"
        cost = dollars(total(sort.total for sort in rest))
        label(axes, _MARGIN, _MARGIN + foot + 0.1, f"{words}, together {cost} USD/h", 8, FAINT)
    if plan.machines:
        _cost(axes, plan, sorts, _MARGIN, page.full)
    return figure


def _head(axes: Any, plan: ProvisioningPlan, top: float, width: float) -> None:
    if plan.machines:
        title = f"{counted(len(plan.machines), 'machine')}, {dollars(plan.total)} USD per hour"
    else:
        title = "No machines"
    label(axes, _MARGIN, top - 0.15, title, 17, bold=True)
    pods = sum(len(machine.placements) for machine in plan.machines)
    facts = [f"{counted(pods, 'pod')} on new machines"] if plan.machines else []
    facts += [f"{counted(len(plan.existing), 'pod')} on existing nodes"] if plan.existing else []
    facts += [proof_text(plan)] if plan.machines else []
    label(axes, _MARGIN, top - 0.5, fitted(" · ".join(facts), width - 2 * _MARGIN, 9.5), 9.5, FAINT)
    if plan.unserved:
        words = f"{counted(len(plan.unserved), 'pod')} not placed"
        label(axes, width - _MARGIN, top - 0.15, words, 11, ALARM, ha="right", bold=True)


def _colours(plan: ProvisioningPlan) -> Mapping[str, str]:
    """Return a colour for each workload, by number of pods, then by name."""
    counts = Counter(workload_of(placement) for machine in plan.machines for placement in machine.placements)
    return colours_of(sorted(counts, key=lambda name: (-counts[name], name)))


def _entries(plan: ProvisioningPlan, colours: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the legend's entries with their colours; None for free capacity."""
    if not plan.machines:
        return []
    names = list(colours.items())
    shown = [(name if len(name) <= 36 else f"{name[:35]}…", colour) for name, colour in names[:_NAMED]]
    if len(names) > _NAMED:
        shown.append((f"{len(names) - _NAMED} more workloads", names[-1][1]))
    return [*shown, ("free", "")]


def _legend_lines(
    plan: ProvisioningPlan, colours: Mapping[str, str], width: float
) -> list[list[tuple[float, str, str]]]:
    """Lay out the legend's entries in lines."""
    lines: list[list[tuple[float, str, str]]] = [[]]
    x = _MARGIN
    for name, colour in _entries(plan, colours):
        step = 0.2 + width_of(name, 8) + 0.25
        if x + step > width - _MARGIN and lines[-1]:
            lines.append([])
            x = _MARGIN
        lines[-1].append((x, name, colour))
        x += step
    return lines


def _legend_height(plan: ProvisioningPlan, colours: Mapping[str, str], width: float) -> float:
    return 0.24 * len(_legend_lines(plan, colours, width)) + 0.3 if plan.machines else 0.0


def _legend(axes: Any, plan: ProvisioningPlan, colours: Mapping[str, str], top: float, width: float) -> None:
    for rank, line in enumerate(_legend_lines(plan, colours, width)):
        y = top - 0.12 - 0.24 * rank
        for x, name, colour in line:
            more: dict[str, Any] = (
                {"facecolor": colour} if colour else {"facecolor": FREE, "edgecolor": EDGE, "hatch": HATCH}
            )
            axes.add_patch(Rectangle((x, y - 0.06), 0.12, 0.12, linewidth=0 if colour else 0.5, **more))
            label(axes, x + 0.18, y, name, 8)


def _cost(axes: Any, plan: ProvisioningPlan, sorts: Sequence[MachineGroup], bottom: float, width: float) -> None:
    """Draw the costs of the machines side by side, and the lower bound."""
    left, room = _MARGIN, width - 2 * _MARGIN
    y, height = bottom + 0.2, 0.3
    total = float(plan.total)
    if not total:
        return
    by_type: dict[str, float] = {}
    for sort in sorts:
        by_type[sort.first.instance] = by_type.get(sort.first.instance, 0.0) + float(sort.total)
    counts = Counter(machine.instance for machine in plan.machines)
    x = left
    for rank, (name, cost) in enumerate(sorted(by_type.items(), key=lambda pair: (-pair[1], pair[0]))):
        part = room * cost / total
        shade = "#d3dae3" if rank % 2 == 0 else TRACK
        axes.add_patch(Rectangle((x, y), part, height, facecolor=shade, edgecolor=PAPER, linewidth=0.8, zorder=2))
        words = f"{counts[name]} × {name}" if counts[name] > 1 else name
        label(
            axes,
            x + part / 2,
            y + height / 2,
            fitted(words, part - 0.1, 7, numbered=False),
            7,
            INK,
            ha="center",
            zorder=3,
        )
        x += part
    label(axes, left, bottom + 0.04, "0", 7, FAINT)
    words = f"{dollars(plan.total)} USD/h"
    label(axes, left + room, bottom + 0.04, words, 7, INK, ha="right", bold=True)
    if plan.bound:
        at = left + room * min(float(plan.bound) / total, 1.0)
        axes.plot([at, at], [y - 0.07, y + height + 0.07], color=ALARM, linewidth=1.4, zorder=4)
        text = "proven optimal" if plan.gap < 0.0005 else f"no plan costs less than {dollars(plan.bound, ROUND_FLOOR)}"
        side = "right" if at > left + room / 2 else "left"
        label(axes, at, y + height + 0.17, text, 7.5, ALARM, ha=side)
