"""What an ask becomes in a claim: which DeviceClass, which selectors, how much of a device that several share."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.fleet.gpu_product_labels import known_models
from allotment.fleet.profiles import MIB
from allotment.model.resource import Device
from allotment.tools.migrate.claim_plan import Kind
from allotment.tools.migrate.label_translation import Devices
from allotment.tools.migrate.node_affinity import Condition
from allotment.tools.migrate.plugin_requests import Ask
from allotment.tools.migrate.target import Target

NVIDIA: Final = "gpu.nvidia.com"
#: Driver, class and attribute domain of HAMi's DRA driver are one name.
HAMI: Final = "hami-core-gpu.project-hami.io"
AMD: Final = "gpu.amd.com"
INTEL: Final = "gpu.intel.com"
#: The class that AMD's chart adds where its driver partitions GPUs by itself.
AMD_WHOLE: Final = "gpu.amd.com-spx"


class Sharer(NamedTuple):
    """A driver that lets several claims have parts of one GPU (KEP-5075), and by which capacities.

    Those are ``memory``, ``cores``, ``shares``. ``least_mib``: the memory of the smallest of its GPUs, 0 where that is
    not known.
    """

    driver: str
    capacities: frozenset[str]
    least_mib: int = 0


def sharer_of(target: Target, ask: Ask) -> Sharer | None:
    """The driver that can serve a part of a GPU; without a cluster HAMi's, for what HAMi or Volcano serves now."""
    if not target.on("DRAConsumableCapacity"):
        return None
    if not target.known:
        return Sharer(HAMI, frozenset(("memory", "cores"))) if ask.sort == "fraction" else None
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


def devices_of(ask: Ask, sharer: Sharer | None = None) -> Devices:
    """Whose devices serve an ask."""
    if ask.vendor == "nvidia":
        return Devices("nvidia", sharer.driver if sharer else NVIDIA, bool(ask.profile))
    return Devices(ask.vendor, AMD if ask.vendor == "amd" else INTEL, bool(ask.profile))


def kind_of(ask: Ask, target: Target, conditions: tuple[Condition, ...], sharer: Sharer | None = None) -> Kind:
    """The request for one ask; ``conditions`` are those of the labels, ``sharer`` serves parts of GPUs."""
    if ask.vendor == "amd":
        return _amd(ask, target, conditions)
    if ask.vendor == "intel":
        return _intel(ask, conditions)
    if ask.profile:
        profile = Condition(f'device.attributes["{NVIDIA}"].profile == "{ask.profile}"', ask.resource)
        return Kind("mig.nvidia.com", (profile, *conditions))
    if sharer is None:
        return Kind(NVIDIA, conditions)
    return Kind(sharer.driver, conditions, amounts(ask, sharer))


def amounts(ask: Ask, sharer: Sharer) -> tuple[tuple[str, str], ...]:
    """What an ask takes of each GPU: an amount for each capacity that the driver counts and the ask speaks of."""
    found: list[tuple[str, str]] = []
    if ask.sort == "share" and ask.sharing is not None and ask.sharing.replicas:
        if "shares" in sharer.capacities:
            return (("shares", str(ask.count)),)
        return (("memory", f"{sharer.least_mib * ask.count // ask.sharing.replicas}Mi"),)
    memory = ask.memory_mib or sharer.least_mib * ask.memory_percent // 100
    if memory:
        found.append(("memory", f"{memory}Mi"))
    if ask.cores and "cores" in sharer.capacities:
        found.append(("cores", str(ask.cores)))
    return tuple(found)


def _amd(ask: Ask, target: Target, conditions: tuple[Condition, ...]) -> Kind:
    read = f'device.attributes["{AMD}"]'
    if not ask.profile:
        if any(one.metadata.name == AMD_WHOLE for one in target.classes):
            return Kind(AMD_WHOLE, conditions)
        # The chart's class takes whole GPUs and partitions alike, and so does the plugin's name; where every GPU is
        # partitioned it means those.
        types = _types(target, AMD)
        kind = "amdgpu-partition" if types == {"amdgpu-partition"} else "amdgpu"
        return Kind(AMD, (Condition(f'{read}.type == "{kind}"', ask.resource), *conditions))
    compute, _, memory = ask.profile.partition("_")
    fixed = f'{read}.?partitionProfile.orValue("") == "{ask.profile}"'
    made = f'{read}.?computePartition.orValue("") == "{compute}" && {read}.?memoryPartition.orValue("") == "{memory}"'
    return Kind(AMD, (Condition(f"{fixed} || ({made})", ask.resource), *conditions))


def _types(target: Target, driver: str) -> set[str]:
    """The types of the devices that a driver publishes."""
    devices = (device for one in target.slices if one.spec.driver == driver for device in one.spec.devices or ())
    return {found.string or "" for device in devices if (found := device.attributes.get("type")) is not None}


def _intel(ask: Ask, conditions: tuple[Condition, ...]) -> Kind:
    if ask.sort == "monitoring":
        return Kind(INTEL, admin=True)
    return Kind(
        INTEL, (Condition(f'device.attributes["{INTEL}"].driver == "{ask.kernel_driver}"', ask.resource), *conditions)
    )


def memory_of_products(conditions: tuple[Condition, ...]) -> int:
    """The memory in MiB of the models that conditions on the product name; 0 where they differ or none is named."""
    named = {
        model.memory_mib
        for model in known_models("nvidia")
        for condition in conditions
        if ".productName " in condition.expression
        and f'"{model.product}"' in condition.expression
        and "!" not in condition.expression
    }
    return named.pop() if len(named) == 1 else 0
