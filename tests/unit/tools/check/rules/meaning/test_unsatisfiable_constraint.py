"""M403: constraints on attributes that devices do not have."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.meaning import unsatisfiable_constraint
from tests.unit.tools.check.rules.meaning.manifests import (
    claim,
    fixed_documents,
    gpu_request,
    levels_and_paths,
    matches_of,
)

RULE = unsatisfiable_constraint.RULE

WHERE = "ResourceClaim spec.devices.constraints[0].matchAttribute"


def claim_for_two(attribute: str, class_name: str = "gpu.nvidia.com", **more: object) -> str:
    """A claim for two devices with the same value of an attribute."""
    both = gpu_request("both", deviceClassName=class_name, count=2, **more)
    return claim(both, constraints=[{"matchAttribute": attribute}])


def test_name_without_domain() -> None:
    text = claim_for_two("parentUUID", "mig.nvidia.com")
    assert levels_and_paths(RULE, text) == [("error", WHERE)]
    (tree,) = fixed_documents(RULE, text)
    assert tree["spec"]["devices"]["constraints"] == [{"matchAttribute": "gpu.nvidia.com/parentUUID"}]
    (match,) = matches_of(RULE, claim_for_two("pcieRoot"))
    assert match.fix is not None
    assert match.fix.text == "write resource.kubernetes.io/pcieRoot"
    (unknown,) = matches_of(RULE, claim_for_two("rack"))
    assert unknown.fix is None


@pytest.mark.parametrize(
    ("attribute", "class_name", "level"),
    [
        ("gpu.nvidia.com/parentUUID", "gpu.nvidia.com", "warning"),  # whole GPUs have no parent
        ("gpu.nvidia.com/parentUUID", "mig.nvidia.com", ""),
        ("gpu.nvidia.com/prodctName", "gpu.nvidia.com", "warning"),
        ("gpu.nvidia.com/productName", "gpu.nvidia.com", ""),
        ("gpu.nvidia.com/uuid", "gpu.nvidia.com", "warning"),  # unique
        ("resource.kubernetes.io/pciBusID", "gpu.nvidia.com", "warning"),
        ("resource.kubernetes.io/pciBusID", "mig.nvidia.com", ""),  # that of the GPU
        ("resource.kubernetes.io/pcieRoot", "gpu.nvidia.com", ""),  # wherever the machine has PCIe roots
        ("gpu.nvidia.com/addressingMode", "gpu.nvidia.com", "note"),  # depends on the GPU
        ("topology.example/rack", "gpu.nvidia.com", ""),  # may be added by an administrator
        ("gpu.nvidia.com/rack", "some-class", ""),
        ("gpu.amd.com/deviceID", "gpu.amd.com", ""),  # renamed: V303
    ],
)
def test_check_against_vocabularies(attribute: str, class_name: str, level: str) -> None:
    assert levels_and_paths(RULE, claim_for_two(attribute, class_name)) == ([(level, WHERE)] if level else [])


def test_single_device_satisfies_match_attribute() -> None:
    text = claim(gpu_request(), constraints=[{"matchAttribute": "gpu.nvidia.com/uuid"}])
    assert levels_and_paths(RULE, text) == []


def test_check_against_slices() -> None:
    text = claim_for_two("gpu.nvidia.com/parentUUID")
    assert levels_and_paths(RULE, text, fleet="dgx-a100-40gb") == [("error", WHERE)]
    (match,) = matches_of(RULE, text, fleet="dgx-a100-40gb")
    assert "of the 8 gpu.nvidia.com devices that match request both, none has attribute" in match.message
    assert levels_and_paths(RULE, claim_for_two("gpu.nvidia.com/productName"), fleet="dgx-a100-40gb") == []


def test_only_constrained_requests_are_checked() -> None:
    constraint = {"matchAttribute": "gpu.nvidia.com/parentUUID", "requests": ["slice"]}
    requests = (gpu_request("whole"), gpu_request("slice", deviceClassName="mig.nvidia.com", count=2))
    assert levels_and_paths(RULE, claim(*requests, constraints=[constraint])) == []
    assert levels_and_paths(RULE, claim(*requests, constraints=[{**constraint, "requests": ["whole"]}])) == [
        ("warning", WHERE)
    ]


def test_an_attribute_that_the_requests_derive_is_not_published_by_devices() -> None:
    derived = [{"name": "example.com/model", "expression": 'device.attributes["gpu.nvidia.com"].productName'}]
    request = gpu_request("both", count=2, derivedAttributes=derived)
    for attribute, expected in (("example.com/model", []), ("example.com/size", [("error", WHERE)])):
        text = claim(request, constraints=[{"matchAttribute": attribute}])
        assert levels_and_paths(RULE, text, fleet="dgx-a100-40gb") == expected


def test_a_misspelled_attribute_is_replaced_by_a_published_one() -> None:
    text = claim_for_two("resource.kubernetes.io/pcieRot")
    (match,) = matches_of(RULE, text, fleet="dgx-a100-40gb")
    assert match.fix is not None
    assert not match.fix.safe
    (tree,) = fixed_documents(RULE, text, fleet="dgx-a100-40gb")
    assert tree["spec"]["devices"]["constraints"] == [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]


@pytest.mark.parametrize("fleet", ["", "dgx-a100-40gb"])
def test_attribute_of_another_domain_is_replaced_by_the_published_one(fleet: str) -> None:
    text = claim_for_two("nvidia.com/pcieRoot")
    (match,) = matches_of(RULE, text, fleet=fleet)
    assert match.help == 'did you mean "resource.kubernetes.io/pcieRoot"?'
    (tree,) = fixed_documents(RULE, text, fleet=fleet)
    assert tree["spec"]["devices"]["constraints"] == [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]
