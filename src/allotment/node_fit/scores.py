"""Scores that depend on one node alone: higher is better, each part from 0 to 100.

Least allocated and balanced allocation (weight 1 each), preferred node affinity (2), PreferNoSchedule taints (3).
Kubernetes normalizes the last two by the best node of the cycle. Here the scale is fixed, so that a score is valid
until its node changes; the order among nodes is the same.
"""

from __future__ import annotations

from allotment.node_fit.filters.node_eligibility import tolerates
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import PodRequirements, selector_matches


def score(requirements: PodRequirements, node: CachedNode) -> int:
    """Return the weighted sum of all scores of a node."""
    total = _resource_score(requirements, node)
    if requirements.preferences:
        total += 2 * _node_affinity_score(requirements, node)
    if node.taints:
        total += 3 * _taint_score(requirements, node)
    else:
        total += 300
    return total


def _resource_score(requirements: PodRequirements, node: CachedNode) -> int:
    """Return the least-allocated plus the balanced-allocation score, over cpu and memory."""
    cpu, memory = node.allocatable.get("cpu", 0), node.allocatable.get("memory", 0)
    cpu_used, memory_used = node.scored_cpu + requirements.scored_cpu, node.scored_memory + requirements.scored_memory
    cpu_left = (cpu - cpu_used) * 100 // cpu if cpu and cpu_used <= cpu else 0
    memory_left = (memory - memory_used) * 100 // memory if memory and memory_used <= memory else 0
    imbalance = abs(cpu_left - memory_left) // 2
    return (cpu_left + memory_left) // 2 + 100 - imbalance


def _node_affinity_score(requirements: PodRequirements, node: CachedNode) -> int:
    total_weight = sum(p.weight for p in requirements.preferences)
    matched_weight = sum(p.weight for p in requirements.preferences if selector_matches(p.term, node.facts))
    return 100 * matched_weight // total_weight if total_weight else 0


def _taint_score(requirements: PodRequirements, node: CachedNode) -> int:
    untolerated = sum(
        1 for t in node.taints if t.effect == "PreferNoSchedule" and not tolerates(requirements.tolerations, t)
    )
    return 100 // (1 + untolerated)
