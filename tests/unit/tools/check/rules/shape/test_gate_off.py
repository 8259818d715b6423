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
from allotment.tools.check.rules.shape import gate_off, other_release
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
DERIVED: Final = [{"name": "a/b", "expression": "1"}]
#: Objects of 1.37 that need a gate.
NEEDY_IN_1_37: Final[list[tuple[str, dict[str, Any]]]] = [
    ("DRADerivedAttributes", a_claim({"exactly": {**EXACTLY, "derivedAttributes": DERIVED}})),
    ("DRADerivedAttributes", a_claim({"firstAvailable": [{"name": "b", **EXACTLY, "derivedAttributes": DERIVED}]})),
    (
        "DRADeviceCompatibilityGroups",
        a_slice({"consumesCounters": [{"counterSet": "a", "counters": {}, "compatibilityGroups": ["a"]}]}),
    ),
    ("DRAPartitionableDevicesType", a_slice({}, partitionTypeAttribute="a/b")),
    ("DRAOptionalNodeOperations", a_slice({}, skipNodeOperations=["*"])),
    (
        "DRANodeAllocatableResources",
        a_slice({"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}}),
    ),
]
CASES: Final = [
    *((gate, tree, "1.36") for gate, tree in NEEDY),
    *((gate, tree, "1.37") for gate, tree in NEEDY_IN_1_37),
]


def everything(kube: str) -> dict[str, bool]:
    """All gates of a release, on."""
    return {gate: True for gate, releases in GATES.items() if kube in releases}


def gates_of(tree: dict[str, Any], kube: str, **gates: bool) -> set[str]:
    bundle = bundle_of(json.dumps(tree), kube=kube, gates={**everything(kube), **gates})
    (document,) = bundle.documents
    return {needed.gate for needed in disabled_gates(bundle, document)}


@pytest.mark.parametrize(("gate", "tree", "kube"), CASES, ids=str)
def test_gated_fields_are_those_that_the_api_server_drops(gate: str, tree: dict[str, Any], kube: str) -> None:
    assert gates_of(tree, kube) == set()
    assert gates_of(tree, kube, **{gate: False}) == {gate}
    assert _is_changed(tree, {**everything(kube), gate: False}, kube)
    assert not _is_changed(tree, everything(kube), kube)


def test_every_gate_with_dropped_fields_is_tested() -> None:
    tables = (disabled_fields._CLAIM_SPEC, disabled_fields._SLICE_SPEC, disabled_fields._DEVICE_CLASS)
    assert {gate for gate, *_ in CASES} == {gate for table in tables for entry in table for gate in entry.gates} - {
        "DRAResourceClaimDeviceStatus"
    }


def _is_changed(tree: dict[str, Any], gates: dict[str, bool], kube: str) -> bool:
    """Whether the API server would store something else than it received."""
    bundle = bundle_of(json.dumps(tree), kube=kube)
    manifest = bundle.decoded[bundle.documents[0]]
    assert isinstance(manifest, Manifest)
    value, features = manifest.value, Features(kube, gates)
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
    assert match.help == "strings exists since Kubernetes 1.36: the API server rejects it"


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


# --- groups of pods --------------------------------------------------------------------------------------------------


def group(kind: str = "PodGroup", version: str = "v1beta1", **spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": f"scheduling.k8s.io/{version}",
            "kind": kind,
            "metadata": {"name": "g"},
            "spec": {"schedulingPolicy": {"basic": {}}, **spec},
        }
    )


def pod(kind: str = "Pod") -> str:
    spec = {"schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c", "image": "i"}]}
    inner: dict[str, Any] = spec if kind == "Pod" else {"template": {"spec": spec}}
    version = "v1" if kind == "Pod" else "batch/v1"
    return json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "p"}, "spec": inner})


def test_a_group_needs_its_gate_and_its_version() -> None:
    (match,) = matches_of(RULE, group(), kube="1.37")
    assert (match.path, match.level) == (("kind",), "warning")
    assert match.message == (
        "PodGroup needs feature gate GenericWorkload, which is beta and off by default in Kubernetes 1.37"
    )
    assert match.help == (
        "the API server does not serve the kind; enable the gate with --feature-gates=GenericWorkload=true on all "
        "components, and the API with --runtime-config=scheduling.k8s.io/v1beta1=true"
    )
    assert matches_of(RULE, group(), kube="1.37", gates={"GenericWorkload": True}) == []


