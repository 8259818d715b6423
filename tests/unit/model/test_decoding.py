"""Decoding documents into objects: the API server's errors, with positions and hints."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from allotment.model import core, decoding, resource
from allotment.model.decoding import DecodingError, Manifest, decode, decode_all
from allotment.model.fields import TypeShape, shape_of
from allotment.model.loading import Document, load_paths, load_text
from allotment.model.meta import ObjectKey, Value
from allotment.model.quantity import Quantity
from allotment.model.releases import RELEASES
from allotment.model.trees import to_tree


def document(text: str) -> Document:
    loaded = load_text(text, "t.yaml")
    assert loaded.problems == []
    (found,) = loaded.documents
    return found


def manifest(text: str) -> Manifest:
    return decode(document(text))


def decoding_error(text: str) -> DecodingError:
    with pytest.raises(DecodingError) as caught:
        manifest(text)
    return caught.value


FIELD = "ExactDeviceRequest.spec.devices.requests.exactly.count"
COUNT = f"json: cannot unmarshal {{}} into Go struct field {FIELD} of type int64"
NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: gpus
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com
        count: 2
        capacity:
          requests: {memory: 40}
"""


def test_claim_is_decoded_as_a_value_in_its_namespace() -> None:
    claim = manifest(CLAIM)
    assert (claim.key, claim.kind, claim.group) == (ObjectKey("default", "gpus"), "ResourceClaim", "resource.k8s.io")
    assert isinstance(claim.value, resource.ResourceClaim)
    exactly = claim.value.spec.devices.requests[0].exactly
    assert exactly is not None
    assert exactly.capacity is not None
    assert (exactly.count, exactly.capacity.requests) == (2, {"memory": Quantity.parse("40")})
    assert claim.value.metadata.namespace == "default"
    assert str(claim.position("spec.devices.requests[0].exactly.count")) == "t.yaml:11:16"


def test_nulls_are_absent_and_integral_floats_are_integers() -> None:
    claim = manifest(CLAIM.replace("count: 2", "count: 2.0\n        selectors: null\n        tolerations: [null]"))
    assert isinstance(claim.value, resource.ResourceClaim)
    exactly = claim.value.spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.count, exactly.selectors, exactly.tolerations) == (2, (), (resource.DeviceToleration(),))


def test_flat_requests_of_v1beta1_become_exactly() -> None:
    text = "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: a, namespace: b}\n"
    text += "spec: {devices: {requests: [{name: r, deviceClassName: c}, {name: s, firstAvailable: [{name: t}]}]}}\n"
    claim = manifest(text).value
    assert isinstance(claim, resource.ResourceClaim)
    first, second = claim.spec.devices.requests
    assert first.exactly == resource.ExactDeviceRequest(device_class_name="c")
    assert (second.exactly, second.first_available) == (None, (resource.DeviceSubRequest(name="t"),))


@pytest.mark.parametrize(
    ("old", "new", "text", "place", "hint"),
    [
        ("exactly:", "exactlly:", 'unknown field "spec.devices.requests[0].exactlly"', "9:7", "did you mean exactly?"),
        ("- name", "- deviceClassName: x\n      name", 'unknown field "spec.devices.requests[0].deviceClassName"',
         "8:7", "did you mean exactly.deviceClassName?"),
        ("count", "Count", 'unknown field "spec.devices.requests[0].exactly.Count"', "11:9", "did you mean count?"),
        ("count: 2", "count: '2'",
         COUNT.format("string"), "11:16", "expected an integer"),
        ("count: 2", "count: 1.5",
         COUNT.format("number 1.5"), "11:16", "expected an integer"),
        ("memory: 40", "memory: 40GB", NO_QUANTITY, "13:30", "'40GB' is not a quantity: write 40G"),
        ("name: gpus", "name: 5",
         "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string", "4:9",
         "expected a string: put it in quotes"),
        ("name: gpus", "name: n",
         "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string", "4:9",
         "expected a string: put it in quotes"),
        ("name: gpus", "name: a\n  creationTimestamp: yesterday",
         'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"', "5:22", ""),
        ("kind: ResourceClaim", "kind: ResourceClaims",
         'no matches for kind "ResourceClaims" in version "resource.k8s.io/v1"', "2:7", "did you mean ResourceClaim?"),
        ("k8s.io/v1", "k8s.io/v1alpha2",
         'no matches for kind "ResourceClaim" in version "resource.k8s.io/v1alpha2"', "1:13",
         "did you mean resource.k8s.io/v1?"),
        ("kind: ResourceClaim", "kond: ResourceClaim", "Object 'Kind' is missing", "1:1",
         "every object needs apiVersion and kind; fragments and values files are not objects"),
        ("kind: ResourceClaim", "kind: 5", "kind is not a string", "2:7", ""),
    ],
)  # fmt: skip
def test_problems_have_upstream_message_position_and_hint(old: str, new: str, text: str, place: str, hint: str) -> None:
    assert CLAIM.count(old)
    (problem,) = decoding_error(CLAIM.replace(old, new, 1)).problems
    assert (problem.message, str(problem.position), problem.hint) == (text, f"t.yaml:{place}", hint)


