"""The shape of a pending pod: everything that its answer depends on except names.

Replicas have one shape, so one of them is explained for all. Pods of one shape that fit are still placed one by one,
because each takes devices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from allotment.explanation.origin_mapping import HASH_LABEL
from allotment.model.core import Pod, PodSpec
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate

_encode = msgspec.json.Encoder(enc_hook=str, order="sorted").encode


class PodShape(NamedTuple):
    """``request``: what the pod requests, without names of objects. The rest are the names in its answer's changes."""

    request: bytes
    namespace: str
    owner: str
    revision: str
    references: bytes

    @property
    def digest(self) -> str:
        """A short text that is equal for pods with equal requests, also in other processes and namespaces."""
        return hashlib.sha256(self.request).hexdigest()[:12]


class PodShapes:
    """Determines shapes. Specs that several objects share are encoded once."""

    def __init__(
        self, claims: Mapping[ObjectKey, ResourceClaim], templates: Mapping[ObjectKey, ResourceClaimTemplate]
    ) -> None:
        self._claims = claims
        self._templates = templates
        self._encoded: dict[int, tuple[object, bytes]] = {}

    def of(self, pod: Pod, owner: str) -> PodShape:
        """The shape of a pod of a workload."""
        spec, namespace = pod.spec, pod.metadata.namespace
        named = {status.name: status.resource_claim_name or "" for status in pod.status.resource_claim_statuses}
        requests: list[object] = []
        for entry in spec.resource_claims:
            template = self._templates.get(ObjectKey(namespace, entry.resource_claim_template_name or ""))
            claim = self._claims.get(ObjectKey(namespace, entry.resource_claim_name or named.get(entry.name, "")))
            requests.append((entry.name, *self._request(template, claim), named.get(entry.name) is None))
        nameless = replace(spec, resource_claims=())
        request = b"\0".join((self._bytes_of(spec, nameless), *map(_encode, requests)))
        references = _encode([spec.resource_claims, [s for s in pod.status.resource_claim_statuses if not s.name]])
        return PodShape(request, namespace, owner, pod.metadata.labels.get(HASH_LABEL, ""), references)

    def _request(self, template: ResourceClaimTemplate | None, claim: ResourceClaim | None) -> tuple[object, ...]:
        """The meaning of a pod's reference. An allocated claim is not the same as an equal one."""
        wanted = template.spec.spec if template is not None else None
        of_template = self._bytes_of(wanted, wanted) if wanted is not None else b""
        if claim is None:
            return (of_template, "missing")
        same = str(claim.key) if claim.status.allocation is not None else ""
        return (of_template, self._bytes_of(claim.spec, claim.spec), same)

    def _bytes_of(self, kept: PodSpec | object, value: object) -> bytes:
        """The encoding of a value, cached for the object from which it is made."""
        if id(kept) not in self._encoded:
            self._encoded[id(kept)] = (kept, _encode(value))
        return self._encoded[id(kept)][1]