@pytest.mark.parametrize(
    ("field", "value", "gates"),
    [
        ("resourceClaims", [{"name": "a", "resourceClaimName": "a"}], "GenericWorkload=true,DRAWorkloadResourceClaims"),
        ("schedulingConstraints", {"topology": [{"key": "a"}]}, "GenericWorkload=true,TopologyAwareWorkloadScheduling"),
        ("preemptionPolicy", "Never", "GenericWorkload=true,PodGroupPreemptionPolicy"),
        (
            "parentCompositePodGroupName",
            "top",
            "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup",
        ),
    ],
)
def test_fields_of_groups_need_gates_and_those_that_they_require(field: str, value: Any, gates: str) -> None:
    (match,) = matches_of(RULE, group(**{field: value}), kube="1.37")
    assert match.path == ("spec", field)
    assert f"--feature-gates={gates}=true on all components" in match.help
    on = dict.fromkeys(gates.replace("=true", "").split(","), True)
    assert matches_of(RULE, group(**{field: value}), kube="1.37", gates=on) == []


def test_composite_groups_have_their_own_gate() -> None:
    (match,) = matches_of(RULE, group("CompositePodGroup", "v1alpha3"), kube="1.37")
    assert match.message.startswith("CompositePodGroup needs feature gate CompositePodGroup, which is alpha")
    assert "--runtime-config=scheduling.k8s.io/v1alpha3=true" in match.help
    assert matches_of(RULE, group("CompositePodGroup", "v1alpha3"), kube="1.36") == []  # S107


def test_groups_of_other_projects_need_no_gate() -> None:
    text = group().replace("scheduling.k8s.io/v1beta1", "scheduling.volcano.sh/v1beta1")
    assert matches_of(RULE, text, kube="1.37") == []


@pytest.mark.parametrize("kind", ["Pod", "Job"])
def test_pods_in_a_group(kind: str) -> None:
    (match,) = matches_of(RULE, pod(kind), kube="1.37")
    assert match.path[-1] == "schedulingGroup"
    assert "the API server silently drops the field: the pods are scheduled one by one" in match.help
    assert "runtime-config" not in match.help
    assert matches_of(RULE, pod(kind), kube="1.37", gates={"GenericWorkload": True}) == []


def test_pods_of_a_release_that_has_the_gate_but_not_the_field() -> None:
    assert matches_of(RULE, pod(), kube="1.35") == []  # the field does not exist: S117
    assert [found.help for found in matches_of(other_release.RULE, pod(), kube="1.35")] == [
        "schedulingGroup exists since Kubernetes 1.36; 1.35 has workloadRef"
    ]


def test_scheduling_of_a_job() -> None:
    text = pod("Job").replace('"schedulingGroup": {"podGroupName": "g"}, ', "")
    text = text.replace('{"template"', '{"scheduling": {"schedulingPolicy": {"gang": {}}}, "template"')
    (match,) = matches_of(RULE, text, kube="1.37")
    assert match.message.startswith("scheduling of a Job needs feature gate WorkloadWithJob")
    assert "--feature-gates=GenericWorkload=true,WorkloadWithJob=true" in match.help
    assert matches_of(RULE, text, kube="1.36") == []  # the field does not exist: S117
    assert [found.help for found in matches_of(other_release.RULE, text, kube="1.36")] == [
        "scheduling exists since Kubernetes 1.37"
    ]


# --- fractional amounts ----------------------------------------------------------------------------------------------


def fractions(**valid_range: str) -> str:
    policy = {"default": "1", "validRange": {"min": "1", **valid_range}}
    return json.dumps(
        a_slice({"allowMultipleAllocations": True, "capacity": {"m": {"value": "4", "requestPolicy": policy}}})
    )


def test_fractional_ranges() -> None:
    (match,) = matches_of(RULE, fractions(step="500m"), kube="1.37")
    assert match.path[-1] == "step"
    assert "amounts are rounded up to whole numbers: a share of 500m counts as 1" in match.help
    assert matches_of(RULE, fractions(step="1000m"), kube="1.37") == []
    assert matches_of(RULE, fractions(step="500m"), kube="1.37", gates={"DRAFractionalCapacityRange": True}) == []
    assert matches_of(RULE, fractions(step="500m"), kube="1.36") == []  # every release rounds without the gate
