"""Modes of publishing GPUs: whole, statically or dynamically partitioned, shared, or for virtual machines.

A mode is data; ``parse_mode`` parses the text that users write (``static-mig=1g.5gb:7``, ``cpx@v0``) and checks it
against the accelerator, so that a bad mode is reported before anything is generated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from allotment.decoding import decodable
from allotment.fleet.errors import FleetError, suggestion
from allotment.fleet.hardware import Hardware
from allotment.fleet.mig import MigPlacement, mig_of, parse_layout
from allotment.fleet.profiles import Accelerator, Partition

#: Attribute names of the AMD driver: ``v0`` as of 2025, ``v1`` as of 2026 (driver 1.0).
Vocabulary: TypeAlias = Literal["v0", "v1"]


@dataclass(frozen=True, slots=True)
class Full:
    """NVIDIA: whole GPUs."""


@dataclass(frozen=True, slots=True)
class StaticMig:
    """NVIDIA: fixed MIG devices. One tuple of placements per GPU; a GPU without placements stays whole."""

    layouts: tuple[tuple[MigPlacement, ...], ...]


@dataclass(frozen=True, slots=True)
class DynamicMig:
    """NVIDIA: every possible MIG device, limited by shared counters."""


@dataclass(frozen=True, slots=True)
class Vfio:
    """NVIDIA: whole GPUs for virtual machines."""


@dataclass(frozen=True, slots=True)
class ConsumableShares:
    """NVIDIA: several claims per GPU, counted but not enforced.

    By memory, where a claim without a requested amount gets all (``memory``) or none (``unlimited``), or by a number of
    shares.
    """

    shares: Literal["memory", "unlimited"] | int


@dataclass(frozen=True, slots=True)
class Shared:
    """NVIDIA, Allotment's: several claims per GPU, each limited by MPS to its requested memory (default all)."""


@dataclass(frozen=True, slots=True)
class Partitioned:
    """AMD: every GPU in one partition mode; None if the GPU has no partition modes."""

    partition: Partition | None
    vocabulary: Vocabulary


@dataclass(frozen=True, slots=True)
class AutoPartition:
    """AMD: every partition mode of every GPU is published; a GPU is switched to the mode of the allocated device."""


@dataclass(frozen=True, slots=True)
class VirtualMachines:
    """AMD: GPUs for virtual machines; if ``functions`` > 0, that many virtual functions instead of each GPU."""

    functions: int = 0


@dataclass(frozen=True, slots=True)
class ExampleMode:
    """Kubernetes' example driver: GPUs with ``partitions`` each (0: whole), ``shared`` by several claims.

    ``binding``: devices have binding conditions (KEP-5007); ``status``: the driver writes the status of allocated
    devices. ``nics`` and ``numa``: numbers of network cards and NUMA nodes that are published as devices.
    """

    partitions: int = 0
    shared: bool = False
    binding: bool = False
    status: bool = False
    nics: int = 0
    numa: int = 0


NvidiaMode: TypeAlias = Full | StaticMig | DynamicMig | Vfio | ConsumableShares | Shared
AmdMode: TypeAlias = Partitioned | AutoPartition | VirtualMachines
Mode: TypeAlias = NvidiaMode | AmdMode | ExampleMode

#: A larger number of shares is probably a typing error.
MAX_SHARES = 10_000
#: AMD models with virtual functions: PCI device id of the GPU -> PCI device id of its virtual functions.
AMD_VIRTUAL_FUNCTIONS: Final[Mapping[str, str]] = {
    "0x74a1": "0x74b5", "0x74a5": "0x74b9", "0x75a0": "0x75b0", "0x75a3": "0x75b3"
}  # fmt: skip
#: Maximum virtual functions of such a GPU: one per die.
MAX_VIRTUAL_FUNCTIONS: Final = 8


