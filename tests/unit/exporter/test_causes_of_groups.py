"""Causes of pods that Kubernetes schedules together: one pod of each kind is examined, with all pods of its group."""

from __future__ import annotations

from allotment.exporter.causes import examine
from allotment.exporter.state import ExporterState
from allotment.model.core import Pod
from allotment.model.features import Features
from tests.unit.explanation.test_explain import slice_
from tests.unit.explanation.test_gangs import GANGS, gang, holding, member, members, objects


def cause(*documents: str, features: Features = GANGS) -> str:
    """The cause of the first pending pod, as the exporter determines it."""
    state = ExporterState.of(objects(*documents), features)
    (found,) = examine(
        state.values(), [next(iter(state.pending_pods.values()))], features, tuple(state.grouped_pods.values())
    )
    return found


def test_a_pod_whose_gang_does_not_fit_is_not_ready_for_scheduling() -> None:
    documents = (slice_("n1", 2), gang(3), *members(3))
    assert cause(*documents) == "gang-incomplete"
    assert cause(*documents, features=Features("1.37")) == "none"
    assert cause(slice_("n1", 3), gang(3), *members(3)) == "none"


def test_pods_that_have_a_node_are_members() -> None:
    running = (member("a", node="n1"), holding("claim-a", "n1", "gpu-0", "a"))
    assert cause(slice_("n1", 2), gang(2), *running, member("p0")) == "none"
    assert cause(slice_("n1", 2), gang(2), member("p0")) == "gang-incomplete"


def test_a_deleted_pod_is_no_member() -> None:
    state = ExporterState.of(objects(slice_("n1", 3), gang(3), *members(3)), GANGS)
    assert len(state.grouped_pods) == 3
    for key in list(state.grouped_pods)[1:]:
        state.remove(Pod, key)
    assert len(state.grouped_pods) == len(state.pending_pods) == 1
