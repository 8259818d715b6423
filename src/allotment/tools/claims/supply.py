"""The kinds of devices that a claim can be written for: those of given ResourceSlices, or of all known hardware."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from allotment.fleet.advertised_memory import MemorySize, accelerator_gb, advertised_gb, product_gb
from allotment.fleet.profiles import MIB, Accelerator, accelerators
from allotment.model.resource import Device, DeviceClass, ResourceSlice
from allotment.tools.claims.request import Part


class Dialect(NamedTuple):
    """The names by which a vendor's driver describes devices.

    ``types``: the parts by the value of attribute ``type``; the empty type is that of a driver without the attribute.
    ``classes``: the DeviceClass for each part; ``typed``: the class selects devices of other types, too. ``product``:
    the attribute with the model. ``resources``: the domain of extended resources.
    """

    driver: str
    title: str
    types: Mapping[str, Part]
    classes: Mapping[Part, str]
    product: str
    typed: bool = False
    resources: str = ""


#: vendor -> its driver, in the order of preference of ``--vendor any``.
DIALECTS: Final[Mapping[str, Dialect]] = {
    "nvidia": Dialect(
        "gpu.nvidia.com",
        "NVIDIA",
        {"gpu": "whole", "mig": "mig"},
        {"whole": "gpu.nvidia.com", "mig": "mig.nvidia.com"},
        "productName",
        resources="nvidia.com",
    ),
    "amd": Dialect(
        "gpu.amd.com",
        "AMD",
        {"amdgpu": "whole", "amdgpu-partition": "partition"},
        {"whole": "gpu.amd.com", "partition": "gpu.amd.com"},
        "productName",
        typed=True,
        resources="amd.com",
    ),
    "example": Dialect(
        "gpu.example.com", "example", {"": "whole"}, {"whole": "gpu.example.com"}, "model", resources="example.com"
    ),
}
#: The vendors of real hardware.
REAL_VENDORS: Final = ("nvidia", "amd")


class DeviceKind(NamedTuple):
    """A kind of device. ``profile``: the MIG profile, or the compute mode of a partition. ``attributes``: the published
    names, empty if unknown. ``shared``: several claims can have a part of it."""

    vendor: str
    part: Part
    product: str
    size: MemorySize
    profile: str = ""
    attributes: frozenset[str] = frozenset()
    shared: bool = False

    @property
    def title(self) -> str:
        """The device in messages: ``1g.5gb of NVIDIA A100-SXM4-40GB``."""
        product = self.product.replace("_", " ")
        return f"{self.profile} of {product}" if self.profile else product

    @property
    def words(self) -> frozenset[str]:
        """The words of the product in lower case."""
        return frozenset(words_of(self.product))


class Supply(NamedTuple):
    """The kinds of devices. ``given``: they are those of the user's hardware, not of all known hardware.

    ``classes``: the names of the DeviceClasses of the user's cluster with their extended resources.
    """

    kinds: tuple[DeviceKind, ...]
    given: bool = False
    classes: Mapping[str, str] = {}

    def has_product(self, product: str) -> bool:
        """Whether a model is the whole name of a product, as drivers publish it."""
        return any(kind.product == product for kind in self.kinds)

    def of(self, vendor: str, part: Part) -> tuple[DeviceKind, ...]:
        """Return the kinds of a vendor's devices."""
        return tuple(kind for kind in self.kinds if kind.vendor == vendor and kind.part == part)


def words_of(text: str) -> list[str]:
    """Return the words of a model's name in lower case, without sizes.

    >>> words_of("NVIDIA A100-SXM4-80GB"), words_of("AMD_Instinct_MI300X_OAM")
    (['nvidia', 'a100', 'sxm4'], ['amd', 'instinct', 'mi300x', 'oam'])
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    return [word for word in words if not re.fullmatch(r"[0-9]+gb", word)]


@cache
def known_kinds() -> tuple[DeviceKind, ...]:
    """Return the kinds of devices of all known hardware."""
    return tuple(dict.fromkeys(kind for model in accelerators().values() for kind in _kinds_of(model)))


def _kinds_of(model: Accelerator) -> Iterator[DeviceKind]:
    yield DeviceKind(model.vendor, "whole", model.product, MemorySize(accelerator_gb(model), model.memory_mib * MIB))
    for profile in model.mig.profiles if model.mig else ():
        memory = profile.memory_mib * MIB
        size = MemorySize(advertised_gb(profile.name, memory), memory)
        yield DeviceKind(model.vendor, "mig", model.product, size, profile.name)
    for partition in model.partitions:
        if partition.per_gpu > 1:
            memory = partition.memory_mib * MIB
            size = MemorySize(advertised_gb("", memory), memory)
            yield DeviceKind(model.vendor, "partition", model.product, size, partition.compute)


def supply_of(slices: Iterable[ResourceSlice], classes: Iterable[DeviceClass]) -> Supply:
    """Return the devices of a cluster or fleet."""
    kinds = dict.fromkeys(
        kind
        for resource_slice in slices
        for device in resource_slice.spec.devices or ()
        if (kind := _kind(resource_slice.spec.driver, device)) is not None
    )
    names = {found.metadata.name: found.spec.extended_resource_name or "" for found in classes}
    return Supply(tuple(kinds), True, names)


def known_supply() -> Supply:
    """Return all known hardware."""
    return Supply(known_kinds())


def _kind(driver: str, device: Device) -> DeviceKind | None:
    vendor = next((name for name, dialect in DIALECTS.items() if dialect.driver == driver), None)
    if vendor is None:
        return None
    dialect = DIALECTS[vendor]
    part = dialect.types.get(_text(device, driver, "type") if "" not in dialect.types else "")
    if part is None:
        return None
    product = _text(device, driver, dialect.product)
    profile = ""
    if part == "mig":
        profile = _text(device, driver, "profile")
    elif part == "partition":
        profile = (_text(device, driver, "partitionProfile") or _text(device, driver, "computePartition")).partition(
            "_"
        )[0]
    memory = _memory(device, driver)
    advertised = product_gb(product, memory) if part == "whole" else advertised_gb(profile, memory)
    names = frozenset(name if "/" in name else f"{driver}/{name}" for name in device.attributes)
    shared = device.allow_multiple_allocations is True and "memory" in device.capacity and part != "partition"
    return DeviceKind(vendor, part, product, MemorySize(advertised, memory), profile, names, shared)


def _text(device: Device, driver: str, name: str) -> str:
    value = device.attributes.get(name) or device.attributes.get(f"{driver}/{name}")
    return (value.string or "") if value is not None else ""


def _memory(device: Device, driver: str) -> int:
    """The published memory of a device; of a partition that is created on demand, the part that a claim gets."""
    capacity = device.capacity.get("memory") or device.capacity.get(f"{driver}/memory")
    if capacity is None:
        return 0
    policy = capacity.request_policy
    default = policy.default if policy is not None and policy.valid_values else None
    return (default or capacity.value).value()
