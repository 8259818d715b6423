"""``ServerFacts``: release, feature gates and served versions of an API server as an object in a snapshot.

With it, a snapshot is checked and explained with the release, gates and time of the cluster. Other tools ignore the
kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.model.features import GATES, Features, gates_of_resources, modelled_release
from allotment.model.fields import GROUP
from allotment.model.known_versions import KNOWN_VERSIONS
from allotment.model.meta import Object

API_VERSION: Final = "allotment.dev/v1"
KIND: Final = "ServerFacts"


class ServerFacts(Object, frozen=True):
    """Facts about the server that no other object contains. ``taken``: the time of the snapshot.

    ``version``: version of the API server (``v1.36.3``). ``served``: versions of ``resource.k8s.io`` and of PodGroups
    by resource, preferred first. ``gates``: feature gates of devices from the API server's metrics; empty if they could
    not be read. ``unread``: the reason by resource or topic that could not be read.
    """

    taken: str = ""
    version: str = ""
    served: dict[str, tuple[str, ...]] = {}
    gates: dict[str, bool] = {}
    unread: dict[str, str] = {}


def facts_among(values: Iterable[Object]) -> ServerFacts | None:
    """The ServerFacts of a snapshot, if it contains them."""
    return next((value for value in values if isinstance(value, ServerFacts)), None)


def features_of(facts: ServerFacts) -> Features:
    """The modeled release of the server, with its feature gates from metrics and from the served resources."""
    reported = {name: on for name, on in facts.gates.items() if name in GATES}
    return Features(modelled_release(facts.version), {**served_gates(facts), **reported})


def served_gates(facts: ServerFacts) -> dict[str, bool]:
    """Gates that must be on because the server serves a resource that depends on them."""
    return gates_of_resources({plural for plural, versions in facts.served.items() if versions})


def serves_devices(facts: ServerFacts) -> bool:
    """Whether the server has ``resource.k8s.io`` in any version."""
    return any((GROUP, plural) in KNOWN_VERSIONS for plural in facts.served)


def release_note(facts: ServerFacts) -> str:
    """A note if the cluster's release is modeled by another one; otherwise empty."""
    release = modelled_release(facts.version)
    if not facts.version or facts.version.removeprefix("v").startswith(f"{release}."):
        return ""
    return f"the cluster runs Kubernetes {facts.version}; its behavior is modeled as that of {release}"
