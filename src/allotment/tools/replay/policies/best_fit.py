"""Best-fit: the node that has the least left afterwards, CPU and GPUs counted alike, each against the largest node's."""

from __future__ import annotations

import numpy as np

from allotment.tools.replay.policies.policy import Candidates, Judge, Policy, Setting
from allotment.tools.replay.standing import Floats
from allotment.tools.replay.workload import Shape


def _judge(setting: Setting) -> Judge:
    most_cpu = max((node.cpu_milli for node in setting.nodes), default=0) or 1
    most_gpu = 1000 * max((node.gpus for node in setting.nodes), default=0) or 1
    values = setting.standing.patterns.values
    totals: list[int] = []

    def judge(_: Shape, candidates: Candidates) -> Floats:
        totals.extend(sum(left) for left in values[len(totals) :])
        idle = np.array([totals[number] for number in candidates.pattern.tolist()])
        cost: Floats = candidates.cpu / most_cpu + idle / most_gpu
        return cost

    return judge


BEST_FIT = Policy("best-fit", "the node with the least CPU and GPU left afterwards", _judge)
