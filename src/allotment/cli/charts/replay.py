"""Draws the curves of a replay: allocation, fragmentation and cost of the nodes in use, one line per policy.

The line is the mean over the seeds, the band the range. The same curves give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from allotment.cli.charts.palette import EDGE, FAINT, INK, PAPER
from allotment.cli.charts.text_metrics import FAMILY
from allotment.tools.replay.experiment import Experiment
from allotment.tools.replay.report import FULL_DEMAND, Curve, CurveStep, Range

_DPI: Final = 144
#: A fixed colour for each policy, distinguishable with colour blindness.
_COLOURS: Final = {
    "random": "#9a9a9a", "dot-product": "#cc6677", "best-fit": "#ddaa33", "first-fit": "#77aadd", "fgd": "#aa4499",
    "lookahead": "#117733",
}  # fmt: skip
_OTHER: Final = "#4477aa"
#: Percentage of the GPUs up to which every policy places nearly all pods.
_PARTING: Final = 80

Reading = Callable[[CurveStep], Range | None]


def draw(curves: Sequence[Curve], question: Experiment, path: Path | str) -> None:
    """Write the chart in the format of the suffix (.svg or .png)."""
    target = Path(path)
    suffix = target.suffix.lower().removeprefix(".")
    with matplotlib.rc_context({"svg.hashsalt": "allotment", "svg.fonttype": "path", "font.family": FAMILY}):
        figure = _figure(curves, question)
        undated = {"Date": None, "Creator": "allot replay"} if suffix == "svg" else {"Software": None}
        figure.savefig(target, format=suffix, metadata=undated)


def _figure(curves: Sequence[Curve], question: Experiment) -> Figure:
    figure = Figure(figsize=(11.4, 4.6), dpi=_DPI, facecolor=PAPER)
    left, middle, right = figure.subplots(1, 3, gridspec_kw={"width_ratios": (1.3, 1, 1)})
    figure.subplots_adjust(left=0.05, right=0.985, top=0.77, bottom=0.22, wspace=0.28)
    runs = max((step.runs for curve in curves for step in curve.steps), default=0)
    words = f"{question.capacity:,} GPUs on {len(question.nodes):,} nodes"
    figure.text(0.05, 0.955, _title(curves, question), fontsize=14, fontweight="bold", color=INK, va="top")
    seeds = f"mean of {runs} arrival orders; band: minimum to maximum" if runs > 1 else "one run per policy"
    figure.text(0.05, 0.885, f"{words} · {seeds}", fontsize=9, color=FAINT, va="top")
    across = "of the run, %" if question.use_times else "GPUs requested so far, % of all GPUs"
    main: Reading = (lambda step: step.refused) if question.use_times else (lambda step: step.allocated)
    name = "Refused, % of requested GPUs" if question.use_times else "Allocated, % of all GPUs"
    _panel(left, curves, main, name, across)
    if not question.use_times:
        _near(left, curves)
    _panel(middle, curves, lambda step: step.fragmented, "Fragmented, % of all GPUs", across)
    _panel(right, curves, lambda step: step.usd, "Nodes in use, USD per hour", across)
    if not any(step.usd is not None for curve in curves for step in curve.steps):
        right.text(0.5, 0.5, "prices unknown", transform=right.transAxes, ha="center", color=FAINT, fontsize=9)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="lower center", ncols=len(labels), fontsize=9, frameon=False, labelcolor=INK,
        handlelength=1.6, columnspacing=1.8,
    )  # fmt: skip
    return figure


def _title(curves: Sequence[Curve], question: Experiment) -> str:
    if question.use_times:
        best = min(curves, key=lambda curve: curve.throughout().refused.mean)
        return f"{best.policy} refuses the least: {best.throughout().refused.mean:.2f} %"
    best = min(curves, key=lambda curve: -curve.at(FULL_DEMAND).allocated.mean)
    step = best.at(FULL_DEMAND)
    return f"{best.policy} leaves the fewest GPUs free: {100 - step.allocated.mean:.2f} % at {step.at:.0f} % requested"


def _panel(axes: Any, curves: Sequence[Curve], reading: Reading, name: str, across: str) -> None:
    for curve in curves:
        known = [(step.at, spread) for step in curve.steps if (spread := reading(step)) is not None]
        xs = [x for x, _ in known]
        colour = _COLOURS.get(curve.policy, _OTHER)
        strong = curve.policy == "lookahead"
        axes.fill_between(
            xs, [s.least for _, s in known], [s.most for _, s in known], color=colour, alpha=0.18, linewidth=0
        )
        axes.plot(
            xs, [s.mean for _, s in known], color=colour, linewidth=2.2 if strong else 1.5, label=curve.policy,
            zorder=3 if strong else 2,
        )  # fmt: skip
    axes.set_title(name, fontsize=9.5, color=INK, loc="left", pad=8)
    axes.set_xlabel(across, fontsize=8, color=FAINT)
    axes.set_xlim(0, max((step.at for curve in curves for step in curve.steps), default=FULL_DEMAND))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value == int(value) else f"{value:g}")
    )
    axes.grid(visible=True, color="#eceef1", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(EDGE)
    axes.tick_params(labelsize=8, length=0, colors=FAINT)


def _near(axes: Any, curves: Sequence[Curve]) -> None:
    """Zoom into the range where the policies differ, and label the end of each curve."""
    near = [step for curve in curves for step in curve.steps if step.at >= _PARTING]
    if not near or max(step.at for step in near) <= FULL_DEMAND:
        return
    least = min(step.allocated.least for step in near if step.at >= FULL_DEMAND)
    most = max(step.allocated.most for step in near)
    room = max(most - least, 1.0)
    last = max(step.at for step in near)
    axes.set_xlim(_PARTING, last)
    axes.set_ylim(least - 0.25 * room, most + 0.1 * room)
    axes.axvline(FULL_DEMAND, color=EDGE, linewidth=0.9, linestyle=(0, (3, 3)), zorder=1)
    ends = sorted((curve.steps[-1].allocated.mean, curve.policy) for curve in curves)
    lowest = least - room
    for value, policy in ends:
        # Overlapping labels are moved up.
        y = max(value, lowest + 0.062 * 1.35 * room)
        lowest = y
        axes.annotate(
            f"{value:.1f}", (last, y), xytext=(4, 0), textcoords="offset points", fontsize=8, va="center",
            color=_COLOURS.get(policy, _OTHER), annotation_clip=False,
        )  # fmt: skip
