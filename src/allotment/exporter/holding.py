"""Who has which part of a node's hardware."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from allotment.engine.cluster.devices import DeviceRecord
from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.usage import Usage
from allotment.exporter.classes import class_of
from allotment.exporter.device_shares import parts
from allotment.model.contested_claims import is_contested
from allotment.model.meta import ObjectKey
from allotment.model.resource import CounterSet, ResourceClaim


class Holder(NamedTuple):
    """A claim that holds devices, for a request of a class."""

    claim: ObjectKey
    device_class: str


class Held(NamedTuple):
    """Which part of the node each holder has (0 to 1, at most 1 together), and how many pieces bear the price."""

    by: Mapping[Holder, float]
    pieces: int


def held(
    records: Sequence[DeviceRecord],
    counters: Mapping[tuple[PoolID, str], CounterSet],
    usage: Usage,
    claims: Mapping[ObjectKey, ResourceClaim],
) -> Held:
    """Who holds what of a node's devices."""
    share = parts(records, counters)
    by_piece: dict[Hashable, dict[Holder, float]] = {}
    for record, of in zip(records, share.of, strict=True):
        if of and usage.is_allocated(record.id):
            holders = tuple(_holders(record, usage, claims))
            for piece, part in of:
                having = by_piece.setdefault(piece, {})
                for holder, fraction in holders:
                    having[holder] = having.get(holder, 0.0) + part * fraction
    found: dict[Holder, float] = {}
    for having in by_piece.values():
        # Together they have the whole at most, though shares in time and unevenly used counters may add up to more.
        whole = max(sum(having.values()), 1.0) * share.pieces
        for holder, part in having.items():
            found[holder] = found.get(holder, 0.0) + part / whole
    return Held(found, share.pieces)


def _holders(record: DeviceRecord, usage: Usage, claims: Mapping[ObjectKey, ResourceClaim]) -> Iterator[tuple[Holder, float]]:
    """Who holds a device, and which part of it: of a shared one the largest part that it consumes of any capacity."""
    every = usage.exclusive.get(record.id, ())
    # What was set aside costs whoever has the device now.
    whole = tuple(key for key in every if not is_contested(claims.get(key))) or every
    for key in whole:
        yield Holder(key, class_of(claims.get(key), record.id)), 1 / len(whole)
    shares = usage.shares.get(record.id, ())
    for share in shares:
        limits = record.traits.limits
        consumed = share.consumed or {}
        parts_of = (min(amount / limits[name], 1.0) for name, amount in consumed.items() if limits.get(name))
        part = max(parts_of, default=0.0)
        yield Holder(share.claim, class_of(claims.get(share.claim), record.id)), part or 1 / len(shares)
