"""Conditions that ``Lab.wait`` waits for."""

from __future__ import annotations

import pytest

from allotment.lab import wait_conditions
from allotment.model.trees import Tree


def an_object(status: Tree | None = None, spec: Tree | None = None, generation: int = 1) -> Tree:
    return {"metadata": {"name": "a", "generation": generation}, "spec": spec or {}, "status": status or {}}


READY = {"conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize(
    ("kind", "tree", "done"),
    [
        ("Pod", an_object(READY | {"phase": "Running"}), True),
        ("Pod", an_object({"phase": "Running"}), False),
        ("Pod", an_object({"phase": "Succeeded"}), True),
        ("Pod", an_object({"phase": "Failed"}), False),
        ("ResourceClaim", an_object({"allocation": {"devices": {}}}), True),
        ("ResourceClaim", an_object({}), False),
        ("Deployment", an_object({"observedGeneration": 2, "availableReplicas": 3}, {"replicas": 3}, 2), True),
        ("Deployment", an_object({"observedGeneration": 1, "availableReplicas": 3}, {"replicas": 3}, 2), False),
        ("Deployment", an_object({"observedGeneration": 2}, {"replicas": 3}, 2), False),
        ("Deployment", an_object({"observedGeneration": 2}, {"replicas": 0}, 2), True),
        ("StatefulSet", an_object({"observedGeneration": 1, "readyReplicas": 1}), True),
        ("DaemonSet", an_object({"observedGeneration": 1, "numberReady": 1, "desiredNumberScheduled": 2}), False),
        ("DaemonSet", an_object({"observedGeneration": 1, "numberReady": 2, "desiredNumberScheduled": 2}), True),
        ("Job", an_object({"conditions": [{"type": "Complete", "status": "True"}]}), True),
        ("Job", an_object({"active": 1}), False),
        ("ConfigMap", {"metadata": {"name": "a"}}, True),
    ],
)
def test_the_default_condition_of_each_kind(kind: str, tree: Tree, done: bool) -> None:
    assert wait_conditions.predicate_for(None, kind)(tree) is done


def test_other_conditions_can_be_waited_for() -> None:
    scheduled = an_object({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]})
    assert wait_conditions.predicate_for("podscheduled", "Pod")(scheduled)
    assert not wait_conditions.predicate_for("Ready", "Pod")(scheduled)
    assert wait_conditions.predicate_for("phase=Pending", "Pod")(scheduled)
    assert not wait_conditions.predicate_for("phase=Running", "Pod")(scheduled)
    assert wait_conditions.predicate_for(lambda tree: tree["metadata"]["name"] == "a", "Pod")(scheduled)
    assert not wait_conditions.predicate_for("allocated", "ResourceClaim")(an_object())


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (None, "it does not exist"),
        (
            an_object(
                {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "status": "False", "message": "no device is free"}],
                }
            ),
            "PodScheduled: no device is free",
        ),
        (
            an_object({"conditions": [{"type": "Failed", "status": "True", "message": "too many retries"}]}),
            "Failed: too many retries",
        ),
        (an_object({"phase": "Pending"}), "phase Pending"),
        (an_object(), "its status contains no reason"),
    ],
)
def test_an_unmet_condition_has_a_reason(tree: Tree | None, words: str) -> None:
    assert wait_conditions.describe_state(tree) == words
