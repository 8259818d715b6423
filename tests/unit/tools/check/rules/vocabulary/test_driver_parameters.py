"""V310: parameters that the driver rejects, or that no driver reads."""

from __future__ import annotations

import json
from typing import Any

from allotment.tools.check.rule import RuleMatch
from allotment.tools.check.rules.vocabulary import driver_parameters
from tests.unit.tools.check.rules.vocabulary.rule_results import claim, fixed_document, levels_and_messages, matches_of

RULE = driver_parameters.RULE


def claim_with_parameters(
    parameters: dict[str, Any], *, driver: str = "gpu.nvidia.com", class_name: str = "gpu.nvidia.com"
) -> str:
    """A claim with parameters for its request."""
    config = {"requests": ["gpu"], "opaque": {"driver": driver, "parameters": parameters}}
    return claim("", class_name=class_name, devices_extra=f"    config: {json.dumps([config])}\n")


def nvidia_parameters(
    kind: str = "GpuConfig", version: str = "resource.nvidia.com/v1beta1", **fields: Any
) -> dict[str, Any]:
    """Parameters for NVIDIA's driver."""
    return {"apiVersion": version, "kind": kind, **fields}


def fixed_parameters(text: str) -> dict[str, Any]:
    """The parameters after the first fix."""
    parameters: dict[str, Any] = fixed_document(RULE, text)["spec"]["devices"]["config"][0]["opaque"]["parameters"]
    return parameters


def single_match(text: str) -> RuleMatch:
    """The only match."""
    (match,) = matches_of(RULE, text)
    return match


def test_misspelled_field() -> None:
    text = claim_with_parameters(nvidia_parameters(sharing={"strategy": "MPS", "mpsconfig": {}}))
    match = single_match(text)
    assert match.level == "error"
    assert match.at_key
    assert match.path[-2:] == ("sharing", "mpsconfig")
    assert match.fix is not None
    assert match.fix.safe
    assert fixed_parameters(text)["sharing"] == {"strategy": "MPS", "mpsConfig": {}}


def test_misspelled_value_is_an_unsafe_fix() -> None:
    text = claim_with_parameters(nvidia_parameters(sharing={"strategy": "Timeslicing"}))
    match = single_match(text)
    assert match.fix is not None
    assert not match.fix.safe
    assert fixed_parameters(text)["sharing"] == {"strategy": "TimeSlicing"}


def test_unknown_field_is_a_warning() -> None:
    assert single_match(claim_with_parameters(nvidia_parameters(colour="red"))).level == "warning"
    assert single_match(claim_with_parameters(nvidia_parameters(kind="QuantumConfig"))).level == "warning"


def test_invalid_value_is_an_error() -> None:
    text = claim_with_parameters(
        nvidia_parameters(sharing={"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 130}})
    )
    ((level, message),) = levels_and_messages(RULE, text)
    place = "sharing.mpsConfig.defaultActiveThreadPercentage"
    assert level == "error"
    assert message == f"gpu.nvidia.com rejects these parameters: {place}: expected 0 to 100 (percent), found 130"
    mixed = claim_with_parameters(nvidia_parameters(sharing={"strategy": "TimeSlicing", "mpsConfig": {}}))
    assert [match.path[-1] for match in matches_of(RULE, mixed)] == ["mpsConfig"]


def test_kind_for_other_devices() -> None:
    text = claim_with_parameters(nvidia_parameters(kind="MigDeviceConfig"))
    assert levels_and_messages(RULE, text) == [
        (
            "error",
            (
                "MigDeviceConfig is for devices of type mig, but the requested devices have type gpu: "
                "gpu.nvidia.com rejects the parameters"
            ),
        )
    ]
    assert fixed_parameters(text)["kind"] == "GpuConfig"
    assert (
        levels_and_messages(
            RULE, claim_with_parameters(nvidia_parameters(kind="MigDeviceConfig"), class_name="mig.nvidia.com")
        )
        == []
    )


def test_kind_for_unnamed_requests_is_ignored() -> None:
    text = claim_with_parameters(nvidia_parameters(kind="MigDeviceConfig")).replace('"requests": ["gpu"], ', "")
    assert levels_and_messages(RULE, text) == [
        (
            "warning",
            (
                "MigDeviceConfig is for devices of type mig, but the requested devices have type gpu: "
                "the parameters are ignored"
            ),
        )
    ]


def test_parameters_for_another_driver() -> None:
    text = claim_with_parameters(
        {"apiVersion": "gpu.resource.amd.com/v1alpha1", "kind": "GpuConfig"}, driver="gpu.amd.com"
    )
    assert levels_and_messages(RULE, text) == [
        ("warning", "parameters for gpu.amd.com are not read: the requested devices belong to gpu.nvidia.com")
    ]


def test_unknown_class_is_not_reported() -> None:
    assert (
        levels_and_messages(RULE, claim_with_parameters(nvidia_parameters(kind="MigDeviceConfig"), class_name="fast"))
        == []
    )
    assert levels_and_messages(RULE, claim_with_parameters({"whatever": 1}, driver="driver.example.com")) == []
