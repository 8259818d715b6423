"""``ClusterSnapshot``: the objects of a cluster, facts about its server, and the resources that could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.server_facts import facts_among
from allotment.permissions.access_reviews import AccessRequest
from allotment.tools.doctor.object_state import latest_time, time_of
from allotment.tools.doctor.objects import Event, Lease, Node, Pod, ResourceQuota

#: Kinds that every snapshot from ``kubectl get`` contains; an absent kind has no objects.
_REQUIRED_KINDS: Final[Mapping[str, type[Object]]] = {
    "nodes": Node, "pods": Pod, "resourceslices": ResourceSlice, "deviceclasses": DeviceClass,
    "resourceclaims": ResourceClaim, "resourceclaimtemplates": ResourceClaimTemplate,
}  # fmt: skip
#: Kinds that a snapshot may lack; an absent kind is unknown.
_OPTIONAL_KINDS: Final[Mapping[str, type[Object]]] = {
    "devicetaintrules": DeviceTaintRule, "events": Event, "resourcequotas": ResourceQuota, "leases": Lease,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at the time ``now``. ``None`` means unknown, which no check treats as absent."""

    features: Features
    """The modeled release with the known feature gates."""
    values: Sequence[Object] = ()
    now: datetime | None = None
    version: str = ""
    """The version of the API server: ``v1.36.3``."""
    served: Mapping[str, Sequence[str]] | None = None
    """Versions of ``resource.k8s.io`` and of PodGroups by resource, preferred first."""
    gates: Mapping[str, bool] | None = None
    """Feature gates of the API server, from its metrics."""
    denied: Sequence[AccessRequest] | None = None
    """Permissions of the read-only tools that the user does not have."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """The reason by resource (``pods``) or topic that could not be read."""


def snapshot_of(
    features: Features,
    values: Iterable[Object],
    denied: Sequence[AccessRequest] | None = None,
    denied_unknown: str = "",
) -> ClusterSnapshot:
    """A snapshot from the objects of a cluster, which may include `ServerFacts`.

    ``denied_unknown``: the reason why ``denied`` is unknown.
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