def test_all_problems_are_collected_and_server_text_is_the_first_type_error() -> None:
    text = CLAIM.replace("count: 2", "count: x\n        foo: 1").replace("name: gpus", "name: gpus\n  bar: 2")
    error = decoding_error(text)
    assert [problem.code for problem in error.problems] == ["unknown-field", "wrong-type", "unknown-field"]
    assert error.server_text == (
        'ResourceClaim in version "v1" cannot be handled as a ResourceClaim: json: cannot unmarshal string into Go '
        "struct field ExactDeviceRequest.spec.devices.requests.exactly.count of type int64"
    )


def test_unknown_fields_are_dropped_when_not_strict() -> None:
    found = decode(document(CLAIM.replace("count: 2", "count: 2\n        foo: 1")), strict=False)
    assert found.value == manifest(CLAIM).value


def test_hint_for_a_field_of_another_version() -> None:
    (problem,) = decoding_error(CLAIM.replace("k8s.io/v1", "k8s.io/v1beta1")).problems
    assert problem.hint == (
        "exactly belongs to resource.k8s.io/v1 and resource.k8s.io/v1beta2, not to resource.k8s.io/v1beta1"
    )


def test_removed_versions_are_decoded_and_marked() -> None:
    text = """\
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: node
  pool: {name: node, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    basic: {attributes: {model: {string: A100}}, capacity: {memory: 80Gi}}
"""
    found = manifest(text)
    assert found.removed == "1.34"
    assert isinstance(found.value, resource.ResourceSlice)
    assert found.value.spec.devices is not None
    assert found.value.spec.devices[0].capacity["memory"].value == Quantity.parse("80Gi")
    assert str(found.position("spec.devices[0].capacity[memory].value")) == "t.yaml:10:69"


def test_hint_for_classic_dra_kinds() -> None:
    (problem,) = decoding_error("apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClass\n").problems
    assert problem.hint.startswith("classic DRA, removed in Kubernetes 1.32")


