"""The cpu, memory and huge pages of a node that a pod uses through its devices (``nodeAllocatableResources``, 1.37).

A device maps to an amount of the node's resources: a fixed amount, or a multiple of the capacity that the allocation
consumes. It can also cause an overhead, for each pod and for each container that references the claim. The amounts add
to the pod's requests on the node, and are published in ``status.nodeAllocatableResourceClaimStatuses`` of the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, reaches
from allotment.model.meta import ObjectKey
from allotment.model.pod_resources import claim_amounts, container_amounts, sum_amounts
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableResource,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.model.trees import Tree

_HUGE_PAGES: Final = "hugepages-"

DeviceResources = Mapping[str, NodeAllocatableResource]
"""``nodeAllocatableResources`` of a device, by the name of the node's resource."""


class UnknownUse(ValueError):
    """Raised if it is unknown what the devices of a claim use: a device maps to a consumed capacity, but the allocation
    consumes none; or one of the devices is not published. The text is Kubernetes'.
    """


class NodeAllocatableDevices:
    """The devices of all slices, of which some use resources of their node; false if none does."""

    def __init__(self) -> None:
        self._by_pool: dict[tuple[str, str], dict[str, _PublishedSlice]] = {}
        """By driver and pool, and slice."""
        self._pool_of: dict[str, tuple[str, str]] = {}
        self._counted: set[str] = set()
        """Slices with a device that uses resources of its node."""

    def __bool__(self) -> bool:
        return bool(self._counted)

    def put(self, slice_: ResourceSlice) -> None:
        """Add or update a slice."""
        spec, name = slice_.spec, slice_.metadata.name
        pool = (spec.driver, spec.pool.name)
        self.remove(name)
        devices = {device.name: device for device in spec.devices or ()}
        self._by_pool.setdefault(pool, {})[name] = _PublishedSlice(spec, devices)
        self._pool_of[name] = pool
        if any(device.node_allocatable_resources for device in devices.values()):
            self._counted.add(name)

    def remove(self, slice_name: str) -> None:
        """Remove a slice."""
        self._counted.discard(slice_name)
        pool = self._pool_of.pop(slice_name, None)
        if pool is not None:
            del self._by_pool[pool][slice_name]
            if not self._by_pool[pool]:
                del self._by_pool[pool]

    def of(self, result: DeviceRequestAllocationResult, node: NodeFacts | None = None) -> DeviceResources:
        """Return the node's resources that an allocated device uses. ``node``: where it must be available; None: any.

        Raises `UnknownUse`.
        """
        for published in self._by_pool.get((result.driver, result.pool), {}).values():
            device = published.devices.get(result.device)
            if device is None or (node is not None and not _is_published_for(published.spec, node)):
                continue
            if node is not None and published.spec.per_device_node_selection and not _reaches(device, node):
                raise UnknownUse(f"device {result.device} does not match node")
            return device.node_allocatable_resources or {}
        raise UnknownUse(f"device {result.device} not found in pool {result.pool} for driver {result.driver}")

    def uses(
        self, allocation: AllocationResult, node: NodeFacts | None = None
    ) -> Iterator[DeviceResources | UnknownUse]:
        """Yield the node's resources that each device uses, or why that is unknown."""
        for result in allocation.devices.results:
            try:
                yield self.of(result, node)
            except UnknownUse as error:
                yield error

    def is_mapped(self, allocation: AllocationResult) -> bool:
        """Whether an allocation has a device that stands for an amount of the node's resources.

        Such an allocation cannot be shared by pods, as the amount would count for each of them.
        """
        known = (resources for resources in self.uses(allocation) if not isinstance(resources, UnknownUse))
        return any(resource.mapping is not None for resources in known for resource in resources.values())

    def is_incomplete(self, allocation: AllocationResult) -> bool:
        """Whether some devices of an allocation use resources of the node, and others are in no slice."""
        uses = list(self.uses(allocation))
        return any(isinstance(use, UnknownUse) for use in uses) and any(
            not isinstance(u, UnknownUse) and u for u in uses
        )


class _PublishedSlice(NamedTuple):
    spec: ResourceSliceSpec
    devices: Mapping[str, Device]
    """The slice's devices, by name."""


def _is_published_for(spec: ResourceSliceSpec, node: NodeFacts) -> bool:
    return bool(spec.per_device_node_selection) or _reaches(spec, node)


def _reaches(of: ResourceSliceSpec | Device, node: NodeFacts) -> bool:
    try:
        return reaches(node, of.node_name, of.all_nodes, of.node_selector)
    except UnusableNodeSelector:
        return False


class ClaimUse(NamedTuple):
    """A claim of a pod with its allocation, and the names of the pod's entries for it."""

    claim: ObjectKey
    allocation: AllocationResult
    entries: frozenset[str]


def claim_statuses(
    spec: Tree, uses: Iterable[ClaimUse], devices: NodeAllocatableDevices, node: NodeFacts | None = None
) -> list[Tree]:
    """Return ``status.nodeAllocatableResourceClaimStatuses`` for a pod on a node; empty if its claims use none of the
    node's resources.

    Raises `UnknownUse`.
    """
    found = [status for use in uses if (status := _claim_status(spec, use, devices, node))]
    return sorted(found, key=lambda status: str(status["resourceClaimName"]))


