"""The measurements as one picture: cost per pod by cluster size, and cost of a refusal by number of devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from bench.measurement import Measurement
from bench.report import Measurements
from bench.shapes import SEARCH_SIZES, SEARCHES, SHAPES, SIZES

ALLOTMENT_COLOUR, UPSTREAM = "#0b7a75", "#c8553d"


def _time(value: float, _position: int = 0) -> str:
    for unit, scale in (("s", 1), ("ms", 1e3)):
        if value * scale >= 0.999:
            return f"{value * scale:g} {unit}"
    return f"{value * 1e6:.3g} µs"


def _axes(axes: Any, title: str, ticks: tuple[int, ...]) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{t:,}" for t in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_time))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, which="major", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, length=2)


def _shape(axes: Any, shape: str, measurements: Measurements, colour: str, label: str) -> None:
    points = [(size, m) for size in SIZES if (m := measurements.get(f"{shape} @ {size}"))]
    done = [(size, m) for size, m in points if m.seconds]
    if done:
        xs = [size for size, _ in done]
        middle, high = ([m.quantile(q) or 0 for _, m in done] for q in (0.5, 0.99))
        axes.plot(xs, middle, color=colour, marker="o", markersize=4, linewidth=1.8, label=f"{label}, median")
        axes.plot(xs, high, color=colour, linestyle=":", linewidth=1.2, label=f"{label}, 99th percentile")
    late = [(size, m.unfinished) for size, m in points if not m.seconds]
    _unfinished(axes, late, colour)


def _unfinished(axes: Any, points: list[tuple[int, float]], colour: str) -> None:
    for x, y in points:
        axes.plot([x], [y], color=colour, marker="^", markersize=7, linestyle="none")
        axes.annotate("not finished", (x, y), textcoords="offset points", xytext=(6, -3), fontsize=7, color=colour)


def _search(axes: Any, search: str, measurements: Measurements, colour: str) -> None:
    points = [(n, m) for n in SEARCH_SIZES if (m := measurements.get(f"{search} @ {n}"))]
    done: list[tuple[int, Measurement]] = [(n, m) for n, m in points if m.seconds]
    axes.plot(
        [n for n, _ in done],
        [m.quantile(0.5) or 0 for _, m in done],
        color=colour,
        marker="o",
        markersize=4,
        linewidth=1.8,
    )
    _unfinished(axes, [(n, m.unfinished) for n, m in points if not m.seconds], colour)


def draw(allotment: Measurements, upstream: Measurements, path: Path) -> None:
    """Write the picture as PNG."""
    mpl.use("Agg")
    figure = plt.figure(figsize=(15, 8), layout="constrained")
    rows: Any = figure.subfigures(2, 1, hspace=0.04)
    sides = [(allotment, ALLOTMENT_COLOUR, "Allotment"), (upstream, UPSTREAM, "kube-scheduler's allocator")]

    rows[0].suptitle(
        "Cost of placing one pod, by number of nodes with eight devices each", fontsize=12, fontweight="bold"
    )
    panels = rows[0].subplots(1, len(SHAPES), sharey=True)
    for axes, shape in zip(panels, SHAPES, strict=True):
        _axes(axes, shape, SIZES)
        for measurements, colour, label in sides:
            _shape(axes, shape, measurements, colour, label)
    panels[0].set_ylabel("per pod", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    rows[0].legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)

    rows[1].suptitle("Cost of a refusal on one node, by number of devices n", fontsize=12, fontweight="bold")
    panels = rows[1].subplots(1, len(SEARCHES), sharey=True)
    for axes, search in zip(panels, SEARCHES, strict=True):
        _axes(axes, search, (8, 16, 24, 32, 48, 64))
        for measurements, colour, _ in sides:
            _search(axes, search, measurements, colour)
    panels[0].set_ylabel("per refusal", fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)
