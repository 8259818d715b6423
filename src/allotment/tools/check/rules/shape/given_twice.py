"""S113: two objects of one kind and name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, Final

from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch, Level, Rule
from allotment.tools.views import is_dra, key_of

#: Kinds whose spec cannot be changed once they exist, or next to nothing of it.
_IMMUTABLE: Final = frozenset({"ResourceClaim", "ResourceClaimTemplate", "Pod", "Job"})
_CLUSTER_SCOPED: Final = frozenset(
    {"DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourcePoolStatusRequest", "Namespace", "Node"}
)


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Every object that was given before. Files of different folders are never applied as one, and may be alike."""
    first: dict[tuple[str, ...], Document] = {}
    for document in bundle.documents:
        if not document.kind or not document.name or not document.api_version:
            continue
        key = key_of(document, bundle.namespace)
        namespace = "" if document.kind in _CLUSTER_SCOPED else key.namespace
        group, folder = document.api_version.rpartition("/")[0], posixpath.dirname(document.file)
        earlier = first.setdefault((group, document.kind, namespace, key.name, folder), document)
        if earlier is not document:
            yield from _report(bundle, earlier, document, namespace)


def _report(bundle: Bundle, first: Document, document: Document, namespace: str) -> Iterator[RuleMatch]:
    same_file = first.file == document.file
    is_equal = _content(bundle, first) == _content(bundle, document)
    if is_equal and not same_file:
        return  # each file is whole by itself
    position = first.position(("metadata", "name"))
    where = f"line {position.line}" if same_file else f"{posixpath.basename(position.file)}:{position.line}"
    name = f"{namespace}/{document.name}" if namespace else document.name
    # Examples and variants that lie side by side are mostly applied one at a time.
    level: Level = "warning" if same_file and not is_equal else "note"
    help_text = "" if same_file else "unless only one of the files is applied, give one of them another name"
    if is_equal:
        consequence = "and says the same"
    elif document.kind in _IMMUTABLE:
        level, consequence = "error" if same_file else level, "with another spec, which cannot be changed"
    else:
        consequence = "and says something else; the later one replaces it"
    yield RuleMatch(
        document,
        ("metadata", "name"),
        f"{document.kind} {name} is in {where} already, {consequence}",
        help=help_text,
        level=level,
    )


def _content(bundle: Bundle, document: Document) -> Any:
    """What an object says, its metadata apart: in the v1 shape if it is one of DRA's that can be read."""
    manifest = bundle.manifests.get(document)
    if manifest is not None and is_dra(document):
        return getattr(manifest.value, "spec", None)
    return {name: value for name, value in document.tree.items() if name not in ("apiVersion", "metadata", "status")}


RULE = Rule(
    code="S113",
    name="given-twice",
    family="shape",
    level="error",
    summary="two objects of one kind have the same name",
    why=(
        "Objects of a kind are told apart by namespace and name: the second one is an update of the first. The spec of"
        " a ResourceClaim and of a ResourceClaimTemplate cannot be changed (KEP-4381), nor most of a pod's, so that the"
        " second apply fails with 'field is immutable'; of other kinds the first is lost. In different files of a"
        " folder it may be meant, if one or the other is applied."
    ),
    bad=examples.join_documents(
        examples.claim("gpu", class_name="gpu.example.com"),
        examples.claim("gpu", class_name="gpu.example.com", request_extra="count: 2"),
    ),
    good=examples.join_documents(
        examples.claim("gpu", class_name="gpu.example.com"),
        examples.claim("two-gpus", class_name="gpu.example.com", request_extra="count: 2"),
    ),
    find=_find,
    see="https://kep.k8s.io/4381",
)
