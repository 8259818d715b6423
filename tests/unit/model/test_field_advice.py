"""The advice for invented and misplaced fields, and for values that the API server rejects."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.model.editing.edits import Remove, RenameKey
from allotment.model.editing.tree_edits import apply_edits
from allotment.model.field_advice import rejected_value_advice, unknown_field_advice

CLASS = {"deviceClassName": "gpu.nvidia.com"}


def selected(expression: str, *before: str) -> dict[str, Any]:
    """A request with selectors."""
    return {**CLASS, "selectors": [{"cel": {"expression": text}} for text in (*before, expression)]}


MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'


@pytest.mark.parametrize(
    ("struct", "field", "tree", "fixed"),
    [
        ("ExactDeviceRequest", "memory", {**CLASS, "memory": "80Gi"}, selected(MEMORY.format("80Gi"))),
        ("DeviceSubRequest", "memory", {**CLASS, "memory": "80GB"}, selected(MEMORY.format("80G"))),
        ("ExactDeviceRequest", "vram", {**CLASS, "vram": "24GiB"}, selected(MEMORY.format("24Gi"))),
        ("ExactDeviceRequest", "memory", {**selected("true"), "memory": "1Gi"}, selected(MEMORY.format("1Gi"), "true")),
        (
            "DeviceRequest",
            "memory",
            {"name": "gpu", "exactly": CLASS, "memory": "1Gi"},
            {"name": "gpu", "exactly": selected(MEMORY.format("1Gi"))},
        ),
        (
            "ExactDeviceRequest",
            "model",
            {**CLASS, "model": "Tesla T4"},
            selected('device.attributes["gpu.nvidia.com"].productName == "Tesla T4"'),
        ),
        ("ExactDeviceRequest", "gpus", {**CLASS, "gpus": 4}, {**CLASS, "count": 4}),
        (
            "DeviceRequest",
            "gpu",
            {"name": "gpu", "exactly": CLASS, "gpu": 2},
            {"name": "gpu", "exactly": {**CLASS, "count": 2}},
        ),
        ("ExactDeviceRequest", "class", {"class": "gpu.nvidia.com"}, CLASS),
        ("CapacityRequirements", "memory", {"memory": "10Gi"}, {"requests": {"memory": "10Gi"}}),
        ("ResourceRequirements", "nvidia.com/gpu", {"nvidia.com/gpu": 1}, {"limits": {"nvidia.com/gpu": 1}}),
    ],
)
def test_field_moves_to_where_it_has_a_meaning(
    struct: str, field: str, tree: dict[str, Any], fixed: dict[str, Any]
) -> None:
    advice = unknown_field_advice(struct, (field,), tree)
    assert advice is not None
    assert advice.fix
    assert apply_edits(tree, advice.edits) == fixed


@pytest.mark.parametrize(
    ("struct", "field", "tree"),
    [
        ("ExactDeviceRequest", "memory", {**CLASS, "memory": 80}),  # bytes or GiB
        ("ExactDeviceRequest", "memory", {**CLASS, "memory": "much"}),
        ("ExactDeviceRequest", "memory", {"deviceClassName": "mine", "memory": "80Gi"}),  # the driver is unknown
        ("ExactDeviceRequest", "model", {**CLASS, "model": 'a"b'}),
        ("ExactDeviceRequest", "gpu", {**CLASS, "count": 2, "gpu": 4}),
        ("ExactDeviceRequest", "gpu", {**CLASS, "allocationMode": "All", "gpu": 4}),
        ("ExactDeviceRequest", "gpu", {**CLASS, "gpu": "a100"}),
        ("ExactDeviceRequest", "class", {**CLASS, "class": "other"}),
        ("CapacityRequirements", "memory", {"memory": "10Gi", "requests": {}}),
        ("Container", "resourceClaims", {"resourceClaims": []}),
        ("ResourceClaimSpec", "deviceClassName", CLASS),
    ],
)
def test_ambiguous_field_has_a_sentence_without_a_change(struct: str, field: str, tree: dict[str, Any]) -> None:
    advice = unknown_field_advice(struct, (field,), tree)
    assert advice is not None
    assert advice.sentence
    assert not advice.edits


def test_request_fields_do_not_belong_in_the_list_of_a_container() -> None:
    path = ("spec", "containers", 0, "resources", "claims", 0, "deviceClassName")
    advice = unknown_field_advice("ResourceClaim", path, {"name": "gpu", **CLASS})
    assert advice is not None
    assert advice.edits == (Remove(path),)
    # Go has two types of this name.
    assert unknown_field_advice("ResourceClaim", ("deviceClassName",), CLASS) is None


def test_other_unknown_fields_have_no_advice() -> None:
    assert unknown_field_advice("ExactDeviceRequest", ("colour",), {"colour": "red"}) is None
    assert unknown_field_advice("ResourceRequirements", ("limit",), {"limit": {}}) is None


def test_removed_fields_keep_their_advice() -> None:
    advice = unknown_field_advice("PodResourceClaim", ("source",), {"source": {}})
    assert advice is not None
    assert advice.sentence.startswith("removed in Kubernetes 1.31")


def test_count_together_with_all_is_the_request() -> None:
    text = "Invalid value: 1: must not be specified when allocationMode is 'All'"
    advice = rejected_value_advice(("exactly", "count"), text)
    assert advice is not None
    assert advice.fix == "request 1 device"
    assert advice.edits == (Remove(("exactly", "allocationMode")),)


@pytest.mark.parametrize(
    ("resources", "fixed"),
    [
        ({"limits": {"gpu": 1}}, None),
        ({"limits": {"gpu": 1}, "claims": [{"name": "gpu"}]}, {"claims": [{"name": "gpu"}]}),
        (
            {"limits": {"gpu": 1, "cpu": 2}, "requests": {"gpu": 1}, "claims": [{"name": "gpu"}]},
            {"limits": {"cpu": 2}, "claims": [{"name": "gpu"}]},
        ),
    ],
)
def test_unqualified_resource_is_removed_if_the_container_names_a_claim(
    resources: dict[str, Any], fixed: dict[str, Any] | None
) -> None:
    text = 'Invalid value: "gpu": must be a standard resource type or fully qualified'
    tree = {"resources": resources}
    advice = rejected_value_advice(("resources", "limits", "gpu"), text, tree)
    assert advice is not None
    assert "nvidia.com/gpu" in advice.sentence
    assert apply_edits(tree, advice.edits) == (tree if fixed is None else {"resources": fixed})


def test_other_unqualified_resources_are_not_gpus() -> None:
    text = 'Invalid value: "disk": must be a standard resource for containers'
    advice = rejected_value_advice(("resources", "limits", "disk"), text)
    assert advice is not None
    assert "ephemeral-storage" in advice.sentence


NAME = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"


@pytest.mark.parametrize(
    ("value", "field", "becomes"),
    [
        ("Big_Claim", "name", "big-claim"),
        ("nvidia.com/gpu", "deviceClassName", "gpu.nvidia.com"),
        ("nvidia.com/mig-1g.5gb", "deviceClassName", "mig.nvidia.com"),
        ("amd.com/gpu", "deviceClassName", "gpu.amd.com"),
    ],
)
def test_name_becomes_a_valid_one(value: str, field: str, becomes: str) -> None:
    advice = rejected_value_advice((field,), f'Invalid value: "{value}": {NAME}')
    assert advice is not None
    assert becomes in advice.sentence
    assert apply_edits({field: value}, advice.edits) == {field: becomes}


@pytest.mark.parametrize("value", ["nvidia.com/gpu", "{{ name }}", "$NAME", "___"])
def test_name_without_a_likely_meaning_is_not_changed(value: str) -> None:
    advice = rejected_value_advice(("name",), f'Invalid value: "{value}": {NAME}')
    assert advice is not None
    assert not advice.edits


def test_part_of_a_device_of_a_plugin_needs_a_claim() -> None:
    advice = rejected_value_advice(("limits", "nvidia.com/gpu"), 'Invalid value: "500m": must be an integer')
    assert advice is not None
    assert "MIG device" in advice.sentence
    assert rejected_value_advice(("status", "pods"), 'Invalid value: "500m": must be an integer') is None


def test_edits_are_those_of_the_path() -> None:
    path = ("spec", "devices", "requests", 0, "exactly", "gpu")
    advice = unknown_field_advice("ExactDeviceRequest", path, {**CLASS, "gpu": 1})
    assert advice is not None
    assert advice.edits == (RenameKey(path, "count"),)
