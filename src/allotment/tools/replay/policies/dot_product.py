"""Dot product: the node whose idle CPU and GPUs, each against the largest node's, align least with what the pod asks.

The vector heuristic of Tetris (Grandl et al., SIGCOMM 2014) as GPU schedulers use it.
"""

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

    def judge(shape: Shape, candidates: Candidates) -> Floats:
        totals.extend(sum(left) for left in values[len(totals) :])
        idle = np.array([totals[number] for number in candidates.pattern.tolist()]) + shape.amount
        cpu = candidates.cpu + shape.cpu
        cost: Floats = (cpu / most_cpu) * (shape.cpu / most_cpu) + (idle / most_gpu) * (shape.amount / most_gpu)
        return cost

    return judge


DOT_PRODUCT = Policy("dot-product", "the node whose idle CPU and GPU align least with what the pod asks", _judge)
