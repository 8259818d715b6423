"""LeaderWorkerSet: its controllers and webhooks on a lab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

import allotment
from allotment.lab.manifests import NotApplied
from allotment.model.trees import Tree
from tests.operators.local_operator import Chart, LocalOperator, local_operator
from tests.operators.programs import BUILD_SECONDS

pytestmark = pytest.mark.timeout(BUILD_SECONDS)

CHART: Final = Chart(
    "lws", "lws-controller-manager", "lws-manager-config", "lws-webhook-server-cert", {"lws-webhook-service": 9443}
)


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalOperator]:
    """LeaderWorkerSet on a lab with two nodes."""
    folder = tmp_path_factory.mktemp("lws")
    with allotment.Lab(fleet="t4-4x-pcie:2", tls=True) as lab, local_operator(lab, CHART, folder) as running:
        yield running


def leader_worker_set(name: str, replicas: int, size: int) -> Tree:
    """Groups of a leader and its workers."""
    container = {"name": "main", "image": "registry.example/serve", "ports": [{"containerPort": 8080}]}
    template = {"size": size, "workerTemplate": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": template},
    }  # fmt: skip


def test_groups_of_pods_become_ready_and_are_scaled(operator: LocalOperator) -> None:
    lab = operator.lab
    selector = "leaderworkerset.sigs.k8s.io/name=serve"
    lab.apply(leader_worker_set("serve", 2, 3))
    lab.wait("leaderworkerset/serve", until="Available", timeout=60)
    pods = lab.list("pods", namespace="default", labels=selector)
    assert sorted(pod["metadata"]["name"] for pod in pods) == [
        "serve-0", "serve-0-1", "serve-0-2", "serve-1", "serve-1-1", "serve-1-2"
    ]  # fmt: skip
    # The mutating webhook of pods tells workers the address of their leader.
    worker = next(pod for pod in pods if pod["metadata"]["name"] == "serve-1-2")
    variables = {item["name"]: item.get("value") for item in worker["spec"]["containers"][0]["env"]}
    assert variables["LWS_LEADER_ADDRESS"] == "serve-1.serve.default"
    operator.kubectl("scale", "leaderworkerset/serve", "--replicas=1")
    lab.wait("leaderworkerset/serve", until=lambda tree: tree["status"].get("replicas") == 1, timeout=60)
    lab.delete("leaderworkerset", "serve", timeout=60)


def test_the_validating_webhook_refuses_a_group_without_a_leader(operator: LocalOperator) -> None:
    bad = leader_worker_set("bad", 1, 1)
    bad["spec"]["startupPolicy"] = "LeaderReady"
    bad["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] = {"subGroupSize": 3}
    with pytest.raises(NotApplied, match="admission webhook"):
        operator.lab.apply(bad)
