"""Best-fit: the node that has the least left afterwards, CPU and GPUs each measured by the largest node's."""

from __future__ import annotations

from allotment.tools.replay.node_states import Floats
from allotment.tools.replay.policies.policy import Candidates, Judge, Policy, Setting, cost, largest
from allotment.tools.replay.workload import Shape


def _judge(setting: Setting) -> Judge:
    most_cpu, most_gpu = largest(setting)
    patterns = setting.standing.patterns

    def judge(_: Shape, candidates: Candidates) -> Floats:
        return cost(1 - (candidates.cpu / most_cpu + patterns.idle[candidates.pattern] / most_gpu) / 2)

    return judge


BEST_FIT = Policy("best-fit", "the node with the least CPU and GPU left afterwards", _judge)
