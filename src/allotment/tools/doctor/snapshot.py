"""What an examination works on: objects of a cluster, what its server says of itself, and what could not be seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.tools.doctor.object_state import latest_time, time_of
from allotment.tools.doctor.objects import Event, Lease, Node, Pod, ResourceQuota
from allotment.tools.doctor.server_facts import facts_among
from allotment.tools.permissions.access_reviews import AccessRequest

#: What ``kubectl get`` gives of a cluster as we ask people for it; an absent kind is one of which there is none.
_REQUIRED_KINDS: Final[Mapping[str, type[Object]]] = {
    "nodes": Node, "pods": Pod, "resourceslices": ResourceSlice, "deviceclasses": DeviceClass,
    "resourceclaims": ResourceClaim, "resourceclaimtemplates": ResourceClaimTemplate,
}  # fmt: skip
#: Of these absence says nothing.
_OPTIONAL_KINDS: Final[Mapping[str, type[Object]]] = {
    "devicetaintrules": DeviceTaintRule, "events": Event, "resourcequotas": ResourceQuota, "leases": Lease,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster of nearly one moment, ``now``. What is ``None`` is not known, and no check takes it for absent."""

    features: Features
    """The release as it is modelled, and gates that are known to differ."""
    values: Sequence[Object] = ()
    now: datetime | None = None
    version: str = ""
    """The API server's, as it says: ``v1.36.3``."""
    served: Mapping[str, Sequence[str]] | None = None
    """Versions of ``resource.k8s.io`` and of PodGroups by resource, the preferred first."""
    gates: Mapping[str, bool] | None = None
    """Feature gates of the API server, as its metrics say."""
    denied: Sequence[AccessRequest] | None = None
    """What we may not do of what the read-only tools need."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """What could not be looked at, by resource (``pods``) or topic, and why."""


def snapshot_of(
    features: Features, values: Iterable[Object], denied: Sequence[AccessRequest] | None = None, denied_unknown: str = ""
) -> ClusterSnapshot:
    """From the objects of a cluster; what its server says of itself, if anything, is among them.

    ``unasked``: why ``denied`` is not known.
    """
    listed = tuple(values)
    facts = facts_among(listed)
    unread = {"permissions": denied_unknown} if denied is None else {}
    if facts is not None:
        return ClusterSnapshot(
            features=features, values=listed, now=time_of(facts.taken), version=facts.version,
            served=facts.served, gates=facts.gates or None, denied=denied, unread={**facts.unread, **unread},
        )  # fmt: skip
    kinds = {type(value) for value in listed}
    absent = [name for name, kind in _OPTIONAL_KINDS.items() if kind not in kinds]
    unread |= dict.fromkeys(absent, "not in the snapshot")
    unread |= dict.fromkeys(("gates", "served"), "not in the snapshot")
    return ClusterSnapshot(features=features, values=listed, now=latest_time(listed), unread=unread)
