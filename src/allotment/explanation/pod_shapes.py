"""The shape of a pending pod: everything that its answer depends on except names.

Replicas have one shape, so one of them is explained for all. Pods of one shape that fit are still placed one by one,
because each takes devices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
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


class _Reference(NamedTuple):
    """A pod's reference to devices, and what it means. ``name``: of the reference."""

    name: str
    template_key: ObjectKey
    claim_key: ObjectKey
    template: ResourceClaimTemplate | None
    claim: ResourceClaim | None


class _KnownShape(NamedTuple):
    """The shape of a pod of a workload."""

    pod: Pod
    owner: str
    references: tuple[_Reference, ...]
    shape: PodShape


class PodShapes:
    """Determines shapes. Those of earlier clusters are used again; specs that several objects share are encoded once.

    Objects are compared by identity.
    """

    def __init__(self) -> None:
        self._claims: Mapping[ObjectKey, ResourceClaim] = {}
        self._templates: Mapping[ObjectKey, ResourceClaimTemplate] = {}
        self._before: dict[tuple[str, str], _KnownShape] = {}
        self._known: dict[tuple[str, str], _KnownShape] = {}
        self._encoded_before: dict[int, tuple[object, bytes]] = {}
        self._encoded: dict[int, tuple[object, bytes]] = {}

    def begin(
        self, claims: Mapping[ObjectKey, ResourceClaim], templates: Mapping[ObjectKey, ResourceClaimTemplate]
    ) -> None:
        """Determine the shapes of pods with these claims and templates, and forget what the last ones did not need."""
        self._claims, self._templates = claims, templates
        self._before, self._known = self._known, {}
        self._encoded_before, self._encoded = self._encoded, {}

    def of(self, pod: Pod, owner: str) -> PodShape:
        """The shape of a pod of a workload."""
        key = (pod.metadata.namespace, pod.metadata.name)
        known = self._known.get(key) or self._before.get(key)
        if known is None or known.pod is not pod or known.owner != owner or not self._is_current(known):
            references = tuple(self._references(pod))
            known = _KnownShape(pod, owner, references, self._shape(pod, owner, references))
        self._known[key] = known
        return known.shape

    def _is_current(self, known: _KnownShape) -> bool:
        """Whether the references of a pod mean the same objects as before."""
        return all(
            self._templates.get(template_key) is template and self._claims.get(claim_key) is claim
            for _, template_key, claim_key, template, claim in known.references
        )

    def _references(self, pod: Pod) -> Iterator[_Reference]:
        namespace = pod.metadata.namespace
        named = _named_claims(pod)
        for entry in pod.spec.resource_claims:
            template = ObjectKey(namespace, entry.resource_claim_template_name or "")
            claim = ObjectKey(namespace, entry.resource_claim_name or named.get(entry.name, ""))
            yield _Reference(entry.name, template, claim, self._templates.get(template), self._claims.get(claim))

    def _shape(self, pod: Pod, owner: str, references: Iterable[_Reference]) -> PodShape:
        spec, named = pod.spec, _named_claims(pod)
        requests = [
            (each.name, *self._request(each.template, each.claim), each.name not in named) for each in references
        ]
        nameless = replace(spec, resource_claims=())
        request = b"\0".join((self._bytes_of(spec, nameless), *map(_encode, requests)))
        written = _encode([spec.resource_claims, [s for s in pod.status.resource_claim_statuses if not s.name]])
        return PodShape(request, pod.metadata.namespace, owner, pod.metadata.labels.get(HASH_LABEL, ""), written)

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
        found = self._encoded.get(id(kept)) or self._encoded_before.get(id(kept)) or (kept, _encode(value))
        self._encoded[id(kept)] = found
        return found[1]


def _named_claims(pod: Pod) -> dict[str, str]:
    """The claims that were generated for a pod, by the names of its references."""
    return {status.name: status.resource_claim_name or "" for status in pod.status.resource_claim_statuses}
