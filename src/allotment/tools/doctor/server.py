"""What a server says of itself, as an object that a snapshot keeps among those of the cluster.

So a snapshot is examined, and explained, as the cluster was: with its release, its gates, and the moment at which it
was taken. Whoever does not know the kind passes over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.model.features import GATES, RELEASES, Features
from allotment.model.meta import Object

API_VERSION: Final = "allotment.dev/v1"
KIND: Final = "ServerFacts"


class ServerFacts(Object, frozen=True):
    """Facts that no object of a cluster tells. ``taken``: when the snapshot was taken.

    ``version``: as the API server says (``v1.36.3``). ``served``: versions of ``resource.k8s.io`` by resource, the
    preferred first. ``gates``: those of devices, as the API server's metrics say; none if they could not be read.
    ``unread``: what could not be read, by resource or topic, and why.
    """

    taken: str = ""
    version: str = ""
    served: dict[str, tuple[str, ...]] = {}
    gates: dict[str, bool] = {}
    unread: dict[str, str] = {}


def facts_among(values: Iterable[Object]) -> ServerFacts | None:
    """What a snapshot says of its server, if it does."""
    return next((value for value in values if isinstance(value, ServerFacts)), None)


def features_of(facts: ServerFacts) -> Features | None:
    """The release and gates that it says; None for a release that is not modelled."""
    release = ".".join(facts.version.removeprefix("v").split(".")[:2])
    if release not in RELEASES:
        return None
    return Features(release, {name: on for name, on in facts.gates.items() if name in GATES})
