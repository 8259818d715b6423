"""Hardware by name: a known server, or a generic machine with any number of one accelerator.

A generic machine has no measured topology: all its GPUs are under one PCIe root and NUMA node 0, as on cloud virtual
machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from allotment.fleet.errors import FleetError, suggestion
from allotment.fleet.profiles import Accelerator, Server, Slot, accelerators, servers

#: Maximum GPUs of a machine; a module of two GPUs (MI250X) counts twice.
MAX_GPUS = 16


@dataclass(frozen=True, slots=True)
class Hardware:
    """A machine: GPU model and slots. ``order`` lists slot numbers in the order in which the driver publishes them."""

    id: str
    title: str
    accelerator: Accelerator
    slots: tuple[Slot, ...]
    order: tuple[int, ...]
    server: Server | None = None


@cache
def _accelerator_names() -> dict[str, Accelerator]:
    names: dict[str, Accelerator] = {}
    for record in accelerators().values():
        for name in (record.id, *record.aliases):
            names[name] = record
    return names


def known_names() -> tuple[str, ...]:
    """Return all names that ``hardware`` accepts: servers, then accelerators and their aliases."""
    return (*servers(), *_accelerator_names())


def hardware(name: str, gpus: int | None = None) -> Hardware:
    """Return the hardware ``name`` with its first ``gpus`` GPUs (default: all of a server, one of an accelerator).

    Raises FleetError for an unknown name or a number of GPUs that the hardware does not have.

    >>> hardware("dgx-a100-40gb", gpus=2).slots[1].pci
    '0000:0f:00.0'
    >>> hardware("t4", gpus=4).id
    '4xt4'
    """
    server = servers().get(name)
    if server is not None:
        order = server.order or tuple(range(len(server.gpus)))
        whole = Hardware(server.id, server.title, accelerators()[server.accelerator], server.gpus, order, server)
        return whole if gpus is None else _with_first_gpus(whole, gpus)
    accelerator = _accelerator_names().get(name.lower())
    if accelerator is None:
        raise _unknown_hardware(name, "a server or an accelerator", known_names())
    return _plain_machine(accelerator, name.lower(), 1 if gpus is None else gpus)


def accelerator_of(name: str) -> Accelerator:
    """Return the accelerator with an id or alias. Raises FleetError if there is none.

    >>> accelerator_of("a10g").memory_mib
    23028
    """
    accelerator = _accelerator_names().get(name.lower())
    if accelerator is None:
        raise _unknown_hardware(name, "an accelerator", tuple(_accelerator_names()))
    return accelerator


def _unknown_hardware(name: str, wanted: str, known: Iterable[str]) -> FleetError:
    return FleetError(
        f"unknown hardware {name!r}: expected {wanted}",
        suggestion(name, known) or "run `allot fleet list` for all known names",
    )


def _with_first_gpus(whole: Hardware, gpus: int) -> Hardware:
    if not 1 <= gpus <= len(whole.slots):
        raise FleetError(f"{whole.id} has {len(whole.slots)} GPUs: {gpus} requested")
    order = tuple(slot for slot in whole.order if slot < gpus)
    return replace(whole, slots=whole.slots[:gpus], order=order)


def _plain_machine(accelerator: Accelerator, name: str, gpus: int) -> Hardware:
    if not 1 <= gpus <= MAX_GPUS:
        raise FleetError(f"machine with {gpus} × {name}: expected 1 to {MAX_GPUS} GPUs")
    slots = tuple(
        # The DRM numbering leaves eight places per AMD GPU for its partitions.
        Slot(f"0000:00:{4 + n:02x}.0", 0, "pci0000:00", 1 + 8 * n, 128 + 8 * n)
        for n in range(gpus)
    )
    title = f"{gpus} × {accelerator.product}, topology unknown"
    return Hardware(name if gpus == 1 else f"{gpus}x{name}", title, accelerator, slots, tuple(range(gpus)))
