"""The share of a node's hardware that each claim holds."""

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
