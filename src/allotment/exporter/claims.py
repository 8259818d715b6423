"""Metrics of claims by state, and of pending pods by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from allotment.exporter.causes import NO_POD, UNEXAMINED, claims_of
from allotment.exporter.definitions import CLAIMS, OLDEST_PENDING, PENDING_CLAIMS, PENDING_PODS
from allotment.exporter.metric import Family, Sample
from allotment.exporter.state import ExporterState
from allotment.model.contested_claims import is_contested
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim

#: States of claims.
STATES: Final = ("pending", "allocated", "reserved", "contested", "deleting")


def state_of(claim: ResourceClaim) -> str:
    """Return the most relevant state: a claim that is being deleted may still hold its devices."""
    if claim.metadata.deletion_timestamp is not None:
        return "deleting"
    if claim.status.allocation is None:
        return "pending"
    if is_contested(claim):
        return "contested"
    return "reserved" if claim.status.reserved_for else "allocated"


def claims(state: ExporterState, causes: Mapping[ObjectKey, str]) -> Iterator[Family]:
    """Yield the metric families; ``causes`` by pod."""
    counts: Counter[tuple[str, str]] = Counter()
    for key, claim in state.claims.items():
        counts[key.namespace, state_of(claim)] += 1
    namespaces = sorted({namespace for namespace, _ in counts})
    yield Family(
        CLAIMS, [Sample((name, state_name), counts[name, state_name]) for name in namespaces for state_name in STATES]
    )
    named = {
        claim: causes.get(pod, UNEXAMINED) for pod, value in state.pending_pods.items() for claim in claims_of(value)
    }
    pending = Counter(
        (key.namespace, named.get(key, NO_POD)) for key, claim in state.claims.items() if state_of(claim) == "pending"
    )
    yield Family(PENDING_CLAIMS, _samples(pending))
    pods = Counter((key.namespace, causes.get(key, UNEXAMINED)) for key in state.pending_pods)
    yield Family(PENDING_PODS, _samples(pods))
    oldest: dict[str, float] = {}
    for key, pod in state.pending_pods.items():
        created = pod.metadata.creation_timestamp
        if created:
            cause, at = causes.get(key, UNEXAMINED), datetime.fromisoformat(created).timestamp()
            oldest[cause] = min(oldest.get(cause, at), at)
    yield Family(OLDEST_PENDING, [Sample((cause,), oldest[cause]) for cause in sorted(oldest)])


def _samples(counts: Mapping[tuple[str, str], int]) -> list[Sample]:
    return [Sample(labels, count) for labels, count in sorted(counts.items())]
