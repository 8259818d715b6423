"""The share of a node's hardware that each device represents, used to attribute the node's price to claims.

A node's price is divided among its accelerators: devices with memory if there are any, otherwise all devices. Each
piece of hardware (a GPU) accounts for the same amount, however it is divided into devices. A partition that consumes
counters accounts for its largest fraction of any of them (the slices of a memory are one); others share their piece by
their memory.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from allotment.engine.cluster.devices import DeviceRecord
from allotment.engine.cluster.identity import PoolID
from allotment.model.resource import CounterSet

#: Capacities that mark a device as an accelerator; the second is that of a GPU passed through to a virtual machine.
_MEMORY: Final = ("memory", "addressableMemory")
_NUMBER: Final = re.compile(r"[-_]?[0-9]+$")
#: Attributes that identify the piece of hardware of a device.
_PIECES: Final = ("parentUUID", "resource.kubernetes.io/pciBusID", "pciBusID")


class Parts(NamedTuple):
    """``of``: by index of the device, its fraction of each piece. ``pieces``: number of pieces that share the price."""

    of: tuple[tuple[tuple[Hashable, float], ...], ...]
    pieces: int


def parts(records: Sequence[DeviceRecord], counters: Mapping[tuple[PoolID, str], CounterSet]) -> Parts:
    """Return the parts of a node's own devices; ``counters``: its counter sets by pool and name."""
    bearing = [number for number, record in enumerate(records) if _memory(record)] or range(len(records))
    found: list[tuple[tuple[Hashable, float], ...]] = [()] * len(records)
    whole: dict[Hashable, list[int]] = {}
    for number in bearing:
        record = records[number]
        drawn = tuple(_drawn(record, counters))
        found[number] = drawn
        if not drawn:
            whole.setdefault(_piece(record), []).append(number)
    for piece, numbers in whole.items():
        memory = sum(_memory(records[number]) for number in numbers if _own_memory(records[number]))
        for number in numbers:
            own = _memory(records[number]) if _own_memory(records[number]) else 0
            found[number] = ((piece, own / memory if own else 1.0),)
    pieces = {piece for device_parts in found for piece, _ in device_parts}
    return Parts(tuple(found), len(pieces))


def _own_memory(record: DeviceRecord) -> bool:
    return _MEMORY[0] in record.traits.limits


def _memory(record: DeviceRecord) -> int:
    limits = record.traits.limits
    return next((limits[name] for name in _MEMORY if name in limits), 0)


def _piece(record: DeviceRecord) -> Hashable:
    for name in _PIECES:
        attribute = record.device.attributes.get(name)
        if attribute is not None and attribute.string:
            return record.id.driver, attribute.string
    return record.id


def _drawn(record: DeviceRecord, counters: Mapping[tuple[PoolID, str], CounterSet]) -> Iterator[tuple[Hashable, float]]:
    pool = PoolID(record.id.driver, record.id.pool)
    drawn: dict[str, dict[str, int]] = {}
    for use in record.traits.counters:
        amounts = drawn.setdefault(use.counter_set, {})
        name = unnumbered(use.counter)
        amounts[name] = amounts.get(name, 0) + use.amount
    for counter_set, amounts in drawn.items():
        known = counters.get((pool, counter_set))
        limits: dict[str, int] = {}
        for name, counter in known.counters.items() if known is not None else ():
            limits[unnumbered(name)] = limits.get(unnumbered(name), 0) + counter.value.nano
        part = max((amount / limits[name] for name, amount in amounts.items() if limits.get(name)), default=0.0)
        if part > 0:
            yield (pool, counter_set), min(part, 1.0)


@cache
def unnumbered(counter: str) -> str:
    """Return the name of a counter without its trailing number: drivers number counters by position in the hardware.

    >>> unnumbered("memory-slice-3"), unnumbered("multiprocessors")
    ('memory-slice', 'multiprocessors')
    """
    return _NUMBER.sub("", counter) or counter
