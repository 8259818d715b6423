"""Devices that use cpu and memory of their node, in explanations."""

from __future__ import annotations

import json
from typing import Any

from allotment.explanation import Explanation, explain, lines
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.meta import Object
from allotment.model.trees import Tree

ON = Features("1.37", {"DRANodeAllocatableResources": True})
NAMESPACE = "ns"


def node(name: str, cpu: str = "8", memory: str = "1Gi", **spec: Any) -> Tree:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec,
        "status": {"allocatable": amounts, "declaredFeatures": ["DRANodeAllocatableResources"]},
    }  # fmt: skip


def devices(on: str, count: int, **resources: Tree) -> Tree:
    listed = [{"name": f"d{n}", "nodeAllocatableResources": resources} for n in range(count)]
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": on},
        "spec": {"driver": "d.example.com", "nodeName": on, "pool": pool, "devices": listed},
    }  # fmt: skip


DEVICES: Tree = {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}
CLASS: Tree = {
    "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "k"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "d.example.com"'}}]},
}  # fmt: skip
TEMPLATE: Tree = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t", "namespace": NAMESPACE}, "spec": {"spec": {"devices": DEVICES}},
}  # fmt: skip


def claim(name: str, *, device: str = "", on: str = "a", users: tuple[str, ...] = ()) -> Tree:
    tree: Tree = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"devices": DEVICES},
    }  # fmt: skip
    if device:
        result = {"request": "r", "driver": "d.example.com", "pool": on, "device": device}
        tree["status"] = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users],
        }
    return tree


def pod(name: str, claim_name: str = "", cpu: str = "", memory: str = "", **spec: Any) -> Tree:
    entry = {"resourceClaimName": claim_name} if claim_name else {"resourceClaimTemplateName": "t"}
    requests = {k: v for k, v in (("cpu", cpu), ("memory", memory)) if v}
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "claims": [{"name": "x"}]}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"},
        "spec": {"resourceClaims": [{"name": "x", **entry}], "containers": [container], **spec},
    }  # fmt: skip


def explained(*trees: Tree, features: Features = ON) -> Explanation:
    loaded = load_text("---\n".join(json.dumps(tree) + "\n" for tree in trees).encode(), "test.yaml")
    values = [m.value for m in decode_all(loaded.documents).manifests if isinstance(m.value, Object)]
    return explain(values, features)


def outcomes(found: Explanation) -> dict[str, str]:
    return {
        answer.name: answer.reasons.headline.code if answer.reasons is not None else answer.node
        for answer in found.answers
    }


FOUR = {"mapping": {"deviceMultiplier": "4"}}


def test_each_pod_takes_the_cpus_of_its_device() -> None:
    found = explained(node("a"), devices("a", 3, cpu=FOUR), CLASS, TEMPLATE, *(pod(f"p{n}") for n in range(3)))
    assert outcomes(found) == {"ns/p0": "a", "ns/p1": "a", "ns/p2": "node-resources-short"}
    assert found.answers[2].reasons is not None
    assert found.answers[2].reasons.headline.summary == (
        "the devices are free on a, but cpu is short: 4 requested, 4 of it by devices; 0 of 8 free"
    )


def test_pods_on_the_node_count_with_their_requests_and_devices() -> None:
    running = pod("running", "used", cpu="1", nodeName="a")
    objects = (node("a"), devices("a", 2, cpu=FOUR), CLASS, TEMPLATE, claim("used", device="d0", users=("running",)))
    assert outcomes(explained(*objects, running, pod("p", cpu="1")))["ns/p"] == "node-resources-short"
    found = explained(*objects, pod("running", "used", nodeName="a"), pod("p"))
    assert outcomes(found)["ns/p"] == "a"


def test_the_next_node_with_enough_is_chosen() -> None:
    objects = (node("a", cpu="4"), node("b"), devices("a", 1, cpu=FOUR), devices("b", 1, cpu=FOUR), CLASS, TEMPLATE)
    assert outcomes(explained(*objects, pod("p", cpu="2")))["ns/p"] == "b"


