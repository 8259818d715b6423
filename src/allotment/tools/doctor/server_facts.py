"""What a server says of itself, as an object that a snapshot keeps among those of the cluster.

So a snapshot is examined, and explained, as the cluster was: with its release, its gates, and the moment at which it
was taken. Whoever does not know the kind passes over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.model.features import GATED_RESOURCES, GATES, Features, modelled_release
from allotment.model.fields import GROUP
from allotment.model.known_versions import KNOWN_VERSIONS
from allotment.model.meta import Object

API_VERSION: Final = "allotment.dev/v1"
KIND: Final = "ServerFacts"


class ServerFacts(Object, frozen=True):
    """Facts that no object of a cluster tells. ``taken``: when the snapshot was taken.

    ``version``: as the API server says (``v1.36.3``). ``served``: versions of ``resource.k8s.io`` and of PodGroups by
    resource, the preferred first. ``gates``: those of devices, as the API server's metrics say; none if they could not
    be read. ``unread``: what could not be read, by resource or topic, and why.
    """

    taken: str = ""
    version: str = ""
    served: dict[str, tuple[str, ...]] = {}
    gates: dict[str, bool] = {}
    unread: dict[str, str] = {}


def facts_among(values: Iterable[Object]) -> ServerFacts | None:
    """What a snapshot says of its server, if it does."""
    return next((value for value in values if isinstance(value, ServerFacts)), None)


def features_of(facts: ServerFacts) -> Features:
    """The release, or the one that stands for it, with the gates that it says or that show in what it serves."""
    reported = {name: on for name, on in facts.gates.items() if name in GATES}
    return Features(modelled_release(facts.version), {**served_gates(facts), **reported})


def served_gates(facts: ServerFacts) -> dict[str, bool]:
    """Gates that are on, for the server serves what it would not without them."""
    return {gate: True for plural, gate in GATED_RESOURCES.items() if facts.served.get(plural)}


def serves_devices(facts: ServerFacts) -> bool:
    """Whether the server has ``resource.k8s.io``, in whichever version."""
    return any((GROUP, plural) in KNOWN_VERSIONS for plural in facts.served)


def release_note(facts: ServerFacts) -> str:
    """What to know where another release than the cluster's is what it is answered as; empty if none is."""
    release = modelled_release(facts.version)
    if not facts.version or facts.version.removeprefix("v").startswith(f"{release}."):
        return ""
    return f"the cluster is Kubernetes {facts.version}, which is answered as if it were {release}"
