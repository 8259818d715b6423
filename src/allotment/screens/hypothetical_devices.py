"""Hypothetical changes of devices: one fails or is tainted, or a node publishes its GPUs in another mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from allotment.engine.cluster.taints import tolerates
from allotment.errors import InputError
from allotment.fleet import FleetMachine
from allotment.fleet.catalog.labels import INSTANCE_TYPE
from allotment.fleet.cluster import classes_of
from allotment.fleet.hardware import Hardware, hardware
from allotment.fleet.modes import parse_mode
from allotment.fleet.profiles import accelerators
from allotment.fleet.slices import slices_of
from allotment.model.core import Node
from allotment.model.resource import Device, DeviceTaint, ResourceClaim, ResourceSlice
from allotment.screens.hypothetical_cluster import HypotheticalCluster


class _DeviceKey(NamedTuple):
    """A device by driver, pool and name."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.device}"


def fail_device(cluster: HypotheticalCluster, target: str) -> tuple[str, int]:
    """Remove a device; return its pool and name, and the number of pods that lose their node. Raises InputError."""
    device = _change_device(cluster, target, lambda _: None)
    return str(device), _evict_users(cluster, cluster.claims_on(lambda *other: other == device))


def taint_device(cluster: HypotheticalCluster, target: str, taint: DeviceTaint) -> tuple[str, int]:
    """Taint a device; return its pool and name, and the number of pods that lose their node. Raises InputError."""
    device = _change_device(cluster, target, lambda device: replace(device, taints=(*device.taints, taint)))
    if taint.effect != "NoExecute":
        return str(device), 0
    claims = cluster.claims_on(lambda *other: other == device)
    return str(device), _evict_users(cluster, (claim for claim in claims if not _is_tolerated(claim, device, taint)))


def change_mode(cluster: HypotheticalCluster, node: Node, mode: str) -> tuple[int, int]:
    """Let the driver of a node publish its GPUs in another mode; return the number of devices, and of pods that lose
    their node. Raises InputError."""
    name = node.metadata.name
    machine = _machine_of(cluster, node)
    parsed = parse_mode(mode, machine)
    new = slices_of(machine, parsed, name, cluster.features.kube)
    drivers = {slice_.spec.driver for slice_ in new}
    pools = {
        (slice_.spec.driver, slice_.spec.pool.name)
        for slice_ in cluster.of(ResourceSlice)
        if slice_.spec.node_name == name and slice_.spec.driver in drivers
    }
    count = _evict_users(cluster, cluster.claims_on(lambda driver, pool, _: (driver, pool) in pools))
    cluster.publish(new, instead_of=name)
    add_classes(cluster, (FleetMachine(name, machine, parsed),))
    return sum(len(slice_.spec.devices or ()) for slice_ in new), count


def add_classes(cluster: HypotheticalCluster, machines: Sequence[FleetMachine]) -> None:
    """Install the classes of the machines' drivers that the cluster does not have yet."""
    for class_ in classes_of(machines):
        if ("DeviceClass", class_.key) not in cluster.objects:
            cluster.put(class_)


def _evict_users(cluster: HypotheticalCluster, claims: Iterable[ResourceClaim]) -> int:
    return sum(cluster.evict(cluster.users_of(claim), node_ends=True) for claim in claims)


def _is_tolerated(claim: ResourceClaim, device: _DeviceKey, taint: DeviceTaint) -> bool:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    own = (result for result in results if (result.driver, result.pool, result.device) == device)
    return all(any(tolerates(each, taint) for each in result.tolerations) for result in own)


def _change_device(cluster: HypotheticalCluster, target: str, changed: Callable[[Device], Device | None]) -> _DeviceKey:
    """Replace or remove a device."""
    where, _, name = target.rpartition("/")
    found: _DeviceKey | None = None
    for slice_ in cluster.of(ResourceSlice):
        spec = slice_.spec
        if where not in (spec.pool.name, spec.node_name, f"{spec.driver}/{spec.pool.name}"):
            continue
        devices = spec.devices or ()
        if any(device.name == name for device in devices):
            found = _DeviceKey(spec.driver, spec.pool.name, name)
            new = (changed(device) if device.name == name else device for device in devices)
            kept = tuple(device for device in new if device is not None)
            cluster.put(replace(slice_, spec=replace(spec, devices=kept)))
    if found is None:
        raise InputError(f"no device {target!r}", "NODE/DEVICE or POOL/DEVICE, as `allot free -o wide` lists them")
    return found


def _machine_of(cluster: HypotheticalCluster, node: Node) -> Hardware:
    """The hardware of a node, from its label or the product of its devices. Raises InputError if it is not known."""
    name = node.metadata.name
    cards: dict[str, None] = {}
    product = ""
    for slice_ in cluster.of(ResourceSlice):
        for device in (slice_.spec.devices or ()) if slice_.spec.node_name == name else ():
            text = {key: attribute.string or "" for key, attribute in device.attributes.items()}
            product = product or text.get("productName", "")
            buses = (text.get(key) for key in ("parentUUID", "resource.kubernetes.io/pciBusID", "uuid"))
            cards[next(filter(None, buses), device.name)] = None
    label = node.metadata.labels.get(INSTANCE_TYPE, "")
    plain = _plain(product)
    for accelerator in accelerators().values():
        if plain and _plain(accelerator.product) == plain:
            try:
                return hardware(label)
            except InputError:
                return hardware(accelerator.id, len(cards))
    raise InputError(f"the hardware of {name} is not known: {product or 'it publishes no devices'}")


def _plain(product: str) -> str:
    """A product without the vendor and the characters in which drivers write it differently."""
    return product.replace("_", " ").removeprefix("NVIDIA ")
