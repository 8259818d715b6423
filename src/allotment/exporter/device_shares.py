"""The share of a node's hardware that each device represents and each claim holds, to attribute its price to claims.

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
from allotment.engine.cluster.usage import Usage
from allotment.exporter.classes import class_of
from allotment.model.contested_claims import is_contested
from allotment.model.meta import ObjectKey
from allotment.model.resource import CounterSet, ResourceClaim

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


class ClaimHolder(NamedTuple):
    """A claim that holds devices for a request of a class."""

    claim: ObjectKey
    device_class: str


class NodeHoldings(NamedTuple):
    """The fraction of the node that each claim holds (0 to 1, together at most 1), and the number of pieces of
    hardware.
    """

    by_holder: Mapping[ClaimHolder, float]
    pieces: int


def node_holdings(
    records: Sequence[DeviceRecord],
    counters: Mapping[tuple[PoolID, str], CounterSet],
    usage: Usage,
    claims: Mapping[ObjectKey, ResourceClaim],
) -> NodeHoldings:
    """Return which claim holds which fraction of a node's devices."""
    share = parts(records, counters)
    by_piece: dict[Hashable, dict[ClaimHolder, float]] = {}
    for record, of in zip(records, share.of, strict=True):
        if of and usage.is_allocated(record.id):
            holders = tuple(_holders(record, usage, claims))
            for piece, part in of:
                having = by_piece.setdefault(piece, {})
                for holder, fraction in holders:
                    having[holder] = having.get(holder, 0.0) + part * fraction
    found: dict[ClaimHolder, float] = {}
    for having in by_piece.values():
        # Limited to the whole, because time-sliced shares and unevenly used counters can add up to more.
        whole = max(sum(having.values()), 1.0) * share.pieces
        for holder, part in having.items():
            found[holder] = found.get(holder, 0.0) + part / whole
    return NodeHoldings(found, share.pieces)


def _holders(
    record: DeviceRecord, usage: Usage, claims: Mapping[ObjectKey, ResourceClaim]
) -> Iterator[tuple[ClaimHolder, float]]:
    """Yield the holders of a device with their fractions; of a shared one the largest fraction consumed of any
    capacity.
    """
    every = usage.exclusive.get(record.id, ())
    # The cost of a detached claim is attributed to the current holder of the device.
    whole = tuple(key for key in every if not is_contested(claims.get(key))) or every
    for key in whole:
        yield ClaimHolder(key, class_of(claims.get(key), record.id)), 1 / len(whole)
    shares = usage.shares.get(record.id, ())
    for share in shares:
        limits = record.traits.limits
        consumed = share.consumed or {}
        parts_of = (min(amount / limits[name], 1.0) for name, amount in consumed.items() if limits.get(name))
        part = max(parts_of, default=0.0)
        yield ClaimHolder(share.claim, class_of(claims.get(share.claim), record.id)), part or 1 / len(shares)
