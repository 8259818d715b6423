"""Answers for bound pods."""

from __future__ import annotations

from allotment.api.bound_pods import answers_of_bound
from allotment.model.core import Pod, PodExtendedResourceClaimStatus, PodSpec, PodStatus
from allotment.model.meta import ObjectMeta
from allotment.model.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)


def test_devices_of_an_extended_resource_are_printed() -> None:
    made = PodExtendedResourceClaimStatus(resource_claim_name="web-extended-resources-x7k2p")
    pod = Pod(
        metadata=ObjectMeta(name="web", namespace="ns"),
        spec=PodSpec(node_name="a"),
        status=PodStatus(phase="Running", extended_resource_claim_status=made),
    )
    device = DeviceRequestAllocationResult(request="container-0-request-0", driver="gpu", pool="a", device="gpu-3")
    claim = ResourceClaim(
        metadata=ObjectMeta(name="web-extended-resources-x7k2p", namespace="ns"),
        status=ResourceClaimStatus(allocation=AllocationResult(devices=DeviceAllocationResult(results=(device,)))),
    )
    (answer,) = answers_of_bound([pod], [claim])
    assert [given.name for given in answer.claims] == ["ns/web-extended-resources-x7k2p"]
    assert [device.device for device in answer.claims[0].devices] == ["gpu-3"]
