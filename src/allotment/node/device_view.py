"""The devices of a container as programs inside it see them: names, UUIDs, memory.

They come from the allocation of the pod's claims and the ResourceSlices that publish the devices. A container's
``resources.claims`` select the claims and requests that it gets (KEP-4381).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from allotment.cluster.cache import Cache
from allotment.fleet.identity import uuid_variable
from allotment.model.resource import Device, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree, read_value
from allotment.node.pod_claims import requests_of


class DeviceView:
    """Looks up the devices of containers in one cluster."""

    def __init__(self, claims: Cache[ResourceClaim], slices: Cache[ResourceSlice]) -> None:
        self._claims = claims
        self._slices = slices
        self._by_pool = slices.index("pool", lambda item: [(item.value.spec.driver, item.value.spec.pool.name)])

    def devices(self, pod: Tree, container: Tree, prepared: Mapping[str, Tree]) -> tuple[ContainerDevice, ...]:
        """The devices of a container. ``prepared``: the pod's claims at the time they were prepared."""
        names = {name for name, _ in requests_of(pod, container)}
        if not names:
            return ()
        trees = {tree["metadata"]["name"]: tree for tree in prepared.values()}
        claims = {name: read_value(trees[name], ResourceClaim) for name in names if name in trees}
        return devices_of(pod, container, claims, dict(self._published(claims)))

    def _published(self, claims: Mapping[str, ResourceClaim]) -> Iterator[tuple[tuple[str, str, str], Device]]:
        """The devices of claims as published in ResourceSlices."""
        wanted = {
            (result.driver, result.pool, result.device)
            for claim in claims.values()
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        }
        for driver, pool in {key[:2] for key in wanted}:
            for item in self._by_pool[driver, pool]:
                for device in item.value.spec.devices or ():
                    if (driver, pool, device.name) in wanted:
                        yield (driver, pool, device.name), device


class ContainerDevice(NamedTuple):
    """A device inside a container. ``memory`` in bytes, 0 if not published; ``parent``: a partition's device UUID.

    ``kind``: the driver's type of device (``gpu``, ``mig``, ``vfio``). ``share``: bytes of memory that the claim
    consumes of a shared device; 0 if not published.
    """

    driver: str
    pool: str
    name: str
    product: str
    uuid: str
    memory: int
    profile: str
    parent: str
    kind: str = ""
    share: int = 0


#: Published devices by driver, pool and name.
Published = Mapping[tuple[str, str, str], Device]


def devices_of(
    pod: Tree, container: Tree, claims: Mapping[str, ResourceClaim], published: Published
) -> tuple[ContainerDevice, ...]:  # fmt: skip
    """The devices of a container. ``claims``: the pod's claims by object name."""
    found: dict[tuple[str, ...], ContainerDevice] = {}
    for name, request in requests_of(pod, container):
        claim = claims.get(name)
        allocation = claim.status.allocation if claim else None
        for result in allocation.devices.results if allocation else ():
            # A result of a firstAvailable request is named request/subrequest.
            if request in ("", result.request, result.request.partition("/")[0]):
                key = (result.driver, result.pool, result.device)
                consumed = {name: amount.value() for name, amount in result.consumed_capacity.items()}
                found[*key, result.share_id or ""] = _container_device(key, published.get(key), consumed)
    return tuple(found.values())


def identified(devices: Iterable[ContainerDevice], variables: Iterable[str]) -> tuple[ContainerDevice, ...]:
    """Fill in the UUIDs of devices created for a claim, from the CDI ``variables`` (``NAME=value``)."""
    values = dict(variable.partition("=")[::2] for variable in variables)
    return tuple(each._replace(uuid=each.uuid or values.get(uuid_variable(each.name), "")) for each in devices)


def _container_device(key: tuple[str, str, str], device: Device | None, consumed: Mapping[str, int]) -> ContainerDevice:
    texts = dict(_texts(device)) if device else {}
    memory = next((c.value.value() for n, c in device.capacity.items() if n.endswith("memory")), 0) if device else 0
    return ContainerDevice(
        *key,
        product=texts.get("productName") or texts.get("product") or key[2],
        uuid=texts.get("uuid", ""),
        memory=memory,
        profile=texts.get("profile", ""),
        parent=texts.get("parentUUID", ""),
        kind=texts.get("type", ""),
        share=next((amount for name, amount in consumed.items() if name.endswith("memory")), 0),
    )


def _texts(device: Device) -> Iterator[tuple[str, str]]:
    for name, attribute in device.attributes.items():
        if attribute.string is not None:
            yield name.rpartition("/")[2], attribute.string
