"""Least fragmentation: the node and the GPU on which the pod makes the least of what is idle useless to others.

The rule of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023): of all ways take the one that adds least to the
fragmentation that the workload sees. Theirs knows the commonest 95 % of the pods; so does this one.
"""

from __future__ import annotations

import numpy as np

from allotment.tools.replay.fragmentation import Usable
from allotment.tools.replay.policies.policy import Candidates, Judge, Policy, Setting
from allotment.tools.replay.standing import Floats
from allotment.tools.replay.workload import Shape, Workload

_KNOWN = 0.95


def common(workload: Workload, known: float = _KNOWN) -> list[float]:
    """The share of pods of each shape, of the commonest shapes that make up ``known`` of all pods."""
    order = sorted(range(len(workload.shapes)), key=lambda n: -workload.counts[n])
    total = sum(workload.counts)
    weights = [0.0] * len(order)
    so_far = 0
    for number in order:
        if so_far >= known * total:
            break
        weights[number] = workload.counts[number]
        so_far += workload.counts[number]
    return [weight / so_far for weight in weights]


def _judge(setting: Setting) -> Judge:
    standing = setting.standing
    usable = Usable(setting.workload.shapes, common(setting.workload), standing.models, standing.patterns)
    values = standing.patterns.values
    totals: list[int] = []

    def fragmented(state, cpu, memory, pattern):
        totals.extend(sum(left) for left in values[len(totals) :])
        idle = np.array([totals[number] for number in pattern.tolist()])
        return idle - usable(standing.model[state], cpu, memory, pattern)

    def judge(_: Shape, candidates: Candidates) -> Floats:
        s = candidates.state
        after = fragmented(s, candidates.cpu, candidates.memory, candidates.pattern)
        before = fragmented(s, standing.cpu[s], standing.memory[s], standing.pattern[s])
        return np.round(after - before, 6)

    return judge


LEAST_FRAGMENTATION = Policy("fgd", "the way that makes the least of idle GPUs useless to others", _judge)
