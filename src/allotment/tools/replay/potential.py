"""The potential of a node: an upper bound on the GPU capacity that future pods of the workload can use on it.

Considering only the next pod is not enough: eight idle GPUs have little value with CPU for one pod. So the CPU of a
node gets a price. For each price, the idle part of a GPU has a value: pods arrive with the frequencies of the workload,
each is worth its part of the GPU less the price of its CPU, and is accepted if that exceeds the loss of value of the
idle part; at each step the arrivals may end. The value of a node is that of its GPUs plus that of its CPU at the price.
Every price gives an upper bound (Lagrangian relaxation of the node's CPU), and the potential is the minimum over all
prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from allotment.tools.replay.node_states import Bools, Floats, GpuPatterns, Ints
from allotment.tools.replay.trace import WHOLE
from allotment.tools.replay.workload import Workload

#: Prices of a CPU in GPUs: densest where they matter most, at 10 to 20 CPUs per GPU.
_PRICES: Final = (
    *(n / 1000 for n in (0, 3, 6, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100)),
    *(n / 1000 for n in (110, 120, 130, 140, 160, 180, 200, 250, 300, 400, 600)),
)
#: The resolution of a GPU's idle part, in thousandths.
_STEP: Final = 10
#: The rate at which arrivals end, relative to the rate of arrivals.
_END_RATE: Final = 0.02


class Potential:
    """The potential of nodes. Computed once per model and pattern, for all prices."""

    def __init__(self, workload: Workload, models: Sequence[str], patterns: GpuPatterns) -> None:
        self._patterns = patterns
        self._prices: Floats = np.array(_PRICES)
        self._worth = [_worth_of_left(workload, model, self._prices) for model in models]
        self._sums: Floats = np.zeros((len(models), 0, len(_PRICES)))
        self._known: Bools = np.zeros((len(models), 0), np.bool_)

    def __call__(self, model: Ints, cpu: Ints, pattern: Ints) -> Floats:
        """The potential by node, in thousandths of GPUs."""
        self._add_patterns(model, pattern)
        by_price = self._sums[model, pattern] + self._prices * cpu[:, None]
        found: Floats = by_price.min(axis=1)
        return found

    def _add_patterns(self, model: Ints, pattern: Ints) -> None:
        """Compute the value of patterns that are new on a model."""
        values = self._patterns.values
        if len(values) > self._known.shape[1]:
            more = max(1024, len(values))
            self._sums = np.concatenate([self._sums, np.zeros((len(self._worth), more, len(_PRICES)))], axis=1)
            self._known = np.concatenate([self._known, np.zeros((len(self._worth), more), np.bool_)], axis=1)
        new = ~self._known[model, pattern]
        for m, p in set(zip(model[new].tolist(), pattern[new].tolist(), strict=True)):
            steps = np.array(values[p], np.int64) // _STEP
            self._sums[m, p] = self._worth[m][:, steps].sum(axis=1)
            self._known[m, p] = True


def _worth_of_left(workload: Workload, model: str, prices: Floats) -> Floats:
    """The value of a GPU's idle part, by price of CPU (rows) and steps (columns).

    With E(x) for an idle part x, a pod that takes m of the GPU and c of CPU yields m - price·c + E(x - m). Accepting
    those that yield more than E(x), and ending at rate e, E(x)·e = Σ rate · max(0, gain - E(x)); so E(x) is the largest
    Σ rate·gain / (Σ rate + e) over the k pods with the highest yield.
    """
    rates: dict[tuple[int, int], float] = {}
    total = max(sum(workload.counts), 1)
    for shape, count in zip(workload.shapes, workload.counts, strict=True):
        if shape.gpus and (not shape.models or model in shape.models):
            key = (shape.milli, shape.cpu // shape.gpus if shape.gpus > 1 else shape.cpu)
            rates[key] = rates.get(key, 0.0) + shape.gpus * count / total
    worth: Floats = np.zeros((len(prices), WHOLE // _STEP + 1))
    if not rates:
        return worth
    milli: Ints = np.array([key[0] for key in rates], np.int64)
    cpu: Ints = np.array([key[1] for key in rates], np.int64)
    rate: Floats = np.array(list(rates.values()))
    for step in range(1, worth.shape[1]):
        fits = milli <= step * _STEP
        if not fits.any():
            continue
        after = worth[:, (step * _STEP - milli[fits]) // _STEP]
        gain = milli[fits] - prices[:, None] * cpu[fits] + after
        order = np.argsort(-gain, axis=1)
        rates_so_far = np.cumsum(rate[fits][order], axis=1)
        gains_so_far = np.cumsum(rate[fits][order] * np.take_along_axis(gain, order, axis=1), axis=1)
        worth[:, step] = np.maximum((gains_so_far / (rates_so_far + _END_RATE)).max(axis=1), 0)
    return worth
