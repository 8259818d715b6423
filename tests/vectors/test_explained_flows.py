"""Where Kubernetes 1.37 left pods pending, explain says why, also for pods that are scheduled together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vectors.apiserver.recorded_servers import recorded_server
from tests.vectors.apiserver.recording import rows
from tests.vectors.explained_flows import PendingPod, pending_pods

FLOWS = "vectors/k8s-1.37/apiserver/137-60-scheduler-flows-p2.jsonl.gz"
#: Pods that fit at the end of a flow, although they are pending, with the reason. By flow.
FITTING = {
    "gang: devices for some, then a slice comes": "the gang fits; the recording ends before Kubernetes tries it again",
    "composite: devices for one group only": "explain does not consider CompositePodGroups",
    "binding: failure condition": "Kubernetes releases the allocation after its condition failed, and tries again",
}


@pytest.fixture(scope="module")
def pending(request: pytest.FixtureRequest) -> list[PendingPod]:
    """The pods that Kubernetes left pending in all flows."""
    path: Path = request.getfixturevalue("shared")(FLOWS)
    features = recorded_server(path.name).features
    return [pod for flow in rows(path) for pod in pending_pods(flow, features)]


def test_pods_that_kubernetes_leaves_pending_do_not_fit(
    pending: list[PendingPod], record_score: Callable[[str], None]
) -> None:
    refused = [pod for pod in pending if not pod.answer.fits]
    record_score(f"explain    explained {len(refused)} of the {len(pending)} pods that Kubernetes 1.37 left pending")
    assert {pod.flow for pod in pending if pod.answer.fits} == FITTING.keys()
    assert sum(pod.is_grouped for pod in refused) >= 15


def test_a_pod_that_waits_for_its_gang_is_told_so(pending: list[PendingPod]) -> None:
    """With the counts of Kubernetes' message, which also names placements if the topology gate is on."""
    waiting = [pod for pod in pending if pod.flow not in FITTING and "cannot be satisfied" in pod.message]
    assert len(waiting) >= 5
    for pod in waiting:
        assert pod.answer.reasons is not None
        headline = pod.answer.reasons.headline
        if ": 0 scheduled" not in pod.message:  # otherwise no pod fits, and each has its own reason
            assert headline.code == "gang-incomplete", pod.name
            assert headline.kubernetes.rpartition("unschedulable, ")[2] in pod.message, pod.name
