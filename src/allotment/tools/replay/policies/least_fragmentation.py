"""Least fragmentation: the node and the GPU on which the pod makes the least of what is idle useless to others.

The rule of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023), by the paper: of all ways the one that adds least
to the fragmentation that the workload sees, where a pod is its CPU and GPUs, and the commonest 95 % of the pods are
known.
"""

from __future__ import annotations

import numpy as np

from allotment.tools.replay.fragmentation import Usable
from allotment.tools.replay.policies.policy import Candidates, Judge, Policy, Setting
from allotment.tools.replay.policies.scores import cost
from allotment.tools.replay.standing import Floats
from allotment.tools.replay.trace import WHOLE
from allotment.tools.replay.workload import Shape, Workload

_KNOWN = 0.95


def common(workload: Workload, known: float = _KNOWN) -> list[float]:
    """By shape its share of the pods, of the commonest shapes that make up ``known`` of all pods; 0 for the others."""
    order = sorted(range(len(workload.shapes)), key=lambda n: -workload.counts[n])
    total = sum(workload.counts)
    weights = [0.0] * len(order)
    so_far = 0
    for number in order:
        if so_far >= known * total:
            break
        weights[number] = workload.counts[number]
        so_far += workload.counts[number]
    return [weight / so_far for weight in weights] if so_far else weights


def _judge(setting: Setting) -> Judge:
    standing, workload = setting.standing, setting.workload
    shapes = [shape._replace(memory=0) for shape in workload.shapes]
    usable = Usable(shapes, common(workload), standing.models, standing.patterns)
    idle = standing.patterns

    def judge(shape: Shape, candidates: Candidates) -> Floats:
        before = candidates.state
        model = standing.model[before]
        lost = usable(model, standing.cpu[before], standing.memory[before], standing.pattern[before])
        lost -= usable(model, candidates.cpu, candidates.memory, candidates.pattern)
        # What the pod itself takes is not idle any more.
        added = lost - (idle.idle[standing.pattern[before]] - idle.idle[candidates.pattern])
        return cost(1 / (1 + np.exp(added / WHOLE)))

    return judge


LEAST_FRAGMENTATION = Policy("fgd", "the way that makes the least of idle GPUs useless to others", _judge)