def _claim_status(spec: Tree, use: ClaimUse, devices: NodeAllocatableDevices, node: NodeFacts | None) -> Tree | None:
    used = list(devices.uses(use.allocation, node))
    if not any(resources for resources in used if not isinstance(resources, UnknownUse)):
        return None  # also if devices are not published, as in Kubernetes
    mapped: dict[str, Quantity] = {}
    per_pod: dict[str, Quantity] = {}
    per_container: dict[str, Quantity] = {}
    for result, resources in zip(use.allocation.devices.results, used, strict=True):
        if isinstance(resources, UnknownUse):
            raise UnknownUse(f"claim {use.claim}, device {result.device}, driver {result.driver}: {resources}")
        for name, resource in resources.items():
            if (amount := _mapped_amount(use.claim, name, resource, result)) is not None:
                _add(mapped, name, amount)
            if resource.overhead is not None:
                for amounts, more in (
                    (per_pod, resource.overhead.per_pod), (per_container, resource.overhead.per_container)
                ):  # fmt: skip
                    if more is not None:
                        _add(amounts, name, more)
    if not mapped and not per_pod and not per_container:
        return None
    status: Tree = {"resourceClaimName": use.claim.name}
    if containers := _containers_with(spec, use.entries):
        status["containers"] = containers
    if mapped:
        status["mapping"] = [{"name": name, "quantity": str(mapped[name])} for name in sorted(mapped)]
    if overhead := sorted({*per_pod, *per_container}):
        status["overhead"] = [
            {
                "name": name,
                **({"perPod": str(per_pod[name])} if name in per_pod else {}),
                **({"perContainer": str(per_container[name])} if name in per_container else {}),
            }
            for name in overhead
        ]
    return status


def _mapped_amount(
    claim: ObjectKey, name: str, resource: NodeAllocatableResource, result: DeviceRequestAllocationResult
) -> Quantity | None:
    mapping = resource.mapping
    if mapping is None:
        return None
    if not mapping.capacity_key:
        return mapping.device_multiplier
    if not result.consumed_capacity:
        raise UnknownUse(
            f"claim {claim}, device {result.device}: ConsumedCapacity is nil, but Capacity key "
            f"'{mapping.capacity_key}' is set in NodeAllocatableResources for resource {name}"
        )
    consumed = result.consumed_capacity.get(mapping.capacity_key)
    if consumed is None or mapping.capacity_multiplier is None:
        return consumed
    return _product(consumed, mapping.capacity_multiplier)


def _product(amount: Quantity, factor: Quantity) -> Quantity:
    """Return the exact product, rounded up to 10^-9, with the suffix family of the amount."""
    mantissa, scale = amount.mantissa * factor.mantissa, amount.scale + factor.scale
    if scale < -9:
        mantissa, scale = -(-mantissa // 10 ** (-9 - scale)), -9
    return Quantity(mantissa, scale, -(2**63) <= mantissa < 2**63, amount.format)


def _add(total: dict[str, Quantity], name: str, amount: Quantity) -> None:
    total[name] = total[name].add(amount) if name in total else amount


def _containers_with(spec: Tree, entries: frozenset[str]) -> list[str]:
    """Return the name of a container once for each of its references to one of the pod's claim entries."""
    return [
        container["name"]
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        for reference in (container.get("resources") or {}).get("claims") or ()
        if reference.get("name") in entries
    ]


def uncovered_by_pod_level(spec: Tree, statuses: list[Tree]) -> str:
    """Return Kubernetes' text if the pod-level resources do not cover the containers and devices; otherwise empty."""
    resources = spec.get("resources") or {}
    devices = claim_amounts({"nodeAllocatableResourceClaimStatuses": statuses})
    if requests := resources.get("requests"):
        needed = sum_amounts((container_amounts(spec, "requests"), devices))
        for name, text in requests.items():
            if name in needed and needed[name] > Quantity.parse(str(text)):
                return (
                    f"pod level request for {name} is insufficient to cover the aggregated container and "
                    "node-allocatable DRA requests"
                )
    limits = {name: Quantity.parse(str(text)) for name, text in (resources.get("limits") or {}).items()}
    if not limits:
        return ""
    total = container_amounts(spec, "limits")
    for name in sorted(name for name in {*total, *devices} if name.startswith(_HUGE_PAGES) and name in limits):
        needed_pages = sum_amounts({name: a} for amounts in (total, devices) if (a := amounts.get(name)) is not None)
        if needed_pages[name] > limits[name]:
            return (
                f"pod level limit for {name} is insufficient to cover the aggregated container and node-allocatable "
                "DRA limits"
            )
    for container in spec.get("containers") or ():
        own = _amounts_of_container(container["name"], statuses)
        for name, text in ((container.get("resources") or {}).get("limits") or {}).items():
            if name.startswith(_HUGE_PAGES) or name not in limits:
                continue
            limit = Quantity.parse(str(text))
            if (limit.add(own[name]) if name in own else limit) > limits[name]:
                return (
                    f"pod level limit for {name} is insufficient to cover the limit and DRA overhead for container "
                    f"{container['name']}"
                )
    return ""


def _amounts_of_container(name: str, statuses: list[Tree]) -> dict[str, Quantity]:
    """Return what the claims of one container use; a claim counts fully for each of its containers."""
    found: dict[str, Quantity] = {}
    for status in statuses:
        if name not in (status.get("containers") or ()):
            continue
        for mapping in status.get("mapping") or ():
            _add(found, mapping["name"], Quantity.parse(str(mapping["quantity"])))
        for overhead in status.get("overhead") or ():
            for part in ("perPod", "perContainer"):
                if overhead.get(part) is not None:
                    _add(found, overhead["name"], Quantity.parse(str(overhead[part])))
    return found
