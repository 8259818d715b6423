"""Lenient views of pods and pod templates of workloads, with the paths of their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import ObjectKey
from allotment.tools.views.claims import ClaimKind
from allotment.tools.views.pod_specs import PodSpecLocation, pod_specs
from allotment.tools.views.trees import at, items, key_of, mapping, text


class EntryView(NamedTuple):
    """An entry of ``spec.resourceClaims`` with its reference to a claim or template, in any API version.

    ``name_path`` is the path of the referenced name.
    """

    path: Path
    name: str
    kind: ClaimKind
    refers_to: str
    name_path: Path


class ClaimUseView(NamedTuple):
    """An entry of a container's ``resources.claims``."""

    path: Path
    name: str
    request: str


class ContainerView(NamedTuple):
    """A container; ``limits`` and ``requests`` are its resources as written."""

    path: Path
    name: str
    init: bool
    uses: tuple[ClaimUseView, ...]
    limits: dict[str, Any]
    requests: dict[str, Any]


class PodView(NamedTuple):
    """A pod, or the pod template of a workload: ``spec`` is the path of the pod spec.

    ``replicas`` is the number of pods that run at the same time (0 for a DaemonSet: unknown). ``custom``: a third-party
    kind, which may have several pod specs: each one is a view, and ``part`` names it (``Worker``).
    """

    document: Document
    kind: str
    key: ObjectKey
    spec: Path
    tree: dict[str, Any]
    replicas: int
    entries: tuple[EntryView, ...]
    containers: tuple[ContainerView, ...]
    custom: bool = False
    part: str = ""

    @property
    def node_name(self) -> str:
        """``nodeName`` as written."""
        return text(self.tree.get("nodeName"))


def pod_views(document: Document, namespace: str = "default") -> Iterator[PodView]:
    """The pods of a document, one per pod spec; a fragment of a pod spec counts as one."""
    for location in pod_specs(document):
        yield _pod(document, namespace, location)


def _pod(document: Document, namespace: str, location: PodSpecLocation) -> PodView:
    spec = location.path
    tree = mapping(at(document.tree, spec))
    containers = [
        _container((*spec, field, number), container, field == "initContainers")
        for field in ("initContainers", "containers")
        for number, container in items(tree.get(field))
    ]
    entries = [_entry((*spec, "resourceClaims", number), entry) for number, entry in items(tree.get("resourceClaims"))]
    return PodView(
        document,
        document.kind or "Pod",
        key_of(document, namespace),
        spec,
        tree,
        location.replicas,
        tuple(entries),
        tuple(containers),
        location.custom,
        location.part,
    )


def _entry(path: Path, entry: dict[str, Any]) -> EntryView:
    # Until Kubernetes 1.31 the names were fields of `source`.
    for base, fields in (((), entry), (("source",), mapping(entry.get("source")))):
        if isinstance(fields.get("resourceClaimTemplateName"), str):
            name_path = (*path, *base, "resourceClaimTemplateName")
            named = fields["resourceClaimTemplateName"]
            return EntryView(path, text(entry.get("name")), "ResourceClaimTemplate", named, name_path)
        if isinstance(fields.get("resourceClaimName"), str):
            name_path = (*path, *base, "resourceClaimName")
            return EntryView(path, text(entry.get("name")), "ResourceClaim", fields["resourceClaimName"], name_path)
    return EntryView(path, text(entry.get("name")), "ResourceClaim", "", path)


def _container(path: Path, container: dict[str, Any], init: bool) -> ContainerView:
    resources = mapping(container.get("resources"))
    uses = [
        ClaimUseView((*path, "resources", "claims", number), text(use.get("name")), text(use.get("request")))
        for number, use in items(resources.get("claims"))
    ]
    return ContainerView(
        path,
        text(container.get("name")),
        init,
        tuple(uses),
        mapping(resources.get("limits")),
        mapping(resources.get("requests")),
    )
