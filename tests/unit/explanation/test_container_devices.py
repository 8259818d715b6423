"""Notes about containers that get no device of a claim, or devices twice."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.explanation import containers_without_device
from allotment.model.core import Container, ContainerResourceClaim, Pod, PodResourceClaim, PodSpec, ResourceRequirements
from allotment.model.meta import ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    CELDeviceSelector,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)

UNUSED = "no container of Pod default/trainer uses claim gpu: its devices are allocated but unused"


def template(class_name: str) -> ResourceClaimTemplate:
    """A template with one request of a class."""
    request = DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name=class_name))
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=(request,)))
    meta = ObjectMeta(name="one", namespace="default")
    return ResourceClaimTemplate(metadata=meta, spec=ResourceClaimTemplateSpec(spec=spec))


def pod(*uses: str, **limits: str) -> Pod:
    """A pod with a claim from the template, and a container with uses of it and limits."""
    resources = ResourceRequirements(
        limits={name: Quantity.parse(amount) for name, amount in limits.items()},
        claims=tuple(ContainerResourceClaim(name=use) for use in uses),
    )
    spec = PodSpec(
        containers=(Container(name="main", resources=resources),),
        resource_claims=(PodResourceClaim(name="gpu", resource_claim_template_name="one"),),
    )
    return Pod(metadata=ObjectMeta(name="trainer", namespace="default"), spec=spec)


def notes(pod: Pod, *others: Any) -> list[str]:
    """The notes about a pod."""
    return list(containers_without_device((pod, *others), [pod]))


def test_a_claim_that_no_container_names_is_noted() -> None:
    assert notes(pod(), template("gpu.nvidia.com")) == [UNUSED]
    assert notes(pod("gpu"), template("gpu.nvidia.com")) == []


def test_network_devices_are_for_the_whole_pod() -> None:
    assert notes(pod(), template("dra.net")) == []
    assert notes(pod(), template("compute-domain-default-channel.nvidia.com")) == []


@pytest.mark.parametrize(
    ("resource", "class_name", "noted"),
    [
        ("nvidia.com/gpu", "gpu.nvidia.com", True),
        ("nvidia.com/mig-1g.5gb", "mig.nvidia.com", True),
        ("amd.com/gpu", "gpu.amd.com", True),
        ("nvidia.com/gpu", "gpu.amd.com", False),
        ("nvidia.com/gpu", "compute-domain-default-channel.nvidia.com", False),
        ("memory", "gpu.nvidia.com", False),
    ],
)
def test_a_limit_of_the_device_plugin_next_to_a_claim_is_noted(resource: str, class_name: str, noted: bool) -> None:
    found = notes(pod("gpu", **{resource: "1"}), template(class_name))
    text = f"container main of Pod default/trainer requests {resource}, and the pod references template one"
    assert [note.startswith(text) for note in found] == [True] * noted


def test_the_class_of_an_administrator_is_for_the_driver_in_its_selector() -> None:
    cel = CELDeviceSelector(expression='device.driver == "gpu.nvidia.com"')
    made = DeviceClass(metadata=ObjectMeta(name="big"), spec=DeviceClassSpec(selectors=(DeviceSelector(cel=cel),)))
    limited = pod("gpu", **{"nvidia.com/gpu": "1"})
    assert notes(limited, template("big")) == []
    assert len(notes(limited, template("big"), made)) == 1


def test_a_limit_of_zero_is_no_request() -> None:
    assert notes(pod("gpu", **{"nvidia.com/gpu": "0"}), template("gpu.nvidia.com")) == []
