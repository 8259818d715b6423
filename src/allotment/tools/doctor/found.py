"""What an examination works on: objects of a cluster, what its server says of itself, and what could not be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.tools.permissions.asking import Ask


@dataclass(frozen=True, slots=True)
class Found:
    """A cluster of nearly one moment, ``now``. What is ``None`` is not known, and no check takes it for absent."""

    features: Features
    """The release as it is modelled, and gates that are known to differ."""
    values: Sequence[Object] = ()
    now: datetime | None = None
    version: str = ""
    """The API server's, as it says: ``v1.36.3``."""
    served: Mapping[str, Sequence[str]] | None = None
    """Versions of ``resource.k8s.io`` by resource, the preferred first."""
    gates: Mapping[str, bool] | None = None
    """Feature gates of the API server, as its metrics say."""
    denied: Sequence[Ask] | None = None
    """What we may not do of what the read-only tools need."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """What could not be looked at, by resource (``pods``) or topic, and why."""