def test_custom_kinds_stay_trees() -> None:
    found = manifest("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {x: 1}\n")
    assert found.value == {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": 1}}
    assert found.key == ObjectKey("", "a")
    (problem,) = decoding_error("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: 5}\n").problems
    assert problem.message == "metadata.name is not a string"


@pytest.mark.parametrize(
    ("version", "kind", "suggestion"),
    [
        ("apps/v1beta2", "Deployment", "apps/v1"),
        ("extensions/v1beta1", "Deployment", "apps/v1"),
        ("v1", "Job", "batch/v1"),
        ("v2", "Pod", "v1"),
    ],
)
def test_known_kind_in_a_wrong_version_is_not_a_custom_kind(version: str, kind: str, suggestion: str) -> None:
    (problem,) = decoding_error(f"apiVersion: {version}\nkind: {kind}\n").problems
    assert problem.message == f'no matches for kind "{kind}" in version "{version}"'
    assert (problem.code, problem.suggestion, str(problem.position)) == ("no-such-kind", suggestion, "t.yaml:1:13")


def test_pods_and_nodes_keep_scheduling_fields() -> None:
    pod = manifest(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n"
        "  schedulingGroup: {podGroupName: g}\n"
        "  resourceClaims: [{name: g, resourceClaimTemplateName: t}]\n"
        "  containers: [{name: c, image: i, ports: [{containerPort: 80}], resources: {requests: {cpu: 1.5}, "
        "claims: [{name: g}]}}]\n"
    ).value
    assert isinstance(pod, core.Pod)
    assert pod.spec.containers[0].resources.requests == {"cpu": Quantity.parse("1500m")}
    assert pod.spec.resource_claims == (core.PodResourceClaim(name="g", resource_claim_template_name="t"),)
    node = manifest(
        "apiVersion: v1\nkind: Node\nmetadata: {name: node}\nspec: {taints: [{key: k, effect: NoSchedule}]}\n"
    )
    assert isinstance(node.value, core.Node)
    assert (node.key, node.value.spec.taints[0].key) == (ObjectKey("", "node"), "k")


def test_known_kinds_without_a_value_type_are_checked() -> None:
    found = manifest("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: 'y'}\n")
    assert (found.key, found.value) == (ObjectKey("default", "a"), found.document.tree)
    (problem,) = decoding_error("apiVersion: v1\nkind: ConfigMap\ndata: {x: 1}\n").problems
    assert problem.message == "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"


def test_at_most_100_unknown_fields_are_reported() -> None:
    tree = {"apiVersion": "v1", "kind": "Pod", **{f"x{number}": 1 for number in range(500)}}
    assert len(decoding_error(json.dumps(tree)).problems) == 100


def _value_types(value_type: type) -> set[type]:
    found: set[type] = set()
    todo = [msgspec.inspect.type_info(value_type)]
    while todo:
        info = todo.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in found:
                continue
            found.add(info.cls)
            todo += [field.type for field in info.fields]
        for name in ("item_type", "value_type"):
            if hasattr(info, name):
                todo.append(getattr(info, name))
        todo += getattr(info, "types", ())
    return found


@pytest.mark.parametrize(("group", "kind"), sorted(decoding.VALUE_TYPES))
def test_value_types_have_no_unknown_fields(group: str, kind: str) -> None:
    """Value types of resource.k8s.io also have all fields of all releases, except managed fields."""
    versions = {"ResourcePoolStatusRequest": "v1alpha3", "PodGroup": "v1beta1"}
    version = "/".join(part for part in (group, versions.get(kind, "v1")) if part)
    known: dict[type, set[str]] = {}
    seen: set[TypeShape] = set()

    def collect(value_type: type[Value], shape: TypeShape) -> None:
        names = {name for name, field in shape.fields.items() if field.embedded != "TypeMeta"}
        if shape in seen:
            return
        seen.add(shape)
        known.setdefault(value_type, set()).update(names)
        for field in msgspec.structs.fields(value_type):
            if field.encode_name not in shape.fields:
                continue
            inner = shape.fields[field.encode_name].shape
            while inner.element is not None:
                inner = inner.element
            structs = [candidate for candidate in _value_types(value_type) if candidate.__name__ == inner.bare_name]
            if inner.form == "struct" and structs:
                collect(structs[0], inner)

    for release in RELEASES:
        if shape := shape_of(version, kind, release):
            collect(decoding.VALUE_TYPES[group, kind], shape)
    assert known
    for value_type, names in known.items():
        fields = {field.encode_name for field in msgspec.structs.fields(value_type)}
        assert fields <= names, value_type
        if group == "resource.k8s.io":
            assert fields == names - {"managedFields", "selfLink"}, value_type


def test_every_upstream_manifest_is_decoded_or_has_a_problem(shared: Callable[[str], Path]) -> None:
    loaded = load_paths([shared("manifests")])
    assert loaded.problems == []
    decoded = decode_all(loaded.documents)
    assert len(decoded.manifests) >= 220
    rejected = {problem.position.file.rpartition("/")[2] for problem in decoded.problems}
    # Objects that the real server rejects, too, fragments, values files, and an object without apiVersion.
    assert {name for name in rejected if "fragment" not in name and "helm" not in name} == {
        "4-pod-not-scheduled.yaml", "claims.yaml", "mig-parted-config.yaml", "pods.yaml", "seed002-mig-mixed.yaml",
        "seed002-shared-inference.yaml", "seed002-training-job.yaml", "seed003-shared-claim-v1alpha3.yaml",
        "seed003-training-template-v1alpha3.yaml", "sharing-demo-claims-1.yaml", "sharing-demo-job-1.yaml",
    }  # fmt: skip


def test_to_tree_round_trips(shared: Callable[[str], Path]) -> None:
    for found in decode_all(load_paths([shared("manifests")]).documents).manifests:
        if isinstance(found.value, resource.ResourceClaim | resource.ResourceSlice | core.Pod):
            version = "v1" if isinstance(found.value, core.Pod) else "resource.k8s.io/v1"
            tree = to_tree(found.value, version, found.kind)
            assert manifest(json.dumps(tree)).value == found.value


# Requests that are rejected because of their URL and not because of their body.
ABOUT_THE_URL = {"create wrong kind", "create wrong apiVersion", "seed 002 v1alpha3 claim (Strict)"}


@pytest.mark.parametrize(
    "file", ["00-fixtures", "20-crud-configmap", "26-pods", "40-dra-validation", "50-seed-manifests"]
)
def test_decoding_matches_the_recorded_server(file: str, shared: Callable[[str], Path]) -> None:
    """Every recorded write is decoded like by the real server, or rejected with the same message."""
    seen = 0
    with gzip.open(shared(f"vectors/apiserver/{file}.jsonl.gz"), "rt") as lines:
        for row in map(json.loads, lines):
            body, path = row["request"].get("body"), row["request"]["path"]
            if not isinstance(body, dict) or "kind" not in body or row["name"] in ABOUT_THE_URL:
                continue
            answer = row["response"].get("body")
            message = answer.get("message", "") if isinstance(answer, dict) else ""
            expected = message if "cannot be handled as" in message else None
            try:
                decode(document(json.dumps(body)), strict="fieldValidation=Strict" in path)
                error_text = None
            except DecodingError as error:
                error_text = error.server_text
            if row["request"]["method"] in ("POST", "PUT"):
                assert error_text == expected, row["name"]
                seen += 1
    assert seen


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_taint_rules_of_every_version_decode_to_the_same_value(version: str) -> None:
    text = (
        f"apiVersion: resource.k8s.io/{version}\nkind: DeviceTaintRule\nmetadata: {{name: broken}}\n"
        "spec: {deviceSelector: {driver: d, device: gpu-0}, taint: {key: a, effect: NoSchedule}}\n"
    )
    manifest = decode(load_text(text).documents[0])
    assert manifest.api_version == f"resource.k8s.io/{version}"
    assert isinstance(manifest.value, resource.DeviceTaintRule)
    assert manifest.value.spec.device_selector is not None
    assert (manifest.value.spec.device_selector.device, manifest.value.spec.taint.effect) == ("gpu-0", "NoSchedule")
    assert manifest.key == ObjectKey("", "broken")


# --- by release ------------------------------------------------------------------------------------------------------

GROUP = """\
apiVersion: scheduling.k8s.io/{}
kind: PodGroup
metadata: {{name: g}}
spec: {{schedulingPolicy: {{basic: {{}}}}}}
"""
MAPPED = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: cpu.example.com
  nodeName: node
  pool: {name: p, resourceSliceCount: 1}
  devices: [{name: d, nodeAllocatableResourceMappings: {cpu: {allocationMultiplier: "1"}}}]
"""


def problem_in(text: str, release: str) -> tuple[str, str, str]:
    """Code, hint and suggestion of the only problem in a release."""
    with pytest.raises(DecodingError) as caught:
        decode(load_text(text).documents[0], release=release)
    (problem,) = caught.value.problems
    return problem.code, problem.hint, problem.suggestion


@pytest.mark.parametrize(
    ("version", "release", "hint", "suggestion"),
    [
        (
            "v1beta1",
            "1.36",
            "scheduling.k8s.io/v1beta1 has PodGroup since Kubernetes 1.37; 1.36 has scheduling.k8s.io/v1alpha2",
            "scheduling.k8s.io/v1alpha2",
        ),
        (
            "v1alpha2",
            "1.37",
            "scheduling.k8s.io/v1alpha2 had PodGroup until Kubernetes 1.36; 1.37 has scheduling.k8s.io/v1beta1",
            "scheduling.k8s.io/v1beta1",
        ),
        ("v1alpha2", "1.35", "scheduling.k8s.io/v1alpha2 has PodGroup since Kubernetes 1.36", ""),
    ],
)
def test_versions_of_another_release(version: str, release: str, hint: str, suggestion: str) -> None:
    code, found, best = problem_in(GROUP.format(version), release)
    assert (code, found, best) == ("no-such-kind", hint, suggestion)
    assert decode(load_text(GROUP.format(version)).documents[0]).kind == "PodGroup"  # without a release


def test_fields_of_another_release() -> None:
    assert problem_in(MAPPED, "1.37") == (
        "unknown-field",
        "nodeAllocatableResourceMappings was replaced by nodeAllocatableResources in Kubernetes 1.37",
        "",
    )
    assert isinstance(decode(load_text(MAPPED).documents[0], release="1.36").value, resource.ResourceSlice)


def test_objects_that_a_server_returned_keep_the_fields_of_its_release() -> None:
    (found,) = decode_all(load_text(MAPPED).documents, strict=False, release="1.36").manifests
    assert isinstance(found.value, resource.ResourceSlice)
    assert found.value.spec.devices is not None
    assert found.value.spec.devices[0].node_allocatable_resource_mappings
    rule = "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: a}\nspec: {taint: {key: a}}\n"
    assert decode_all(load_text(rule).documents, strict=False, release="1.36").problems == []
