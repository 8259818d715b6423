"""Resolves the entries of pods' ``resourceClaims`` to claims and templates of the files or the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from allotment.explanation.references import Candidates, Known, find_candidates
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from allotment.tools.check.bundle import Bundle
from allotment.tools.views import ClaimView, EntryView, PodView, at, mapping, text

#: The request names of a claim, each with the names of its alternatives.
RequestNames = Mapping[str, tuple[str, ...]]


class ClaimReference(NamedTuple):
    """An entry of a pod and the object it names: ``view`` in the files, ``stored`` in the cluster. Files take
    precedence.
    """

    pod: PodView
    entry: EntryView
    view: ClaimView | None
    stored: ResourceClaim | ResourceClaimTemplate | None

    @property
    def key(self) -> ObjectKey:
        """The namespace and name of the referenced object."""
        return ObjectKey(self.pod.key.namespace, self.entry.refers_to)

    @property
    def exists(self) -> bool:
        """Whether the object is in the files or in the cluster."""
        return self.view is not None or self.stored is not None

    @property
    def description(self) -> str:
        """The referenced object in a message: ``template single-gpu``."""
        return f"{'template' if self.entry.kind == 'ResourceClaimTemplate' else 'claim'} {self.entry.refers_to}"


def claim_references(bundle: Bundle) -> Iterator[ClaimReference]:
    """All claim references of all pods."""
    for pod in bundle.pods:
        yield from references_of_pod(bundle, pod)


def references_of_pod(bundle: Bundle, pod: PodView) -> Iterator[ClaimReference]:
    """The claim references of a pod."""
    for entry in pod.entries:
        if entry.refers_to:
            key = ObjectKey(pod.key.namespace, entry.refers_to)
            stored = bundle.cluster_claims if entry.kind == "ResourceClaim" else bundle.cluster_templates
            yield ClaimReference(pod, entry, bundle.claims_by_key.get((entry.kind, key)), stored.get(key))


def candidates_of(bundle: Bundle, reference: ClaimReference) -> Candidates:
    """The objects of the files or the cluster that a broken reference may mean.

    A fragment has none in other namespaces, because its own is unknown.
    """
    found = find_candidates(reference.entry.kind, reference.key, bundle.cached(_known))
    return found if reference.pod.document.kind else found._replace(namespaces=())


def _known(bundle: Bundle) -> Known:
    stored = {"ResourceClaim": bundle.cluster_claims, "ResourceClaimTemplate": bundle.cluster_templates}
    return {
        kind: {*keys, *(key for given, key in bundle.claims_by_key if given == kind)} for kind, keys in stored.items()
    }


def request_names(target: ClaimReference) -> RequestNames | None:
    """The requests of the claim; None if the claim is unknown or one of its requests has no name."""
    if target.view is not None:
        return names_in_claim(target.view)
    stored = target.stored
    if stored is None:
        return None
    spec: ResourceClaimSpec = stored.spec if isinstance(stored, ResourceClaim) else stored.spec.spec
    return {r.name: tuple(sub.name for sub in r.first_available) for r in spec.devices.requests}


def names_in_claim(claim: ClaimView) -> RequestNames | None:
    """The requests of a claim as written; None if there are none or one of them has no name."""
    names: dict[str, tuple[str, ...]] = {}
    for request in claim.requests:
        main, _, alternative = request.name.partition("/")
        if not main:
            return None
        names[main] = (*names.get(main, ()), alternative) if alternative else names.get(main, ())
    return names or None


def compute_domain_templates(bundle: Bundle) -> frozenset[ObjectKey]:
    """Templates that a controller creates for the ComputeDomains of the files."""
    return frozenset(
        ObjectKey(
            text(mapping(document.tree.get("metadata")).get("namespace")) or bundle.namespace,
            text(at(document.tree, ("spec", "channel", "resourceClaimTemplate", "name"))),
        )
        for document in bundle.documents
        if document.kind == "ComputeDomain"
    )


def has_namespace(view: PodView | ClaimView) -> bool:
    """Whether the object sets its namespace explicitly."""
    return bool(text(mapping(view.document.tree.get("metadata")).get("namespace")))


def qualified_name(view: PodView | ClaimView) -> str:
    """Kind, namespace and name: ``Deployment ml/server``; a pod fragment has no name."""
    return f"{view.kind} {view.key}" if view.key.name else f"{view.kind} (no name)"


def as_label(name: str) -> str:
    """The name of a request as a DNS label; empty if no valid characters remain.

    >>> as_label("gpu_a"), as_label("myGPU.0")
    ('gpu-a', 'my-gpu-0')
    """
    humps = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    return re.sub(r"[^a-z0-9]+", "-", humps.lower()).strip("-")[:63].strip("-")
