"""Which part of a node's hardware each of its devices is: what a claim that holds it has of the node's price.

A node's price is borne by its accelerators: devices with memory, if it has any, else all devices. Each piece of
hardware (a GPU) bears as much as the next, whatever the devices are into which it is cut. A partition that draws on
counters has the largest part that it takes of any of them (the slices of a memory are one); others share their piece by
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

#: Capacities by which a device is an accelerator; the second is that of a GPU handed to a virtual machine.
_MEMORY: Final = ("memory", "addressableMemory")
_NUMBER: Final = re.compile(r"[-_]?[0-9]+$")
#: Attributes by which devices are known to be of one piece of hardware.
_PIECES: Final = ("parentUUID", "resource.kubernetes.io/pciBusID", "pciBusID")


class Parts(NamedTuple):
    """``of``: by number of the device, which part it is of which pieces. ``pieces``: how many bear the price."""

    of: tuple[tuple[tuple[Hashable, float], ...], ...]
    pieces: int


def parts(records: Sequence[DeviceRecord], counters: Mapping[tuple[PoolID, str], CounterSet]) -> Parts:
    """The parts of a node's own devices; ``counters`` are its counter sets by pool and name."""
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
    pieces = {piece for one in found for piece, _ in one}
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
    """The name of a counter without the number at its end: drivers have one for each place in the hardware.

    >>> unnumbered("memory-slice-3"), unnumbered("multiprocessors")
    ('memory-slice', 'multiprocessors')
    """
    return _NUMBER.sub("", counter) or counter
