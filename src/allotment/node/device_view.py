"""The devices that a container was given, as programs inside it would see them.

From the allocation of a pod's claims and the slices that publish the devices: names, UUIDs, memory. Which of a pod's
claims, and which requests of them, a container gets is what its ``resources.claims`` say (KEP-4381).
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
    """The view of one cluster."""

    def __init__(self, claims: Cache[ResourceClaim], slices: Cache[ResourceSlice]) -> None:
        self._claims = claims
        self._slices = slices
        self._by_pool = slices.index("pool", lambda item: [(item.value.spec.driver, item.value.spec.pool.name)])

    def devices(self, pod: Tree, container: Tree, prepared: Mapping[str, Tree]) -> tuple[ContainerDevice, ...]:
        """What a container sees. ``prepared``: the pod's claims as they were when they were prepared."""
        names = {name for name, _ in requests_of(pod, container)}
        if not names:
            return ()
        trees = {tree["metadata"]["name"]: tree for tree in prepared.values()}
        claims = {name: read_value(trees[name], ResourceClaim) for name in names if name in trees}
        return devices_of(pod, container, claims, dict(self._published(claims)))

    def _published(self, claims: Mapping[str, ResourceClaim]) -> Iterator[tuple[tuple[str, str, str], Device]]:
        """The devices of claims, as slices describe them."""
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
    """A device inside a container. ``memory`` in bytes, 0 when nothing is published; ``parent`` of a partition.

    ``kind``: what the driver calls such devices (``gpu``, ``mig``, ``vfio``). ``share``: bytes of it that are the
    claim's, of a device that several claims share; 0 where nothing is told.
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
    """What a container sees. ``claims``: the pod's, by object name."""
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
    """The devices, with the UUIDs of those that were made for a claim. ``variables``: of CDI, ``NAME=value``."""
    told = dict(variable.partition("=")[::2] for variable in variables)
    return tuple(each._replace(uuid=each.uuid or told.get(uuid_variable(each.name), "")) for each in devices)


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
