"""The cpu, memory and huge pages of a node that a pod uses through its devices (``nodeAllocatableResources``, 1.37).

A device maps to an amount of the node's resources: a fixed amount, or a multiple of the capacity that the allocation
consumes. It can also cause an overhead, for each pod and for each container that references the claim. The amounts add
to the pod's requests on the node, and are published in ``status.nodeAllocatableResourceClaimStatuses`` of the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from allotment.model.pod_resources import claim_amounts, container_amounts, sum_amounts
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    AllocationResult,
    DeviceRequestAllocationResult,
    NodeAllocatableResource,
    ResourceSlice,
)
from allotment.model.trees import Tree

_HUGE_PAGES: Final = "hugepages-"

DeviceResources = Mapping[str, NodeAllocatableResource]
"""``nodeAllocatableResources`` of a device, by the name of the node's resource."""


class MissingCapacity(ValueError):
    """Raised if a device maps to a consumed capacity, but the allocation consumes none. The text is Kubernetes'."""


class NodeAllocatableDevices:
    """The devices that use resources of their node, of all slices."""

    def __init__(self) -> None:
        self._by_slice: dict[str, dict[tuple[str, str, str], DeviceResources]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_slice)

    def put(self, slice_: ResourceSlice) -> None:
        """Add or update a slice."""
        spec = slice_.spec
        found: dict[tuple[str, str, str], DeviceResources] = {
            (spec.driver, spec.pool.name, device.name): device.node_allocatable_resources
            for device in spec.devices or ()
            if device.node_allocatable_resources
        }
        if found:
            self._by_slice[slice_.metadata.name] = found
        else:
            self._by_slice.pop(slice_.metadata.name, None)

    def remove(self, slice_name: str) -> None:
        """Remove a slice."""
        self._by_slice.pop(slice_name, None)

    def of(self, result: DeviceRequestAllocationResult) -> DeviceResources:
        """Return the node's resources that an allocated device uses; empty for any other device."""
        key = (result.driver, result.pool, result.device)
        for devices in self._by_slice.values():
            if key in devices:
                return devices[key]
        return {}

    def is_mapped(self, allocation: AllocationResult) -> bool:
        """Whether an allocation has a device that stands for an amount of the node's resources.

        Such an allocation cannot be shared by pods, as the amount would count for each of them.
        """
        resources = (resource for result in allocation.devices.results for resource in self.of(result).values())
        return any(resource.mapping is not None for resource in resources)


class ClaimUse(NamedTuple):
    """A claim of a pod with its allocation, and the names of the pod's entries for it."""

    claim: str
    allocation: AllocationResult
    entries: frozenset[str]


def claim_statuses(spec: Tree, uses: Iterable[ClaimUse], devices: NodeAllocatableDevices) -> list[Tree]:
    """Return ``status.nodeAllocatableResourceClaimStatuses`` for a pod with this spec; empty if its claims use none of
    the node's resources.

    Raises `MissingCapacity`.
    """
    found = [status for use in uses if (status := _claim_status(spec, use, devices))]
    return sorted(found, key=lambda status: str(status["resourceClaimName"]))


def _claim_status(spec: Tree, use: ClaimUse, devices: NodeAllocatableDevices) -> Tree | None:
    mapped: dict[str, Quantity] = {}
    per_pod: dict[str, Quantity] = {}
    per_container: dict[str, Quantity] = {}
    for result in use.allocation.devices.results:
        for name, resource in devices.of(result).items():
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
    status: Tree = {"resourceClaimName": use.claim}
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
    claim: str, name: str, resource: NodeAllocatableResource, result: DeviceRequestAllocationResult
) -> Quantity | None:
    mapping = resource.mapping
    if mapping is None:
        return None
    if not mapping.capacity_key:
        return mapping.device_multiplier
    if not result.consumed_capacity:
        raise MissingCapacity(
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
