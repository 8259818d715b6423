"""Maps plugin requests to claim requests: DeviceClass, selectors, and amounts of shared devices."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.fleet.gpu_product_labels import known_models
from allotment.fleet.profiles import MIB
from allotment.model.resource import Device
from allotment.tools.migrate.claim_plan import RequestKind
from allotment.tools.migrate.label_translation import Devices
from allotment.tools.migrate.node_affinity import Condition
from allotment.tools.migrate.plugin_requests import PluginRequest
from allotment.tools.migrate.target import Target

NVIDIA: Final = "gpu.nvidia.com"
#: Driver, class and attribute domain of HAMi's DRA driver are one name.
HAMI: Final = "hami-core-gpu.project-hami.io"
AMD: Final = "gpu.amd.com"
INTEL: Final = "gpu.intel.com"
#: The class that AMD's chart adds if its driver partitions GPUs on demand.
AMD_WHOLE: Final = "gpu.amd.com-spx"


class Sharer(NamedTuple):
    """A driver that can allocate parts of one GPU to several claims (KEP-5075).

    ``capacities``: those of ``memory``, ``cores`` and ``shares`` that it divides. ``least_mib``: the memory of its
    smallest GPU, 0 if unknown.
    """

    driver: str
    capacities: frozenset[str]
    least_mib: int = 0


def sharer_of(target: Target, request: PluginRequest) -> Sharer | None:
    """The driver that can serve a part of a GPU; without a cluster HAMi's, for resources of HAMi and Volcano."""
    if not target.on("DRAConsumableCapacity"):
        return None
    if not target.known:
        return Sharer(HAMI, frozenset(("memory", "cores"))) if request.usage == "fraction" else None
    for driver in (HAMI, NVIDIA):
        found = [d for s in target.slices if s.spec.driver == driver for d in s.spec.devices or () if _divisible(d)]
        if found:
            names = frozenset.intersection(*(frozenset(device.capacity) for device in found))
            least = min(
                (device.capacity["memory"].value.value() for device in found if "memory" in device.capacity), default=0
            )
            return Sharer(driver, names & {"memory", "cores", "shares"}, least // MIB)
    return None


def _divisible(device: Device) -> bool:
    return device.allow_multiple_allocations is True and bool(device.capacity)


def devices_of(request: PluginRequest, sharer: Sharer | None = None) -> Devices:
    """The devices that serve a plugin request: their vendor, driver, and whether they are partitions."""
    if request.vendor == "nvidia":
        return Devices("nvidia", sharer.driver if sharer else NVIDIA, bool(request.profile))
    return Devices(request.vendor, AMD if request.vendor == "amd" else INTEL, bool(request.profile))


def kind_of(
    request: PluginRequest, target: Target, conditions: tuple[Condition, ...], sharer: Sharer | None = None
) -> RequestKind:
    """The claim request for a plugin request. ``conditions``: from node labels; ``sharer`` serves parts of GPUs."""
    if request.vendor == "amd":
        return _amd(request, target, conditions)
    if request.vendor == "intel":
        return _intel(request, conditions)
    if request.profile:
        profile = Condition(f'device.attributes["{NVIDIA}"].profile == "{request.profile}"', request.resource)
        return RequestKind("mig.nvidia.com", (profile, *conditions))
    if sharer is None:
        return RequestKind(NVIDIA, conditions)
    return RequestKind(sharer.driver, conditions, amounts(request, sharer))


def amounts(request: PluginRequest, sharer: Sharer) -> tuple[tuple[str, str], ...]:
    """The amounts that a plugin request consumes of each GPU, by capacity; only capacities that the driver counts."""
    found: list[tuple[str, str]] = []
    if request.usage == "share" and request.sharing is not None and request.sharing.replicas:
        if "shares" in sharer.capacities:
            return (("shares", str(request.count)),)
        return (("memory", f"{sharer.least_mib * request.count // request.sharing.replicas}Mi"),)
    memory = request.memory_mib or sharer.least_mib * request.memory_percent // 100
    if memory:
        found.append(("memory", f"{memory}Mi"))
    if request.cores and "cores" in sharer.capacities:
        found.append(("cores", str(request.cores)))
    return tuple(found)


def _amd(request: PluginRequest, target: Target, conditions: tuple[Condition, ...]) -> RequestKind:
    read = f'device.attributes["{AMD}"]'
    if not request.profile:
        if any(device_class.metadata.name == AMD_WHOLE for device_class in target.classes):
            return RequestKind(AMD_WHOLE, conditions)
        # The chart's class matches whole GPUs and partitions, as the plugin's name does; if every GPU is partitioned,
        # the name stands for partitions.
        types = _types(target, AMD)
        kind = "amdgpu-partition" if types == {"amdgpu-partition"} else "amdgpu"
        return RequestKind(AMD, (Condition(f'{read}.type == "{kind}"', request.resource), *conditions))
    compute, _, memory = request.profile.partition("_")
    fixed = f'{read}.?partitionProfile.orValue("") == "{request.profile}"'
    made = f'{read}.?computePartition.orValue("") == "{compute}" && {read}.?memoryPartition.orValue("") == "{memory}"'
    return RequestKind(AMD, (Condition(f"{fixed} || ({made})", request.resource), *conditions))


def _types(target: Target, driver: str) -> set[str]:
    """The device types that a driver publishes."""
    devices = (
        device for slice_ in target.slices if slice_.spec.driver == driver for device in slice_.spec.devices or ()
    )
    return {found.string or "" for device in devices if (found := device.attributes.get("type")) is not None}


def _intel(request: PluginRequest, conditions: tuple[Condition, ...]) -> RequestKind:
    if request.usage == "monitoring":
        return RequestKind(INTEL, admin=True)
    return RequestKind(
        INTEL,
        (Condition(f'device.attributes["{INTEL}"].driver == "{request.kernel_driver}"', request.resource), *conditions),
    )


def memory_of_products(conditions: tuple[Condition, ...]) -> int:
    """The memory in MiB of the models selected by product name; 0 if they differ or none is selected."""
    named = {
        model.memory_mib
        for model in known_models("nvidia")
        for condition in conditions
        if ".productName " in condition.expression
        and f'"{model.product}"' in condition.expression
        and "!" not in condition.expression
    }
    return named.pop() if len(named) == 1 else 0
