"""How much of what GPUs have left is of no use to the pods that come: fragmentation as Weng et al. define it.

For one shape of pods the idle part of a node's GPUs is fragmented as far as that shape cannot have it: all of it where
the shape does not fit on the node, and otherwise the GPUs that have less left than it asks of each. A node's
fragmentation is the mean over the shapes of the workload, by how many pods there are of each ("Beware of
Fragmentation", USENIX ATC 2023, section 3). Pods without GPUs use none of it, so that to them all is fragmented.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from allotment.tools.replay.node_states import Bools, Floats, GpuPatterns, GpuRequest, Ints
from allotment.tools.replay.workload import PodShape


class UsableCapacity:
    """Of nodes' idle GPUs what shapes can use, each weighed: thousandths of GPUs.

    Worked out by pattern and need first: what GPUs can give, whatever the rest of the node; then summed over those
    shapes for which the node has CPU and memory, too.
    """

    def __init__(
        self, shapes: Sequence[PodShape], weights: Sequence[float], models: Sequence[str], patterns: GpuPatterns
    ) -> None:
        asking = [(s, w) for s, w in zip(shapes, weights, strict=True) if s.gpus and w > 0]
        self._cpu: Ints = np.array([s.cpu for s, _ in asking], np.int64)
        self._memory: Ints = np.array([s.memory for s, _ in asking], np.int64)
        self._weight: Floats = np.array([w for _, w in asking], np.float64)
        self._needs = list(dict.fromkeys(GpuRequest(s.gpus, s.milli) for s, _ in asking))
        number = {need: n for n, need in enumerate(self._needs)}
        self._need: Ints = np.array([number[GpuRequest(s.gpus, s.milli)] for s, _ in asking], np.int64)
        self._on: Bools = np.array([[not s.models or m in s.models for s, _ in asking] for m in models], np.bool_)
        self._patterns = patterns
        self._usable: Floats = np.zeros((0, len(self._needs)))
        self._known = 0

    def __call__(self, model: Ints, cpu: Ints, memory: Ints, pattern: Ints) -> Floats:
        """For each node what shapes can use of its idle GPUs, on the weighed average."""
        self._add_patterns()
        fits = (cpu[:, None] >= self._cpu) & (memory[:, None] >= self._memory) & self._on[model]
        gives: Floats = np.take(self._usable[pattern], self._need, axis=1)
        gives *= fits
        found: Floats = gives @ self._weight
        return found

    def _add_patterns(self) -> None:
        """Look at the patterns that have come up since the last time."""
        values = self._patterns.values
        if self._known == len(values):
            return
        if len(values) > len(self._usable):
            self._usable = np.concatenate([self._usable, np.zeros((max(1024, len(values)), len(self._needs)))])
        for number in range(self._known, len(values)):
            left = values[number]
            for n, need in enumerate(self._needs):
                fitting = [free for free in left if free >= need.milli]
                if len(fitting) >= need.gpus:
                    self._usable[number, n] = sum(fitting)
        self._known = len(values)
