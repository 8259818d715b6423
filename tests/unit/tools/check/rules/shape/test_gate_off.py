"""S110: the fields and kinds that need feature gates, and the consequences of disabled ones."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from allotment.model.decoding import Manifest
from allotment.model.features import GATES, Features
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.model.validation import disabled_fields
from allotment.tools.check.objects.gates import disabled_gates
from allotment.tools.check.rules.shape import gate_off
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.shape.rule_results import claim, matches_of

RULE = gate_off.RULE


def a_claim(request: dict[str, Any], constraint: dict[str, Any] | None = None) -> dict[str, Any]:
    devices = {"requests": [{"name": "a", **request}], "constraints": [constraint] if constraint else []}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"},
            "spec": {"devices": devices}}  # fmt: skip


def a_slice(device: dict[str, Any], **spec: Any) -> dict[str, Any]:
    pool, devices = {"name": "a", "resourceSliceCount": 1}, [{"name": "a", **device}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"},
            "spec": {"driver": "a", "nodeName": "a", "pool": pool, "devices": devices, **spec}}  # fmt: skip


def a_class(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "a"}, "spec": spec}


EXACTLY: Final = {"deviceClassName": "a"}
#: Objects that need a gate, one for each field.
NEEDY: Final[list[tuple[str, dict[str, Any]]]] = [
    ("DRAPrioritizedList", a_claim({"firstAvailable": [{"name": "b", **EXACTLY}]})),
    ("DRADeviceTaints", a_claim({"exactly": {**EXACTLY, "tolerations": [{"operator": "Exists"}]}})),
    ("DRADeviceTaints", a_claim({"firstAvailable": [{"name": "b", **EXACTLY, "tolerations": [{"key": "k"}]}]})),
    ("DRADeviceTaints", a_slice({"taints": [{"key": "a", "effect": "NoSchedule"}]})),
    ("DRAAdminAccess", a_claim({"exactly": {**EXACTLY, "adminAccess": False}})),
    ("DRAConsumableCapacity", a_claim({"exactly": {**EXACTLY, "capacity": {"requests": {"memory": "1Gi"}}}})),
    ("DRAConsumableCapacity", a_claim({"exactly": EXACTLY}, {"distinctAttribute": "a/b"})),
    ("DRAConsumableCapacity", a_slice({"allowMultipleAllocations": False})),
    ("DRAConsumableCapacity", a_slice({"capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}})),
    (
        "DRAPartitionableDevices",
        a_slice({"consumesCounters": [{"counterSet": "a", "counters": {"b": {"value": "1"}}}]}),
    ),
    ("DRAPartitionableDevices", a_slice({"nodeName": "b"})),
    ("DRAPartitionableDevices", a_slice({"allNodes": True}, perDeviceNodeSelection=True)),
    ("DRADeviceBindingConditions", a_slice({"bindsToNode": True})),
    ("DRADeviceBindingConditions", a_slice({"bindingConditions": ["a"], "bindingFailureConditions": ["b"]})),
    ("DRANodeAllocatableResources", a_slice({"nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "a"}}})),
    ("DRAListTypeAttributes", a_slice({"attributes": {"a": {"strings": ["x"]}}})),
    ("DRAExtendedResource", a_class(extendedResourceName="example.com/gpu")),
]
EVERYTHING: Final = {gate: True for gate, releases in GATES.items() if "1.36" in releases}


def gates_of(tree: dict[str, Any], **gates: bool) -> set[str]:
    bundle = bundle_of(json.dumps(tree), gates={**EVERYTHING, **gates})
    (document,) = bundle.documents
    return {needed.gate for needed in disabled_gates(bundle, document)}


@pytest.mark.parametrize(("gate", "tree"), NEEDY, ids=str)
def test_gated_fields_are_those_that_the_api_server_drops(gate: str, tree: dict[str, Any]) -> None:
    assert gates_of(tree) == set()
    assert gates_of(tree, **{gate: False}) == {gate}
    assert _is_changed(tree, {**EVERYTHING, gate: False})
    assert not _is_changed(tree, EVERYTHING)


def test_every_gate_with_dropped_fields_is_tested() -> None:
    tables = (disabled_fields._CLAIM_SPEC, disabled_fields._SLICE_SPEC, disabled_fields._DEVICE_CLASS)
    assert {gate for gate, _ in NEEDY} == {gate for table in tables for entry in table for gate in entry.gates} - {
        "DRAResourceClaimDeviceStatus"
    }


def _is_changed(tree: dict[str, Any], gates: dict[str, bool]) -> bool:
    """Whether the API server would store something else than it received."""
    bundle = bundle_of(json.dumps(tree))
    manifest = bundle.decoded[bundle.documents[0]]
    assert isinstance(manifest, Manifest)
    value, features = manifest.value, Features("1.36", gates)
    if isinstance(value, ResourceClaim):
        return disabled_fields.claim_spec(value.spec, None, features) != value.spec
    if isinstance(value, ResourceSlice):
        return disabled_fields.slice_spec(value.spec, None, features) != value.spec
    assert isinstance(value, DeviceClass)
    return disabled_fields.device_class(value, None, features) != value


def test_fields_of_v1beta1() -> None:
    text = claim("- name: a\n  deviceClassName: a\n  tolerations: [{operator: Exists}]", version="v1beta1")
    (match,) = matches_of(RULE, text, kube="1.35")
    assert match.path[-1] == "tolerations"


def test_message_and_help() -> None:
    text = claim("- name: a\n  exactly: {deviceClassName: a, tolerations: [{operator: Exists}]}")
    (match,) = matches_of(RULE, text, kube="1.35")
    assert match.message == (
        "tolerations needs feature gate DRADeviceTaints, which is alpha and off by default in Kubernetes 1.35, and on "
        "by default since 1.36"
    )
    assert match.help == (
        "the API server silently drops the field; device taints have no effect either; enable the gate with "
        "--feature-gates=DRADeviceTaints=true on all components"
    )
    assert matches_of(RULE, text) == []


def test_many_places_are_reported_at_the_first() -> None:
    devices = [{"name": f"gpu-{n}", "taints": [{"key": "a", "effect": "NoSchedule"}]} for n in range(3)]
    tree = a_slice({})
    tree["spec"]["devices"] = devices
    (match,) = matches_of(RULE, json.dumps(tree), kube="1.35")
    assert match.path == ("spec", "devices", 0, "taints")
    assert "(here and in 2 more places)" in match.message


def test_release_without_the_field_rejects_it() -> None:
    (match,) = matches_of(RULE, json.dumps(a_slice({"attributes": {"a": {"strings": ["x"]}}})), kube="1.35")
    assert match.level == "error"
    assert "which Kubernetes 1.35 does not have (added in 1.36)" in match.message


def test_gated_kinds() -> None:
    rule = (
        "apiVersion: resource.k8s.io/v1beta2\nkind: DeviceTaintRule\nmetadata: {name: a}\n"
        "spec: {taint: {key: a, effect: NoSchedule}}\n"
    )
    (match,) = matches_of(RULE, rule)
    assert match.level == "warning"
    assert "--runtime-config=resource.k8s.io/v1beta2=true" in match.help
    assert "DRADeviceTaints," in matches_of(RULE, rule, kube="1.34")[0].message
    assert matches_of(RULE, rule, kube="1.37") == []


def test_implicit_extended_resource() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: a
    resources: {limits: {deviceclass.resource.kubernetes.io/gpu.example.com: 1}}
"""
    assert [match.level for match in matches_of(RULE, text, kube="1.35")] == ["error"]
    assert matches_of(RULE, text) == []