def mode_names(accelerator: Accelerator) -> tuple[str, ...]:
    """Return the names of the modes of an accelerator, without layouts and driver versions."""
    if accelerator.vendor == "nvidia":
        return (
            "full",
            *(("static-mig", "dynamic-mig") if accelerator.mig else ()),
            "shared",
            "consumable-shares",
            "vfio",
        )
    if accelerator.vendor == "example":
        return (*_EXAMPLE_FLAGS, *(f"{name}=N" for name in _EXAMPLE_NUMBERS))
    if not accelerator.partitions:
        return ("spx", "vfio")
    return (*dict.fromkeys(p.compute for p in accelerator.partitions), "auto", "vfio")


def parse_mode(text: str, machine: Hardware) -> Mode:
    """Parse the mode of a machine; an empty text is the vendor's default (whole GPUs). Raises FleetError."""
    if machine.accelerator.vendor == "nvidia":
        return _nvidia(text, machine)
    if machine.accelerator.vendor == "example":
        return _example(text, machine.accelerator)
    return _amd(text, machine.accelerator)


def _nvidia(text: str, machine: Hardware) -> NvidiaMode:
    accelerator = machine.accelerator
    kind, _, argument = text.partition("=")
    if kind in ("dynamic-mig", "static-mig"):
        mig_of(accelerator)
    if kind == "static-mig":
        return StaticMig(_layouts(argument, machine))
    mode = nvidia_mode(text)
    if mode is None:
        raise _unknown_mode(text, kind, accelerator)
    return mode


#: NVIDIA modes without an argument.
_NVIDIA_MODES: Final[Mapping[str, NvidiaMode]] = {
    "": Full(), "full": Full(), "dynamic-mig": DynamicMig(), "shared": Shared(), "vfio": Vfio()
}  # fmt: skip


def nvidia_mode(text: str) -> NvidiaMode | None:
    """Parse an NVIDIA mode without knowing the GPU; None for an unknown mode. Raises FleetError for a bad number.

    >>> nvidia_mode("consumable-shares=4")
    ConsumableShares(shares=4)
    """
    kind, _, argument = text.partition("=")
    if kind == "consumable-shares":
        return ConsumableShares(_shares(argument))
    return None if argument else _NVIDIA_MODES.get(kind)


def _shares(argument: str) -> Literal["memory", "unlimited"] | int:
    match argument:
        case "memory" | "unlimited":
            return argument
        case _ if argument.isascii() and argument.isdigit() and 0 < int(argument[:9]) <= MAX_SHARES:
            return int(argument[:9])
    raise FleetError(
        f"mode consumable-shares: expected memory, unlimited or a number from 1 to {MAX_SHARES}, found {argument!r}",
        "for example consumable-shares=4",
    )


def _layouts(argument: str, machine: Hardware) -> tuple[tuple[MigPlacement, ...], ...]:
    """Parse layouts. A single one applies to every GPU; several apply to GPU 0, 1, … and the other GPUs stay whole."""
    profiles = mig_of(machine.accelerator).profiles
    if not argument:
        example = f"{profiles[0].name}:{profiles[0].max_instances}"
        raise FleetError("mode static-mig: expected a layout", f"for example static-mig={example}")
    texts = argument.split("/")
    if len(texts) > len(machine.slots):
        raise FleetError(f"mode static-mig: {len(texts)} layouts for the {len(machine.slots)} GPUs of {machine.id}")
    parsed = tuple(parse_layout(text, machine.accelerator) for text in texts)
    return parsed * len(machine.slots) if len(parsed) == 1 else parsed + ((),) * (len(machine.slots) - len(parsed))


