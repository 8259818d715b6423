"""Published names, and similar names for misspelled ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.diagnosis.published_names import did_you_mean, published_names, similar_names, similarity
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity, ResourceSlice, ResourceSliceSpec


def test_bare_names_are_published_under_the_driver() -> None:
    device = Device(
        name="gpu-0",
        attributes={
            "type": DeviceAttribute(string="gpu"),
            "resource.kubernetes.io/pcieRoot": DeviceAttribute(string="pci0000:00"),
        },
        capacity={"memory": DeviceCapacity(value=Quantity.parse("40Gi"))},
    )
    found = published_names([ResourceSlice(spec=ResourceSliceSpec(driver="gpu.example.com", devices=(device,)))])
    assert found.attributes == {
        "gpu.example.com": {"type": frozenset({"string"})},
        "resource.kubernetes.io": {"pcieRoot": frozenset({"string"})},
    }
    assert found.capacities == {"gpu.example.com": frozenset({"memory"})}
    assert found.domains() == ["gpu.example.com", "resource.kubernetes.io"]


@pytest.mark.parametrize(
    ("wrong", "known", "expected"),
    [
        ("productname", ["productName", "architecture"], "productName"),
        ("product_name", ["productName", "profile"], "productName"),
        ("memry", ["memory", "multiprocessors"], "memory"),
        ("migProfile", ["profile", "productName"], "profile"),
        ("deviceID", ["parentDeviceID", "parentPciAddr"], "parentDeviceID"),
        ("nvidia.com", ["gpu.nvidia.com", "gpu.amd.com"], "gpu.nvidia.com"),
        ("gpu.nvidia.con", ["gpu.nvidia.com", "gpu.amd.com"], "gpu.nvidia.com"),
        ("nvidia-mig", ["mig.nvidia.com", "gpu.nvidia.com"], "mig.nvidia.com"),
        ("any-nvidia-gpu", ["mig.nvidia.com", "gpu.nvidia.com"], "gpu.nvidia.com"),
    ],
)
def test_similar_names(wrong: str, known: list[str], expected: str) -> None:
    assert similar_names(wrong, known)[0] == expected


@pytest.mark.parametrize(
    ("wrong", "known"), [("model", ["productName", "uuid"]), ("nvlink", ["type", "memory"]), ("x", [])]
)
def test_a_name_without_a_similar_one_gets_no_suggestion(wrong: str, known: list[str]) -> None:
    assert similar_names(wrong, known) == ()
    assert did_you_mean(wrong, known) == ""


@given(st.text("abcXYZ.-_/019", max_size=12), st.text("abcXYZ.-_/019", max_size=12))
def test_similarity_is_between_0_and_1_and_1_for_equal_names(first: str, second: str) -> None:
    assert 0 <= similarity(first, second) <= 1
    assert similarity(first, first) == 1