def test_a_cordoned_node_with_enough_is_uncordoned_first() -> None:
    """Rather than to request less cpu on the other node."""
    b = node("b", unschedulable=True)
    both = (devices("a", 1, cpu=FOUR), devices("b", 1, cpu=FOUR), CLASS, TEMPLATE)
    (answer,) = explained(node("a", cpu="4"), b, *both, pod("p", cpu="2")).answers
    assert answer.reasons is not None
    headline = answer.reasons.headline
    assert headline.summary == "b, which has the devices, is cordoned"
    assert [change.command for change in headline.changes] == ["kubectl uncordon b"]
    (answer,) = explained(node("a", cpu="4"), node("b", cpu="5", unschedulable=True), *both, pod("p", cpu="2")).answers
    assert answer.reasons is not None
    assert answer.reasons.headline.code == "node-resources-short"
    assert not any(change.remedy == "uncordon" for change in answer.reasons.headline.changes)


def test_the_nearest_of_several_nodes_is_the_headline() -> None:
    objects = (node("a", cpu="4"), node("b"), devices("a", 1, cpu=FOUR), devices("b", 1, cpu=FOUR), CLASS, TEMPLATE)
    found = explained(*objects, pod("p", cpu="5"))
    text = " ".join("\n".join(lines(found)).split())
    assert "the devices are free on b, but cpu is short: 9 requested, 4 of it by devices; 8 of 8 free" in text
    assert "to make it fit on b: request cpu 4 in container c" in text


def test_overhead_counts_for_a_claim_that_is_allocated() -> None:
    overhead = {"overhead": {"perPod": "100Mi", "perContainer": "50Mi"}}
    objects = (node("a"), devices("a", 1, memory=overhead), CLASS, claim("c", device="d0", users=("other",)))
    assert outcomes(explained(*objects, pod("p", "c", memory="874Mi")))["ns/p"] == "a"
    found = explained(*objects, pod("p", "c", memory="875Mi"))
    assert outcomes(found)["ns/p"] == "node-resources-short"
    assert "memory is short: 1025Mi requested, 150Mi of it by devices; 1Gi of 1Gi free" in " ".join(
        "\n".join(lines(found)).split()
    )


def test_a_mapped_claim_cannot_be_shared() -> None:
    objects = (node("a"), devices("a", 1, cpu=FOUR), CLASS, claim("c", device="d0", users=("other",)))
    assert outcomes(explained(*objects, pod("p", "c")))["ns/p"] == "mapped-claim-in-use"
    assert outcomes(explained(*objects, pod("other", "c")))["ns/other"] == "a"


def test_without_the_gate_nothing_is_counted() -> None:
    objects = (node("a"), devices("a", 3, cpu=FOUR), CLASS, TEMPLATE)
    found = explained(*objects, *(pod(f"p{n}") for n in range(3)), features=Features("1.37"))
    assert set(outcomes(found).values()) == {"a"}


def test_what_devices_use_is_unknown_if_one_is_not_published() -> None:
    four = {"cpu": {"mapping": {"deviceMultiplier": "4"}}}
    allocated = claim("c", device="d0")
    results = allocated["status"]["allocation"]["devices"]["results"]
    results.append({**results[0], "device": "gone"})
    found = explained(node("a"), devices("a", 1, **four), CLASS, allocated, pod("p", "c"))
    assert outcomes(found)["ns/p"] == "device-use-unknown"
    assert "device gone not found in pool a for driver d.example.com" in " ".join(lines(found, width=1000))


def test_what_a_device_uses_is_unknown_if_it_depends_on_a_capacity_that_is_not_consumed() -> None:
    depends = {"cpu": {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1"}}}
    slice_ = devices("a", 1, **depends)
    slice_["spec"]["devices"][0]["capacity"] = {"cores": {"value": "8"}}
    found = explained(node("a"), slice_, CLASS, TEMPLATE, pod("p"))
    assert outcomes(found)["ns/p"] == "device-use-unknown"
    assert "ConsumedCapacity is nil, but Capacity key 'cores' is set" in " ".join(lines(found, width=1000))