def _amd(text: str, accelerator: Accelerator) -> AmdMode:
    name, at, version = text.partition("@")
    if at and version not in ("v0", "v1"):
        raise FleetError(
            f"mode {text!r}: expected v0 or v1 after @, found {version!r}",
            "v0 stands for the AMD driver of 2025, v1 for that of 2026",
        )
    vocabulary: Vocabulary = "v0" if version == "v0" else "v1"
    if name.partition("=")[0] == "vfio":
        if vocabulary == "v0":
            raise FleetError(f"mode {text!r}: the AMD driver of 2025 does not support virtual machines", "use vfio@v1")
        return _virtual_machines(name, accelerator)
    compute, _, memory = (name or "spx").replace("_", "-").partition("-")
    compute = "spx" if compute == "full" else compute
    if not accelerator.partitions:
        if compute != "spx" or memory:
            raise _unknown_mode(text, compute, accelerator)
        if vocabulary == "v0":
            raise FleetError(f"mode {text!r}: the AMD driver of 2025 does not publish {accelerator.product}", "use @v1")
        return Partitioned(None, vocabulary)
    if name == "auto":
        if vocabulary == "v0":
            raise FleetError(f"mode {text!r}: the AMD driver of 2025 does not partition GPUs on demand", "use auto@v1")
        return AutoPartition()
    same = [p for p in accelerator.partitions if p.compute == compute]
    if not same:
        raise _unknown_mode(text, compute, accelerator)
    for partition in same:
        if memory in ("", partition.memory):
            return Partitioned(partition, vocabulary)
    raise FleetError(
        f"mode {text!r}: {accelerator.product} does not support memory mode {memory!r} with {compute.upper()}",
        f"the supported modes are {', '.join(f'{p.compute}-{p.memory}' for p in same)}",
    )


def _virtual_machines(text: str, accelerator: Accelerator) -> VirtualMachines:
    """Parse ``vfio``, or ``vfio=N`` with the number of virtual functions of every GPU."""
    _, equals, argument = text.partition("=")
    if not equals:
        return VirtualMachines()
    if accelerator.pci_device not in AMD_VIRTUAL_FUNCTIONS:
        raise FleetError(f"mode {text!r}: {accelerator.product} does not support virtual functions", "use vfio")
    if not (argument.isascii() and argument.isdigit() and 0 < int(argument[:9]) <= MAX_VIRTUAL_FUNCTIONS):
        raise FleetError(
            f"mode vfio: expected a number of virtual functions from 1 to {MAX_VIRTUAL_FUNCTIONS}, found {argument!r}",
            f"for example vfio={MAX_VIRTUAL_FUNCTIONS}",
        )
    return VirtualMachines(int(argument))


_EXAMPLE_FLAGS: Final = ("shared", "binding", "status")
_EXAMPLE_NUMBERS: Final = ("partitions", "nics", "numa")
#: Maximum of each number: more partitions do not fit in one slice, and none is smaller than 1Gi.
_MAX_EXAMPLE_COUNT: Final = 16


def _example(text: str, accelerator: Accelerator) -> ExampleMode:
    """Parse options joined by ``+``: ``partitions=4+shared``."""
    values: dict[str, bool | int] = {}
    for word in filter(None, text.split("+")):
        name, _, argument = word.partition("=")
        if name in _EXAMPLE_FLAGS and not argument:
            values[name] = True
        elif name in _EXAMPLE_NUMBERS:
            if not (argument.isascii() and argument.isdigit() and 0 < int(argument[:9]) <= _MAX_EXAMPLE_COUNT):
                raise FleetError(f"mode {name}: expected a number from 1 to {_MAX_EXAMPLE_COUNT}, found {argument!r}")
            values[name] = int(argument[:9])
        else:
            raise _unknown_mode(text, name, accelerator)
    return msgspec.convert(values, decodable(ExampleMode))


def _unknown_mode(text: str, kind: str, accelerator: Accelerator) -> FleetError:
    names = mode_names(accelerator)
    return FleetError(
        f"unknown mode {text!r} for {accelerator.product}",
        suggestion(kind, names) or f"its modes are {', '.join(names)}",
    )


def mode_label(mode: Mode) -> str:
    """Return a short name of a mode for node names and lists; empty for the default mode."""
    match mode:
        case Full():
            return ""
        case StaticMig():
            return "static-mig"
        case DynamicMig():
            return "dynamic-mig"
        case Vfio():
            return "vfio"
        case ConsumableShares():
            return "consumable-shares"
        case Shared():
            return "shared"
        case Partitioned(partition, _):
            return partition.compute if partition and partition.per_gpu > 1 else ""
        case AutoPartition():
            return "auto"
        case VirtualMachines():
            return "vfio"
        case ExampleMode():
            return "-".join(name for name in (*_EXAMPLE_FLAGS, *_EXAMPLE_NUMBERS) if getattr(mode, name))
