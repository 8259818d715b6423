"""The schema accepts valid manifests and rejects invalid fields and types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.model.features import Features
from allotment.model.releases import RELEASES
from allotment.tools.schema import DEFAULT_KINDS, UnknownKindError, schema
from allotment.vocabulary import installed_classes
from tests.unit.tools.schema.json_schema_validator import errors

KINDS = (*DEFAULT_KINDS, "Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")


@cache
def whole() -> dict[str, Any]:
    return schema(Features("1.36"), KINDS)


def errors_of(document: Any) -> list[str]:
    return list(errors(document, whole(), whole()))


def claim(**request: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu"},
        "spec": {"devices": {"requests": [{"name": "gpu", **request}]}},
    }


def exactly(**fields: Any) -> dict[str, Any]:
    return claim(exactly={"deviceClassName": "gpu.nvidia.com", **fields})


def configured(driver: str, parameters: Any) -> dict[str, Any]:
    document = exactly()
    document["spec"]["devices"]["config"] = [{"opaque": {"driver": driver, "parameters": parameters}}]
    return document


# --- third-party manifests --------------------------------------------------------------------------------------------

#: Written for Kubernetes before 1.31, for a version that is not served, or no whole object.
OLD = {"mig+mps", "selectors", "gpu-test-vfiopci.yaml", "4-pod-not-scheduled.yaml", "imex"}


def documents(folder: Path) -> Iterator[tuple[Path, Any]]:
    for path in sorted(folder.rglob("*.yaml")):
        if not OLD.intersection(path.relative_to(folder).parts):
            yield from ((path, document) for document in yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("folder", ["nvidia", "amd", "example", "castai", "classes", "slices"])
def test_manifests_of_vendors_are_valid(shared: Callable[[str], Path], folder: str) -> None:
    given = list(documents(shared(f"manifests/{folder}")))
    assert given
    for path, document in given:
        assert errors_of(document) == [], path


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("seed002-training-job.yaml", "/spec/spec/devices/requests/0/deviceClassName: not allowed"),
        ("seed002-shared-inference.yaml", "/spec/devices/requests/0/deviceClassName: not allowed"),
        ("seed002-mig-mixed.yaml", "/spec/spec/devices/requests/1/selectors: not allowed"),
        ("seed003-shared-claim-v1alpha3.yaml", "/spec/resourceClaims/0/source: not allowed"),
        ("seed003-training-template-v1alpha3.yaml", "/apiVersion: 'resource.k8s.io/v1alpha3' is none of 3 values"),
    ],
)
def test_malformed_manifests_are_invalid(shared: Callable[[str], Path], file: str, place: str) -> None:
    text = shared(f"manifests/{file}").read_text()
    assert place in [fault for document in yaml.safe_load_all(text) for fault in errors_of(document)]


# --- what Kubernetes fixes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (claim(), "not exactly one of"),
        ({**exactly(), "spec": {}, "sepc": {}}, "/sepc: not allowed"),
        (claim(exactly={"deviceClassName": "a"}, firstAvailable=[]), "not exactly one of"),
        (exactly(allocationMode="all"), "/allocationMode: 'all' is none of"),
        (exactly(count="2"), "/count: no integer"),
        (exactly(count=0), "/count: less than 1"),
        (exactly(selectors=[{"cel": {"expresion": "true"}}]), "/expresion: not allowed"),
        (exactly(deviceClassName="GPU Class"), "/deviceClassName: none of 2 forms"),
        (exactly(tolerations=[{"operator": "In"}]), "/operator: 'In' is none of"),
        (claim(exactly={"count": 1}), "deviceClassName is missing"),
    ],
    ids=["neither", "field", "both", "mode", "type", "number", "deep field", "name", "operator", "missing"],
)
def test_structural_mistakes_are_found(document: dict[str, Any], place: str) -> None:
    assert any(place in fault for fault in errors_of(document)), errors_of(document)


@pytest.mark.parametrize(
    "document",
    [
        exactly(allocationMode="All"),
        exactly(count=2, selectors=[{"cel": {"expression": "true"}}]),
        exactly(deviceClassName="my-own-class"),
        exactly(capacity={"requests": {"memory": "10Gi", "somebodys.example/amount": 5}}),
        claim(firstAvailable=[{"name": "big", "deviceClassName": "gpu.nvidia.com"}]),
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"anything": "goes"}},
        {"resources": {"gpus": {"enabled": True}}},
        {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "spec": {"flat": "once allowed"}},
    ],
    ids=["all", "count", "own class", "amounts", "alternatives", "other kind", "no object", "old version"],
)
def test_valid_documents_are_accepted(document: dict[str, Any]) -> None:
    assert errors_of(document) == []


def test_a_claim_entry_of_a_container_is_not_a_resource_claim() -> None:
    use = {"name": "gpu", "request": "gpu"}
    container = {"name": "a", "resources": {"claims": [use]}}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
    assert errors_of(pod) == []
    use["reqest"] = "gpu"
    assert errors_of(pod) == ["/spec/containers/0/resources/claims/0/reqest: not allowed"]


# --- what drivers fix ------------------------------------------------------------------------------------------------


def test_parameters_of_known_drivers_are_validated() -> None:
    good = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "MPS"}}
    assert errors_of(configured("gpu.nvidia.com", good)) == []
    assert any("strategy" in fault for fault in errors_of(configured("gpu.nvidia.com", {**good, "sharing": {}})))
    assert any("/kind: " in fault for fault in errors_of(configured("gpu.nvidia.com", {**good, "kind": "GPUConfig"})))
    assert any("/sharng: not" in fault for fault in errors_of(configured("gpu.nvidia.com", {**good, "sharng": {}})))


def test_parameters_of_other_drivers_are_accepted() -> None:
    assert errors_of(configured("gpu.somebody.example", {"anything": 1})) == []
    assert errors_of(configured("gpu.nvidia.com", "text")) != []


def test_known_names_are_suggested() -> None:
    made = whole()["definitions"]
    offered = made["ExactDeviceRequest"]["properties"]["deviceClassName"]["anyOf"][0]["enum"]
    assert set(offered) == set(installed_classes())
    attributes = made["DeviceConstraint"]["properties"]["matchAttribute"]["anyOf"][0]["enum"]
    assert {"gpu.nvidia.com/parentUUID", "resource.kubernetes.io/pcieRoot"} <= set(attributes)
    snippets = made["CELDeviceSelector"]["properties"]["expression"]["defaultSnippets"]
    assert any(snippet["label"] == "gpu.nvidia.com/memory" and "compareTo" in snippet["body"] for snippet in snippets)


# --- the schema itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kube", RELEASES)
def test_every_writable_field_is_described(kube: str) -> None:
    made = schema(Features(kube))["definitions"]
    silent = {"apiVersion", "kind", "status"}
    for name, definition in made.items():
        if name.startswith(("Device", "CEL", "Capacity", "Opaque", "ExactDevice", "ResourceClaim")):
            for field, value in definition["properties"].items():
                assert field in silent or "description" in value, f"{name}.{field}"


def test_references_resolve_and_no_definition_is_unused() -> None:
    referred: set[str] = set()

    def walk(tree: Any) -> None:
        if isinstance(tree, dict):
            if "$ref" in tree:
                referred.add(tree["$ref"].removeprefix("#/definitions/"))
            for each in tree.values():
                walk(each)
        elif isinstance(tree, list):
            for each in tree:
                walk(each)

    walk(whole())
    assert referred == set(whole()["definitions"])


def test_descriptions_mention_disabled_gates() -> None:
    def tolerations(kube: str) -> str:
        made = schema(Features(kube))["definitions"]["ExactDeviceRequest"]["properties"]["tolerations"]
        return str(made["description"])

    assert tolerations("1.34").endswith("Requires feature gate DRADeviceTaints in Kubernetes 1.34.")
    assert "gate" not in tolerations("1.36")


@pytest.mark.parametrize("kube", RELEASES)
def test_every_release_has_a_schema(kube: str) -> None:
    made = schema(Features(kube), identifier="https://example.com/dra.json")
    assert made["$id"] == "https://example.com/dra.json"
    assert not list(errors(exactly(), made, made))


def test_unknown_kinds_are_rejected() -> None:
    with pytest.raises(UnknownKindError) as caught:
        schema(Features("1.36"), ["ResourceClam"])
    assert "ResourceClaim" in caught.value.known


def test_kinds_of_a_later_release_are_rejected() -> None:
    made = schema(Features("1.37"), ["DeviceTaintRule"])
    assert made["allOf"][0]["if"]["properties"]["apiVersion"] == {"const": "resource.k8s.io/v1"}
    with pytest.raises(UnknownKindError) as caught:
        schema(Features("1.36"), ["DeviceTaintRule"])
    assert "DeviceTaintRule" not in caught.value.known


def test_fields_of_a_later_release_are_rejected() -> None:
    derived = exactly(derivedAttributes=[{"name": "example.com/rack", "expression": "1"}])
    for kube, expected in (("1.36", ["/spec/devices/requests/0/exactly/derivedAttributes: not allowed"]), ("1.37", [])):
        made = schema(Features(kube))
        assert list(errors(derived, made, made)) == expected


def test_versions_that_some_release_serves_are_accepted() -> None:
    made = schema(Features("1.37"), ["ResourceClaim", "DeviceTaintRule"])
    for version, kind, accepted in (
        ("v1beta2", "DeviceTaintRule", True), ("v1alpha3", "DeviceTaintRule", True), ("v1beta1", "ResourceClaim", True),
        ("v2", "ResourceClaim", False),
    ):  # fmt: skip
        document = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind}
        assert (not list(errors(document, made, made))) is accepted, (version, kind)
