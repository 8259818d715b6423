"""The report of the measurements: tables, comparison of both sides' answers, and whether the targets are met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.measurement import Measurement
from bench.shapes import DRIVER, EXPRESSIONS, SEARCH_SIZES, SEARCHES, SHAPES, SIZES, SPREAD

Measurements = Mapping[str, Measurement]

MISSING = "–"


def _seconds(value: float | None) -> str:
    if value is None:
        return MISSING
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e6:.2g} µs"


def _quantile(measured: Measurement | None, share: float) -> str:
    return MISSING if measured is None else _seconds(measured.quantile(share))


def _rate(measured: Measurement | None) -> str:
    if measured is None:
        return MISSING
    if measured.rate is None:
        return f"< {1 / measured.unfinished:.2g}"
    return f"{measured.rate:,.0f}" if measured.rate >= 10 else f"{measured.rate:.2f}"


def ratio(allotment: Measurement | None, upstream: Measurement | None) -> float | None:
    """The factor of speed over the pods that both finished; a lower limit where upstream finished none.

    Upstream runs out of time after a prefix of the pods. Allotment's first pods, which evaluate every node, weigh more
    in that prefix than in its whole run, so the prefix is compared.
    """
    if allotment is None or upstream is None or not allotment.seconds:
        return None
    both = min(len(allotment.seconds), len(upstream.seconds))
    if not both:
        return upstream.unfinished / allotment.seconds[0]
    return sum(upstream.seconds[:both]) / sum(allotment.seconds[:both])


def _ratio(allotment: Measurement | None, upstream: Measurement | None) -> str:
    value = ratio(allotment, upstream)
    if value is None or upstream is None:
        return MISSING
    at_least = "" if upstream.rate else "> "
    return f"{at_least}{value:,.0f}×" if value >= 10 else f"{at_least}{value:.1f}×"


def same_answers(allotment: Measurement, upstream: Measurement) -> tuple[int, int]:
    """Of the pods that both placed: how many got the same node and devices, and how many there were."""
    pairs = list(zip(allotment.placed, upstream.placed, strict=False))
    return sum(a == b for a, b in pairs), len(pairs)


def _table(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        first, *rest = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *rest]).rstrip()


def scheduling(allotment: Measurements, upstream: Measurements) -> Iterator[str]:
    """The five shapes at each size."""
    head = ["SHAPE @ NODES", "PODS/S", "FIRST", "P50", "P99", "UPSTREAM", "P50", "P99", "RATIO", "SAME ANSWER"]
    rows = [head]
    for shape in SHAPES:
        for size in SIZES:
            name = f"{shape} @ {size}"
            a, b = allotment.get(name), upstream.get(name)
            first = _seconds(a.seconds[0]) if a and a.seconds else MISSING
            row = [name, _rate(a), first, *(_quantile(a, q) for q in (0.5, 0.99))]
            row += [_rate(b), *(_quantile(b, q) for q in (0.5, 0.99))]
            same = "{} of {}".format(*same_answers(a, b)) if a and b else MISSING
            rows.append([*row, _ratio(a, b), same])
    yield from _table(rows)
    yield ""
    yield "FIRST: a shape's first pod, which evaluates every node. RATIO: over the pods that both sides finished."


def searches(allotment: Measurements, upstream_figures: Measurements) -> Iterator[str]:
    """The searches that double upstream, by number of devices."""
    rows = [["SEARCH", "N", "ALLOTMENT", "UPSTREAM"]]
    for search in SEARCHES:
        for n in SEARCH_SIZES:
            name = f"{search} @ {n}"
            a, b = allotment.get(name), upstream_figures.get(name)
            if a is None and b is None:
                continue
            upstream = MISSING
            if b is not None:
                upstream = _quantile(b, 0.5) if b.seconds else f"> {b.unfinished:.3g} s"
            rows.append([search, str(n), _quantile(a, 0.5), upstream])
    yield from _table(rows)


def selectors(allotment: Measurements, upstream: Measurements) -> Iterator[str]:
    """The cost of compiling and evaluating each selector."""
    rows = [["", "COMPILE", "UPSTREAM", "EVALUATE", "UPSTREAM", f"EACH OF {SPREAD:,}"]]
    for number, expression in enumerate(EXPRESSIONS, 1):
        sides = [f"{action} {expression}" for action in ("compile", "evaluate")]
        figures = [_quantile(side.get(name), 0.5) for name in sides for side in (allotment, upstream)]
        rows.append([str(number), *figures, _quantile(allotment.get(f"spread {expression}"), 0.5)])
    yield from _table(rows)
    yield ""
    for number, expression in enumerate(EXPRESSIONS, 1):
        yield f"{number}  " + expression.replace(f'["{DRIVER}"]', "[…]").replace(f'"{DRIVER}"', "…")


def targets(allotment: Measurements, upstream: Measurements) -> Iterator[tuple[bool, str]]:
    """Each target of the project that these figures cover, and whether it is met."""
    largest = SIZES[-1]
    for shape in SHAPES:
        name = f"{shape} @ {largest}"
        value = ratio(allotment.get(name), upstream.get(name))
        if value is not None:
            yield value >= 20, f"{shape}: at least 20 times upstream's pods/s at {largest:,} nodes ({value:,.0f}×)"
    for shape in SHAPES:
        small, large = (allotment.get(f"{shape} @ {size}") for size in (SIZES[0], largest))
        middle = (small and small.quantile(0.5), large and large.quantile(0.5))
        mean = (small and small.rate, large and large.rate)
        if middle[0] and middle[1] and mean[0] and mean[1]:
            growth = middle[1] / middle[0]
            # The mean includes the first pod of a shape, which evaluates every node.
            text = f"{shape}: a pod costs at most twice as much at {largest:,} nodes as at {SIZES[0]}"
            yield growth <= 2, f"{text} (median {growth:.1f}×, mean {mean[0] / mean[1]:.1f}×)"
    for search in SEARCHES:
        last = allotment.get(f"{search} @ {SEARCH_SIZES[-1]}")
        cost = last and last.quantile(0.5)
        if cost:
            yield cost <= 5e-3, f"{search}: at most 5 ms at n = {SEARCH_SIZES[-1]} ({_seconds(cost)})"
    for action, limit, text in (
        ("compile", 1e-3, "compiling a selector takes at most 1 ms"),
        ("evaluate", 3e-6, "evaluating a selector on a device, with its exact cost, takes at most 3 µs"),
        ("spread", 0.05e-6, f"evaluating a selector on {SPREAD:,} devices takes at most 0.05 µs per device"),
    ):
        worst = max(
            (m.quantile(0.5) or 0 for name, m in allotment.items() if name.startswith(f"{action} ")), default=None
        )
        if worst is not None:
            yield worst <= limit, f"{text} ({_seconds(worst)})"
    compared = [
        same_answers(allotment[name], upstream[name])
        for name in allotment
        if name in upstream and upstream[name].placed
    ]
    if compared:
        same, total = map(sum, zip(*compared, strict=True))
        yield same == total, f"the same node and devices as upstream for every pod ({same:,} of {total:,})"
