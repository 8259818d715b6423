"""Instance types of clouds, with the sources of their data, and templates of their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from allotment.fleet.hardware import MAX_GPUS
from allotment.fleet.profiles import Accelerator
from allotment.model.core import Node, Taint
from allotment.model.resource import ResourceSlice

#: Types with a measured topology, and the server profile made of it.
_SERVERS: Final[Mapping[str, str]] = {"aws/p5.48xlarge": "hgx-h100-aws-p5"}


def with_usability(instance: InstanceType) -> InstanceType:
    """Return the type with ``unusable`` set from its data."""
    model = instance.accelerator
    return replace(
        instance,
        hardware=_hardware(instance),
        unusable=_unusable_reason(instance),
        memory_bound=model is not None and model.memory_bound,
    )


def _hardware(instance: InstanceType) -> str:
    model = instance.accelerator
    if model is None or not 0 < instance.gpus <= MAX_GPUS or instance.gpu_fraction:
        return ""
    name = model.aliases[0] if model.aliases else model.id
    return _SERVERS.get(instance.key) or (name if instance.gpus == 1 else f"{instance.gpus}x{name}")


def _unusable_reason(instance: InstanceType) -> str:
    """Return why a plan must not use a type; empty if it may."""
    fraction = instance.gpu_fraction
    if fraction == "unknown":
        return "it is unknown whether it has a whole GPU or only part of one"
    if fraction:
        part = "only part" if fraction == "fractional" else fraction
        return f"it has {part} of a GPU (a vGPU), which the GPU vendor's DRA driver does not publish"
    if instance.gpus > MAX_GPUS:
        return f"it has {instance.gpus} GPUs; a node can have at most {MAX_GPUS}"
    if instance.gpus and instance.accelerator is None:
        return "its GPU model is unknown"
    if instance.room is None:
        unknown = [word for word, value in (("vCPUs", instance.vcpu), ("memory", instance.memory_gib)) if value is None]
        if not unknown:
            return "its capacity for pods is unknown"
        return f"its {' and '.join(unknown)} {'are' if unknown[0] == 'vCPUs' else 'is'} unknown"
    return "" if instance.prices else "its price is unknown"


CapacityType: TypeAlias = Literal["on-demand", "spot"]
CAPACITY_TYPES: Final[tuple[CapacityType, ...]] = ("on-demand", "spot")


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """Allocatable resources of a node: CPU in thousandths, memory in MiB, number of pods.

    ``estimated``: by a rule, not from a source.
    """

    cpu_milli: int
    memory_mib: int
    pods: int
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An instance type. ``prices``: known prices in USD per hour by capacity type.

    ``accelerator``: the model of its ``gpus``, or None without GPUs. ``unusable``: why a plan cannot use it (a fraction
    of a GPU, unknown price or size); empty if it can. ``memory_bound``: the GPU's memory is not a figure of its driver
    but the smallest known one, so that claims near it are uncertain. ``arch``: as in the label ``kubernetes.io/arch``.
    ``gpu_fraction``: the fraction of a GPU (``1/8``), empty for whole GPUs. ``gpu_memory_gib``: the cloud's figure for
    each GPU, which differs from the driver's.
    """

    provider: str
    name: str
    region: str
    zones: tuple[str, ...]
    vcpu: Decimal | None
    memory_gib: Decimal | None
    room: NodeCapacity | None
    gpus: int
    accelerator: Accelerator | None
    gpu_model: str
    prices: tuple[tuple[CapacityType, Decimal], ...]
    as_of: str
    price_source: str
    spec_source: str = ""
    notes: str = ""
    arch: str = "amd64"
    gpu_fraction: str = ""
    gpu_memory_gib: Decimal | None = None
    hardware: str = ""
    """Its name for ``--fleet``, without a mode: ``8xa100-40gb``, or a known server; empty without GPUs."""
    unusable: str = ""
    memory_bound: bool = False
    disk_gib: Decimal | None = None
    """Disk for pods (``ephemeral-storage``), if a catalog specifies it."""
    taints: tuple[Taint, ...] = ()
    """Taints of its nodes, if a catalog specifies them."""

    @property
    def key(self) -> str:
        """The unique key in a catalog, such as ``aws/p4d.24xlarge``."""
        return f"{self.provider}/{self.name}"

    def price(self, capacity: CapacityType) -> Decimal | None:
        """Return the price in USD per hour, or None if unknown."""
        return dict(self.prices).get(capacity)


@dataclass(frozen=True, slots=True)
class Template:
    """A hypothetical node, and the slices that its driver publishes.

    ``form``: hardware and mode in ``--fleet`` syntax (``8xa100-40gb/static-mig=1g.5gb:7``); empty without
    GPUs. ``runtime_only``: attributes (``uuid``, ``resource.kubernetes.io/pcieRoot``) whose values here are symbols:
    equal symbols stand for equal values, and a selector must not read them. ``unmeasured``: those of them where
    different symbols may stand for equal values, because it is unknown which GPUs of the type share a root or a NUMA
    node: ``matchAttribute`` cannot rely on them, and ``distinctAttribute`` must not.
    """

    instance: InstanceType
    form: str
    node: Node
    slices: tuple[ResourceSlice, ...]
    runtime_only: frozenset[str]
    unmeasured: frozenset[str] = frozenset()
