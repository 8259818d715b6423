"""Running pods in a resize count with their allocated resources in plans and consolidation."""

from __future__ import annotations

from typing import Any

from allotment.model.core import Pod
from allotment.model.trees import Tree, to_value
from allotment.planning.consolidation.movable_pods import MovablePodReader
from allotment.planning.pending_pods.demand import read_demand
from tests.unit.planning.demands import FEATURES, node

HAS: Tree = {"name": "main", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "3"}}


def pod(**spec: Any) -> Tree:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": "p", "namespace": "ml", "uid": "u"},
        "spec": {"containers": [container], **spec},
        "status": {"phase": "Running", "containerStatuses": [HAS]},
    }


def test_a_plan_counts_the_allocated_resources_of_a_running_pod() -> None:
    found = read_demand([node("n"), to_value(pod(nodeName="n"), Pod)], FEATURES)
    assert [(resident.requirements.requests, where) for resident, where in found.residents] == [({"cpu": 3000}, "n")]


def test_consolidation_counts_them_except_for_a_rescheduled_pod() -> None:
    reader = MovablePodReader({}, {}, {}, {})
    assert reader.read(pod(nodeName="n")).resident.requirements.requests == {"cpu": 3000}
    assert reader.read(pod()).resident.requirements.requests == {"cpu": 1000}
