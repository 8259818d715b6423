"""What the entries of pods' ``resourceClaims`` lead to: a claim or template of the files, or of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from allotment.tools.check.bundle import Bundle
from allotment.tools.views import ClaimView, EntryView, PodView, at, mapping, text

#: The request names of a claim, with the names of each one's alternatives.
RequestNames = Mapping[str, tuple[str, ...]]


class Target(NamedTuple):
    """An entry of a pod, and what it names: ``view`` in the files, ``stored`` in the cluster (the files go first)."""

    pod: PodView
    entry: EntryView
    view: ClaimView | None
    stored: ResourceClaim | ResourceClaimTemplate | None

    @property
    def key(self) -> ObjectKey:
        """Where the named object has to be."""
        return ObjectKey(self.pod.key.namespace, self.entry.refers_to)

    @property
    def known(self) -> bool:
        """Whether it is there."""
        return self.view is not None or self.stored is not None

    @property
    def what(self) -> str:
        """What is named, in words: ``template single-gpu``."""
        return f"{'template' if self.entry.kind == 'ResourceClaimTemplate' else 'claim'} {self.entry.refers_to}"


def targets(bundle: Bundle) -> Iterator[Target]:
    """Every entry that names something, of every pod."""
    for pod in bundle.pods:
        yield from targets_of(bundle, pod)


def targets_of(bundle: Bundle, pod: PodView) -> Iterator[Target]:
    """Every entry of a pod that names something."""
    for entry in pod.entries:
        if entry.refers_to:
            key = ObjectKey(pod.key.namespace, entry.refers_to)
            stored = bundle.cluster_claims if entry.kind == "ResourceClaim" else bundle.cluster_templates
            yield Target(pod, entry, bundle.claims_by_key.get((entry.kind, key)), stored.get(key))


def request_names(target: Target) -> RequestNames | None:
    """The requests of the claim; None where they are not known, or one of them has no name yet."""
    if target.view is not None:
        return names_of(target.view)
    stored = target.stored
    if stored is None:
        return None
    spec: ResourceClaimSpec = stored.spec if isinstance(stored, ResourceClaim) else stored.spec.spec
    return {r.name: tuple(sub.name for sub in r.first_available) for r in spec.devices.requests}


def names_of(claim: ClaimView) -> RequestNames | None:
    """The requests of a claim as written; None if there is none, or one of them has no name."""
    found: dict[str, tuple[str, ...]] = {}
    for request in claim.requests:
        main, _, alternative = request.name.partition("/")
        if not main:
            return None
        found[main] = (*found.get(main, ()), alternative) if alternative else found.get(main, ())
    return found or None


def promised_templates(bundle: Bundle) -> frozenset[ObjectKey]:
    """Templates that a controller makes for a ComputeDomain of the files."""
    return frozenset(
        ObjectKey(
            text(mapping(document.tree.get("metadata")).get("namespace")) or bundle.namespace,
            text(at(document.tree, ("spec", "channel", "resourceClaimTemplate", "name"))),
        )
        for document in bundle.documents
        if document.kind == "ComputeDomain"
    )


def has_namespace(view: PodView | ClaimView) -> bool:
    """Whether the object says its namespace itself."""
    return bool(text(mapping(view.document.tree.get("metadata")).get("namespace")))


def named(view: PodView | ClaimView) -> str:
    """Kind and name: ``Deployment ml/server``; a fragment of a pod has no name."""
    return f"{view.kind} {view.key}" if view.key.name else f"{view.kind} (no name)"
