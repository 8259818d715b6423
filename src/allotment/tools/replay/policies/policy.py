"""What a policy is: a function that says how good each way to put a pod on a node is; the least is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from allotment.tools.replay.node_states import Floats, Ints, NodeStates
from allotment.tools.replay.trace import WHOLE, TraceNode
from allotment.tools.replay.workload import PodShape, Workload


def cost_of_score(score: Floats) -> Floats:
    """What a score from 0 to 1 costs, when it is given in whole numbers up to 100.

    >>> cost(np.array([0.031, 0.039, 1.0])).tolist()
    [-3.0, -3.0, -100.0]
    """
    whole: Floats = -np.floor(100 * np.clip(score, 0, 1))
    return whole


class Candidates(NamedTuple):
    """Ways to put one pod on nodes, in columns: the node's state before (ways of one state stand together), and what
    the node would have left: CPU, memory, and its GPUs by number of pattern.
    """

    state: Ints
    cpu: Ints
    memory: Ints
    pattern: Ints


class PolicyContext(NamedTuple):
    """What a policy may know beforehand: what sorts of pods there are and how common each is, but not their order."""

    workload: Workload
    nodes: tuple[TraceNode, ...]
    states: NodeStates


#: The cost of each candidate for a shape: of states that are alike it is always the same.
CostFunction = Callable[[PodShape, Candidates], Floats]


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """A policy by its name. Of equal candidates the first node's is taken, the GPU with the least left; or any
    (``by_chance``).

    ``ordered``: of a node's GPUs the first that will do is taken, and not the one with the least left.
    """

    name: str
    summary: str
    cost_function: Callable[[PolicyContext], CostFunction]
    is_ordered: bool = False
    is_random: bool = False


def largest_node(setting: PolicyContext) -> tuple[int, int]:
    """The most CPU and the most GPUs of any node, in thousandths; never 0."""
    cpu = max((node.cpu_milli for node in setting.nodes), default=0)
    gpus = max((node.gpus for node in setting.nodes), default=0)
    return max(cpu, 1), max(WHOLE * gpus, 1)
