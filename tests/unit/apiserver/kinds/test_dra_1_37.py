"""What Kubernetes 1.37 changed in the answers for kinds of ``resource.k8s.io``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.model.features import GATES, Features
from allotment.model.trees import Tree
from tests.unit.apiserver.served import DecodedResponse, Served

GROUP = "/apis/resource.k8s.io"
SLICES, RULES = f"{GROUP}/v1/resourceslices", f"{GROUP}/v1/devicetaintrules"
PLAIN = Features("1.37")
ALL_ON = Features("1.37", {gate: True for gate, releases in GATES.items() if "1.37" in releases})
RULE = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}


def resource_slice(name: str = "s", **spec: Any) -> Tree:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    base = {"driver": "d.example.com", "pool": pool, "allNodes": True}
    return {"metadata": {"name": name}, "spec": {key: item for key, item in (base | spec).items() if item is not None}}


def node(name: str, *declared: str, **labels: str) -> Tree:
    return {"metadata": {"name": name, "labels": labels}, "status": {"declaredFeatures": list(declared)}}


def answers(features: Features, *requests: tuple[str, str, Any]) -> list[DecodedResponse]:
    """The answers to requests, one after another."""

    async def scenario() -> list[DecodedResponse]:
        served = await Served(features=features).started()
        return [await served.request(method, path, body, "application/json") for method, path, body in requests]

    return asyncio.run(scenario())


# --- devices that take resources of their node -----------------------------------------------------------------------

TAKING = {"name": "d", "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}}
FEATURE = "DRANodeAllocatableResources"
NODES = (node("new", FEATURE, kubelet="new"), node("old", kubelet="old"))


def refusal(features: Features = ALL_ON, **spec: Any) -> str:
    """Why admission refuses a slice; empty if it does not."""
    nodes = [("POST", "/api/v1/nodes", tree) for tree in NODES]
    *_, answer = answers(features, *nodes, ("POST", SLICES, resource_slice(**spec)))
    assert answer.code in (201, 403), answer.body
    return "" if answer.code == 201 else answer.message.partition(" is forbidden: ")[2]


def selector(value: str) -> Tree:
    requirement = {"key": "kubelet", "operator": "In", "values": [value]}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"nodeName": "new"}, ""),
        ({"nodeName": "old"}, f'node "old" does not support {FEATURE} feature'),
        ({"nodeName": "nobody"}, 'node "nobody" not found for device "d"'),
        ({"nodeSelector": selector("new")}, ""),
        ({"nodeSelector": selector("old")}, f'node "old" does not support {FEATURE} feature'),
        ({"nodeSelector": selector("none")}, ""),
        ({"allNodes": True}, f'node "old" does not support {FEATURE} feature'),
    ],
)
def test_every_node_of_a_device_counts_what_the_device_takes(where: Tree, expected: str) -> None:
    for_slice: Tree = {"allNodes": None} | where
    assert refusal(devices=[TAKING], **for_slice) == expected
    for_device: Tree = {"perDeviceNodeSelection": True, "allNodes": None}
    assert refusal(devices=[TAKING | where], **for_device) == expected


def test_other_devices_and_other_settings_are_not_asked() -> None:
    assert refusal(nodeName="old", allNodes=None, devices=[{"name": "d"}]) == ""
    assert refusal(PLAIN, nodeName="old", allNodes=None, devices=[TAKING]) == ""


def test_an_invalid_slice_is_invalid_on_any_node() -> None:
    bad = resource_slice(nodeName="nobody", allNodes=None, devices=[TAKING | {"name": "D"}])
    (answer,) = answers(ALL_ON, ("POST", SLICES, bad))
    assert answer.code == 422


# --- fields ----------------------------------------------------------------------------------------------------------


def test_the_client_owns_fields_of_disabled_features() -> None:
    path = f"{SLICES}?fieldManager=me"
    new = resource_slice(skipNodeOperations=["NodeUnprepareResources"])
    created, updated = answers(
        PLAIN, ("POST", path, resource_slice(skipNodeOperations=["*"])), ("PUT", path.replace("?", "/s?"), new)
    )
    for answer, operation in ((created, "*"), (updated, "NodeUnprepareResources")):
        assert "skipNodeOperations" not in answer.body["spec"]
        (entry,) = answer.body["metadata"]["managedFields"]
        assert f'v:"{operation}"' in entry["fieldsV1"]["f:spec"]["f:skipNodeOperations"]


@pytest.mark.parametrize(("kube", "code"), [("1.36", 400), ("1.37", 200)])
def test_slices_are_selected_by_pool_since_1_37(kube: str, code: int) -> None:
    *_, answer = answers(
        Features(kube),
        ("POST", SLICES, resource_slice("a")),
        ("POST", SLICES, resource_slice("b")),
        ("GET", f"{SLICES}?fieldSelector=spec.pool.name%3Db", None),
    )
    assert answer.code == code
    if code == 200:
        assert [item["metadata"]["name"] for item in answer.body["items"]] == ["b"]


# --- taint rules -----------------------------------------------------------------------------------------------------


def test_deleting_a_rule_returns_a_status_in_v1() -> None:
    _, answer = answers(PLAIN, ("POST", RULES, RULE), ("DELETE", f"{RULES}/r", None))
    assert (answer.code, answer.body["kind"], answer.body["details"]["name"]) == (200, "Status", "r")


def test_an_update_of_a_rule_in_v1_names_a_revision() -> None:
    _, answer = answers(PLAIN, ("POST", RULES, RULE), ("PUT", f"{RULES}/r", RULE))
    assert answer.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message
