"""Pods whose devices are held by other pods of the same workload."""

from __future__ import annotations

import pytest

from allotment.engine.refusal import AllocationRefusal
from allotment.explanation import Explanation
from allotment.explanation.origin_mapping import awaited_claims
from tests.unit.explanation.test_explain import CLASS, TEMPLATE, explained, node, slice_


def held(claim: str) -> str:
    """A claim that has the only device of node a, for the pod that its name begins with."""
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {claim}, namespace: ns, uid: c-1}}
spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]}}}}
status:
  allocation: {{devices: {{results: [{{request: gpu, driver: gpu.example.com, pool: a, device: gpu-0}}]}}}}
  reservedFor: [{{resource: pods, name: {claim.removesuffix("-gpu-vmdn6")}, uid: u-1}}]
"""


def waiting(owner: str, hash_: str = "", kind: str = "ReplicaSet") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata:
  name: {owner}-nr688
  namespace: ns
  labels: {{pod-template-hash: "{hash_}"}}
  ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {owner}, controller: true, uid: o-1}}]
spec:
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: one}}]
  containers: [{{name: main, image: pause, resources: {{claims: [{{name: gpu}}]}}}}]
"""


def refused(*manifests: str) -> AllocationRefusal:
    explanation: Explanation = explained(CLASS, TEMPLATE, node("a"), slice_("a", 1), *manifests)
    reasons = explanation.answers[-1].reasons
    assert reasons is not None
    assert reasons.headline.code == "devices-in-use"
    return reasons.headline


def test_a_pod_that_waits_for_the_replaced_one_needs_another_strategy() -> None:
    (change,) = refused(held("web-m2vr868fk5-p9n2z-gpu-vmdn6"), waiting("web-bcsjtpm8qt", "bcsjtpm8qt")).changes
    assert (change.object, change.path, change.remedy) == ("Deployment ns/web", "spec.strategy", "rollout")
    assert change.becomes["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize(
    ("kind", "whose"), [("ReplicaSet", "Deployment ns/web"), ("StatefulSet", "StatefulSet ns/web-bcsjtpm8qt")]
)
def test_too_many_replicas_are_reported(kind: str, whose: str) -> None:
    """A Deployment would undo the change of its ReplicaSet."""
    (change,) = refused(held("web-bcsjtpm8qt-p9n2z-gpu-vmdn6"), waiting("web-bcsjtpm8qt", "bcsjtpm8qt", kind)).changes
    assert change.remedy == "replicas"
    assert change.text.startswith(f"run fewer replicas of {whose}, or add a node")


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        ("notebook-0-gpu-vmdn6", "ReplicaSet"),
        ("web-api-m2vr868fk5-p9n2z-gpu-vmdn6", "ReplicaSet"),
        ("web-bcsjtpm8qt-p9n2z-gpu-vmdn6", "Job"),
    ],
)
def test_pods_that_end_and_pods_of_other_workloads_are_waited_for(claim: str, kind: str) -> None:
    (change,) = refused(held(claim), waiting("web-bcsjtpm8qt", "bcsjtpm8qt", kind)).changes
    assert change.remedy == "wait"


def holder(kind: str) -> str:
    """The pod of `held` claim ``store-0-gpu-vmdn6``, which a workload of this kind owns."""
    return f"""
apiVersion: v1
kind: Pod
metadata:
  name: store-0
  namespace: ns
  uid: u-1
  ownerReferences: [{{apiVersion: v1, kind: {kind}, name: store, controller: true, uid: o-2}}]
spec:
  nodeName: a
  resourceClaims: [{{name: gpu, resourceClaimName: store-0-gpu-vmdn6}}]
  containers: [{{name: main, image: pause, resources: {{claims: [{{name: gpu}}]}}}}]
"""


CORDONED = "spec: {unschedulable: true}\n"
TAINTED = "spec: {taints: [{key: dedicated, value: ml, effect: NoSchedule}]}\n"


@pytest.mark.parametrize(
    ("other_node", "kind", "code", "remedies"),
    [
        (CORDONED, "Job", "node-not-eligible", ["uncordon", "wait"]),
        (CORDONED, "StatefulSet", "node-not-eligible", ["uncordon", "wait"]),
        (TAINTED, "Job", "node-not-eligible", ["tolerate-node", "wait"]),
        (TAINTED, "StatefulSet", "node-not-eligible", ["tolerate-node", "wait"]),
        (TAINTED, "DaemonSet", "node-not-eligible", ["tolerate-node", "wait"]),
    ],
)
def test_a_cordoned_or_tainted_node_comes_before_waiting(
    other_node: str, kind: str, code: str, remedies: list[str]
) -> None:
    nodes = (node("a"), slice_("a", 1), node("b", other_node), slice_("b", 1))
    explanation = explained(
        CLASS, TEMPLATE, *nodes, held("store-0-gpu-vmdn6"), holder(kind), waiting("batch", kind="Job")
    )
    reasons = explanation.answers[-1].reasons
    assert reasons is not None
    headline = reasons.headline
    assert headline.code == code
    assert [change.remedy for change in (*headline.changes, *headline.otherwise)] == remedies


def test_uncordoning_comes_before_fewer_replicas_and_has_a_command() -> None:
    nodes = (node("a"), slice_("a", 1), node("b", CORDONED), slice_("b", 1))
    own = (held("web-bcsjtpm8qt-p9n2z-gpu-vmdn6"), waiting("web-bcsjtpm8qt", "bcsjtpm8qt"))
    reasons = explained(CLASS, TEMPLATE, *nodes, *own).answers[-1].reasons
    assert reasons is not None
    (first,), (second,) = reasons.headline.changes, reasons.headline.otherwise
    assert (first.command, second.remedy, second.command) == ("kubectl uncordon b", "replicas", "")


def test_pods_of_another_workload_that_do_not_end_are_not_waited_for() -> None:
    """Each of two devices is held by a pod of the same StatefulSet, and the Job needs both."""
    second = (held("store-1-gpu-vmdn6").replace("gpu-0", "gpu-1"), holder("StatefulSet").replace("store-0", "store-1"))
    both = TEMPLATE.replace("{deviceClassName: gpu}", "{deviceClassName: gpu, count: 2}")
    holders = (held("store-0-gpu-vmdn6"), holder("StatefulSet"), *second)
    (*_, answer) = explained(CLASS, both, node("a"), slice_("a", 2), *holders, waiting("batch", kind="Job")).answers
    assert answer.reasons is not None
    (change,) = answer.reasons.headline.changes
    claims = "ns/store-0-gpu-vmdn6, ns/store-1-gpu-vmdn6"
    assert change.text == (f"scale down StatefulSet ns/store, whose pods do not end (claims {claims}), or add a node")


def test_a_workload_is_named_with_its_own_claims_only() -> None:
    """A pod that ends holds the other device; the Job needs both."""
    other = held("batch-1-gpu-vmdn6").replace("gpu-0", "gpu-1")
    both = TEMPLATE.replace("{deviceClassName: gpu}", "{deviceClassName: gpu, count: 2}")
    holders = (held("store-0-gpu-vmdn6"), holder("StatefulSet"), other)
    (*_, answer) = explained(CLASS, both, node("a"), slice_("a", 2), *holders, waiting("batch", kind="Job")).answers
    assert answer.reasons is not None
    (change,) = answer.reasons.headline.changes
    assert change.text == (
        "scale down StatefulSet ns/store, whose pods do not end (claim ns/store-0-gpu-vmdn6), and wait for claim "
        "ns/batch-1-gpu-vmdn6 to be released, or add a node"
    )
    assert len(awaited_claims(change)) == 2
