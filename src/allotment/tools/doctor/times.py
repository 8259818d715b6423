"""Times of objects: when, and what the newest of them is, for that is the moment at which a snapshot was taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from allotment.model.meta import Object
from allotment.model.resource import ResourceClaim
from allotment.tools.doctor.objects import Event, Lease, Node, Pod


def moment_of(text: str | None) -> datetime | None:
    """A time of an object; None where there is none, or none that can be read."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def newest(values: Iterable[Object]) -> datetime | None:
    """The last moment of which any object knows."""
    texts = {text for value in values for text in _times(value) if text}
    return max(filter(None, map(moment_of, texts)), default=None)


def _times(value: Object) -> Iterator[str | None]:
    yield value.metadata.creation_timestamp
    if isinstance(value, Event):
        yield from (value.last_timestamp, value.event_time)
    elif isinstance(value, Lease):
        yield value.spec.renew_time
    elif isinstance(value, Pod | Node):
        yield from (condition.last_transition_time for condition in value.status.conditions)
    elif isinstance(value, ResourceClaim) and value.status.allocation is not None:
        yield value.status.allocation.allocation_timestamp
