"""The words of a taint decide whether pods may tolerate it."""

from __future__ import annotations

import pytest

from allotment.explanation.taint_remedies import recovery_text, remedy_of
from allotment.model.core import Taint


def taint(name: str) -> Taint:
    key, _, value = name.partition("=")
    return Taint(key=key, value=value, effect="NoSchedule")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken-gpu=true", "wait until big is repaired"),
        ("gpu-unhealthy=true", "wait until big is repaired"),
        ("example.com/gpuUnhealthy", "wait until big is repaired"),
        ("gpu-health=failed", "wait until big is repaired"),
        ("xid=79", "wait until big is repaired"),
        ("repair", "wait until big is repaired"),
        ("nvidia.com/gpu=broken", "wait until big is repaired"),
        ("upgrade=in-progress", "wait until the maintenance of big is over"),
        ("node-state=drain", "wait until the maintenance of big is over"),
        ("example.com/maintenance=firmware", "wait until the maintenance of big is over"),
        ("decommission=true", "find out whether big returns to service"),
        ("node.kubernetes.io/out-of-service=nodeshutdown", "find out whether big returns to service"),
        ("node.kubernetes.io/memory-pressure", "wait until big is available"),
        ("node.cilium.io/agent-not-ready", "wait until big is available"),
    ],
)
def test_a_state_of_the_node_is_not_tolerated(name: str, text: str) -> None:
    assert remedy_of(taint(name)) == "recover"
    assert recovery_text("big", taint(name)) == f"{text} (taint {name}:NoSchedule)"


@pytest.mark.parametrize(
    "name",
    [
        "dedicated=ml",
        "nvidia.com/gpu=present",
        "gpu=yes",
        "sku=gpu",
        "pool=failover",
        "dedicated=repair",
        "team=health",
    ],
)
def test_a_reservation_is_tolerated(name: str) -> None:
    """The value of a key such as ``dedicated`` is the name of a user, whatever it means otherwise."""
    assert remedy_of(taint(name)) == "tolerate-node"


@pytest.mark.parametrize("name", ["ToBeDeletedByClusterAutoscaler=1764", "karpenter.sh/disrupted"])
def test_a_node_that_an_autoscaler_deletes_does_not_return(name: str) -> None:
    assert remedy_of(taint(name)) == ""
