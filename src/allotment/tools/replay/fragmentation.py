"""GPU fragmentation as defined by Weng et al.: the idle GPU capacity that pods of the workload cannot use.

For one pod shape, the idle part of a node's GPUs is fragmented if the shape cannot use it: all of it if the shape does
not fit the node, otherwise the GPUs with less idle capacity than the shape requests of each. A node's fragmentation is
the mean over the shapes of the workload, weighted by their number of pods ("Beware of Fragmentation", USENIX ATC 2023,
section 3). For pods without GPUs, all idle GPU capacity counts as fragmented.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from allotment.tools.replay.node_states import Bools, Floats, GpuPatterns, GpuRequest, Ints
from allotment.tools.replay.workload import PodShape


class UsableCapacity:
    """The idle GPU capacity of nodes that shapes can use, as a weighted sum in thousandths of GPUs.

    Computed first by GPU pattern and request, independent of the rest of the node, then summed over the shapes for
    which the node also has CPU and memory.
    """

    def __init__(
        self, shapes: Sequence[PodShape], weights: Sequence[float], models: Sequence[str], patterns: GpuPatterns
    ) -> None:
        requesting = [(s, w) for s, w in zip(shapes, weights, strict=True) if s.gpus and w > 0]
        self._cpu: Ints = np.array([s.cpu for s, _ in requesting], np.int64)
        self._memory: Ints = np.array([s.memory for s, _ in requesting], np.int64)
        self._weight: Floats = np.array([w for _, w in requesting], np.float64)
        self._needs = list(dict.fromkeys(GpuRequest(s.gpus, s.milli) for s, _ in requesting))
        numbers = {request: n for n, request in enumerate(self._needs)}
        self._need: Ints = np.array([numbers[GpuRequest(s.gpus, s.milli)] for s, _ in requesting], np.int64)
        self._on: Bools = np.array([[not s.models or m in s.models for s, _ in requesting] for m in models], np.bool_)
        self._patterns = patterns
        self._usable: Floats = np.zeros((0, len(self._needs)))
        self._known = 0

    def __call__(self, model: Ints, cpu: Ints, memory: Ints, pattern: Ints) -> Floats:
        """By node, the weighted mean of the idle GPU capacity that shapes can use."""
        self._add_patterns()
        fits = (cpu[:, None] >= self._cpu) & (memory[:, None] >= self._memory) & self._on[model]
        usable: Floats = np.take(self._usable[pattern], self._need, axis=1)
        usable *= fits
        result: Floats = usable @ self._weight
        return result

    def _add_patterns(self) -> None:
        """Add the patterns that appeared since the last call."""
        values = self._patterns.values
        if self._known == len(values):
            return
        if len(values) > len(self._usable):
            self._usable = np.concatenate([self._usable, np.zeros((max(1024, len(values)), len(self._needs)))])
        for numbers in range(self._known, len(values)):
            free = values[numbers]
            for n, request in enumerate(self._needs):
                fitting = [milli for milli in free if milli >= request.milli]
                if len(fitting) >= request.gpus:
                    self._usable[numbers, n] = sum(fitting)
        self._known = len(values)
