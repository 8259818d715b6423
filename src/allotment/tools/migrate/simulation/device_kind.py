"""Kinds of device in terms common to device plugins and DRA drivers: model, profile, and whether it is shared.

A device plugin only counts and names no devices, so devices are compared by kind.
"""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.claims.constraints import find_attribute
from allotment.model.meta import Value
from allotment.model.resource import Device

#: Device types of drivers that are parts of a GPU.
_PIECES = ("mig", "amdgpu-partition")


class DeviceKind(Value, frozen=True):
    """A kind of device.

    ``product``: as drivers publish it, empty if unknown; ``profile``: of a piece (``1g.5gb``, ``cpx_nps1``);
    ``shared``: others may use the device at the same time.
    """

    product: str = ""
    profile: str = ""
    shared: bool = False

    def __str__(self) -> str:
        short = self.product.removeprefix("NVIDIA ").replace("_", " ").removeprefix("AMD Instinct ")
        text = f"{self.profile} of {short}" if self.profile and short else self.profile or short or "GPU"
        return f"share of {text}" if self.shared else text


class DeviceCount(Value, frozen=True):
    """A number of devices of one kind."""

    kind: DeviceKind
    count: int

    def __str__(self) -> str:
        kind = str(self.kind)
        return f"{self.count} {kind.replace('share of', 'shares of', 1) if self.count > 1 else kind}"


def kind_of_device(device: Device, driver: str, shared: bool) -> DeviceKind:
    """The kind of a published device; ``shared`` depends on the claim."""

    def attribute(name: str) -> str:
        found = find_attribute(device, driver, f"{driver}/{name}")
        return (found.string or "") if found is not None else ""

    profile = attribute("profile")
    if attribute("type") in _PIECES:
        profile = profile or attribute("partitionProfile")
    elif attribute("computePartition") not in ("", "spx"):  # a GPU that the driver partitions when it is allocated
        profile = f"{attribute('computePartition')}_{attribute('memoryPartition')}"
    return DeviceKind(product=attribute("productName") or attribute("model"), profile=profile, shared=shared)


def summed(devices: Iterable[DeviceKind]) -> tuple[DeviceCount, ...]:
    """Count devices by kind, in order of first occurrence."""
    counts: dict[DeviceKind, int] = {}
    for kind in devices:
        counts[kind] = counts.get(kind, 0) + 1
    return tuple(DeviceCount(kind=kind, count=count) for kind, count in counts.items())


def same_devices(before: Iterable[DeviceCount], after: Iterable[DeviceCount]) -> bool:
    """Whether two pods have the same devices by kind. Shared devices are not counted: two shares may be of one GPU.

    >>> gpu = DeviceKind(product="Tesla T4")
    >>> same_devices([DeviceCount(kind=gpu, count=2)], [DeviceCount(kind=gpu, count=1), DeviceCount(kind=gpu, count=1)])
    True
    """

    def by_kind(devices: Iterable[DeviceCount], with_product: bool) -> dict[tuple[str, str, bool], int]:
        counts: dict[tuple[str, str, bool], int] = {}
        for each in devices:
            key = (each.kind.product if with_product else "", each.kind.profile, each.kind.shared)
            counts[key] = 1 if each.kind.shared else counts.get(key, 0) + each.count
        return counts

    old, new = tuple(before), tuple(after)
    with_product = all(each.kind.product for each in (*old, *new))
    return by_kind(old, with_product) == by_kind(new, with_product)
