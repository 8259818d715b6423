"""Placement policies: a policy computes the cost of each candidate for a pod; the lowest cost is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from allotment.tools.replay.node_states import Floats, Ints, NodeStates
from allotment.tools.replay.trace import WHOLE, TraceNode
from allotment.tools.replay.workload import PodShape, Workload


def cost_of_score(score: Floats) -> Floats:
    """The cost of a score from 0 to 1: the negative score in integers from 0 to 100.

    >>> cost_of_score(np.array([0.031, 0.039, 1.0])).tolist()
    [-3.0, -3.0, -100.0]
    """
    whole: Floats = -np.floor(100 * np.clip(score, 0, 1))
    return whole


class Candidates(NamedTuple):
    """Candidate placements of one pod, as columns: the node's current state (candidates of a state are adjacent), and
    the node's remaining CPU, memory and GPU pattern after the placement.
    """

    state: Ints
    cpu: Ints
    memory: Ints
    pattern: Ints


class PolicyContext(NamedTuple):
    """The information available to a policy: pod shapes and their frequencies, but not their order; and the nodes."""

    workload: Workload
    nodes: tuple[TraceNode, ...]
    states: NodeStates


#: The cost of each candidate for a shape; it depends only on the state.
CostFunction = Callable[[PodShape, Candidates], Floats]


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """A placement policy. Of candidates with equal costs, the first node and its GPUs with the least idle capacity are
    chosen, or random ones (``is_random``). ``is_ordered``: a node's first GPUs that fit are chosen instead.
    """

    name: str
    summary: str
    cost_function: Callable[[PolicyContext], CostFunction]
    is_ordered: bool = False
    is_random: bool = False


def largest_node(setting: PolicyContext) -> tuple[int, int]:
    """The maximum CPU and the maximum GPU capacity of any node, in thousandths; at least 1."""
    cpu = max((node.cpu_milli for node in setting.nodes), default=0)
    gpus = max((node.gpus for node in setting.nodes), default=0)
    return max(cpu, 1), max(WHOLE * gpus, 1)
