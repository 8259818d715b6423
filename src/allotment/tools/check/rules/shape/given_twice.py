"""S113: two objects have the same kind and name."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, Final

from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Level, Rule, RuleMatch
from allotment.tools.views import is_dra, key_of

#: Kinds whose spec is immutable, or almost.
_IMMUTABLE: Final = frozenset({"ResourceClaim", "ResourceClaimTemplate", "Pod", "Job"})
_CLUSTER_SCOPED: Final = frozenset(
    {"DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourcePoolStatusRequest", "Namespace", "Node"}
)


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Objects that are defined more than once. Files of different folders are not applied together and may define the
    same.
    """
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
        return  # each file is complete
    position = first.position(("metadata", "name"))
    where = f"on line {position.line}" if same_file else f"in {posixpath.basename(position.file)}:{position.line}"
    name = f"{namespace}/{document.name}" if namespace else document.name
    # Examples and variants in one folder are usually applied one at a time.
    level: Level = "warning" if same_file and not is_equal else "note"
    help_text = "" if same_file else "rename one of them, unless only one of the files is applied"
    if is_equal:
        consequence = "with the same content"
    elif document.kind in _IMMUTABLE:
        level, consequence = "error" if same_file else level, "with a different spec, which is immutable"
    else:
        consequence = "with different content; the later one replaces it"
    yield RuleMatch(
        document,
        ("metadata", "name"),
        f"{document.kind} {name} is already defined {where}, {consequence}",
        help=help_text,
        level=level,
    )


def _content(bundle: Bundle, document: Document) -> Any:
    """The content of an object without its metadata, in the v1 shape if it is a decodable DRA object."""
    manifest = bundle.manifests.get(document)
    if manifest is not None and is_dra(document):
        return getattr(manifest.value, "spec", None)
    return {name: value for name, value in document.tree.items() if name not in ("apiVersion", "metadata", "status")}


RULE = Rule(
    code="S113",
    name="given-twice",
    family="shape",
    level="error",
    summary="two objects have the same kind and name",
    why=(
        "An object is identified by kind, namespace and name: the second one updates the first. The spec of a "
        "ResourceClaim or ResourceClaimTemplate is immutable (KEP-4381), and so is most of a pod's spec, so the "
        "second kubectl apply fails with 'field is immutable'. For other kinds, the first object is overwritten. In "
        "different files of a folder, this may be intended if only one of the files is applied."
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
