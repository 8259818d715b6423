"""Clusters with devices, claims and pending pods for tests of the exporter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from allotment.fleet.cluster import cluster_of
from allotment.fleet.description import parse_fleet
from allotment.model.contested_claims import LABEL
from allotment.model.core import Container, Pod, PodResourceClaim, PodSpec
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)

FEATURES = Features(kube="1.36", gates={"DRADeviceTaintRules": True})
NONE: Mapping[str, str] = {}
CREATED = "2026-01-01T00:00:00Z"


def fleet(*descriptions: str, labels: Mapping[str, str] = NONE) -> tuple[Object, ...]:
    """Nodes with these additional labels, their slices and classes."""
    cluster = cluster_of(parse_fleet(descriptions))
    nodes = [
        replace(node, metadata=replace(node.metadata, labels={**node.metadata.labels, **labels}))
        for node in cluster.nodes
    ]
    return (*nodes, *cluster.slices, *cluster.classes)


def spec(device_class: str = "gpu.nvidia.com", count: int = 1) -> ResourceClaimSpec:
    exactly = ExactDeviceRequest(device_class_name=device_class, allocation_mode="ExactCount", count=count)
    return ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=exactly),)))


def claim(
    name: str,
    *devices: str,
    pool: str = "a",
    namespace: str = "ml",
    device_class: str = "gpu.nvidia.com",
    driver: str = "gpu.nvidia.com",
    users: Sequence[str] = (),
    shares: dict[str, str] | None = None,
    allocated: str | None = None,
    annotations: dict[str, str] | None = None,
    aside: bool = False,
) -> ResourceClaim:
    """A claim that holds devices; with ``shares`` a share of each, which consumes these amounts.

    ``aside``: Allotment's scheduler has set it aside.
    """
    results = tuple(
        DeviceRequestAllocationResult(
            request="gpu",
            driver=driver,
            pool=pool,
            device=device,
            share_id=f"{name}-{device}" if shares is not None else None,
            consumed_capacity={name: Quantity.parse(amount) for name, amount in (shares or {}).items()},
        )
        for device in devices
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results), allocation_timestamp=allocated)
    return ResourceClaim(
        metadata=ObjectMeta(
            namespace=namespace, name=name, uid=f"{namespace}/{name}", creation_timestamp=CREATED,
            annotations=annotations or {}, labels={LABEL: "true"} if aside else {},
        ),
        spec=spec(device_class),
        status=ResourceClaimStatus(
            allocation=allocation if devices else None,
            reserved_for=tuple(ResourceClaimConsumerReference(resource="pods", name=user) for user in users),
        ),
    )  # fmt: skip


def template(name: str, device_class: str = "gpu.nvidia.com", count: int = 1) -> ResourceClaimTemplate:
    return ResourceClaimTemplate(
        metadata=ObjectMeta(namespace="ml", name=name), spec=ResourceClaimTemplateSpec(spec=spec(device_class, count))
    )


def pod(
    name: str, *, template: str | None = None, claim: str | None = None, created: str = CREATED, node: str = ""
) -> Pod:
    entry = PodResourceClaim(name="gpu", resource_claim_name=claim, resource_claim_template_name=template)
    return Pod(
        metadata=ObjectMeta(namespace="ml", name=name, uid=name, creation_timestamp=created),
        spec=PodSpec(
            containers=(Container(name="c"),), node_name=node, resource_claims=(entry,) if template or claim else ()
        ),
    )
