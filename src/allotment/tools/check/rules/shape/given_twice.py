"""S113: two objects of one kind and name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Level, Rule
from allotment.tools.views import key_of

#: Kinds whose spec cannot be changed once they exist, or next to nothing of it.
_IMMUTABLE: Final = frozenset({"ResourceClaim", "ResourceClaimTemplate", "Pod", "Job"})
_CLUSTER_SCOPED: Final = frozenset(
    {"DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourcePoolStatusRequest", "Namespace", "Node"}
)

_BAD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: gpu
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: gpu
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
        count: 2
"""
_GOOD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: gpu
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: two-gpus
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
        count: 2
"""


def find(bundle: Bundle) -> Iterator[Found]:
    """Every object that was given before."""
    first: dict[tuple[str, str, str, str], Document] = {}
    for document in bundle.documents:
        if not document.kind or not document.name or not document.api_version:
            continue
        key = key_of(document, bundle.namespace)
        namespace = "" if document.kind in _CLUSTER_SCOPED else key.namespace
        identity = (document.api_version.rpartition("/")[0], document.kind, namespace, key.name)
        known = first.setdefault(identity, document)
        if known is not document:
            yield _found(known, document, namespace)


def _found(known: Document, document: Document, namespace: str) -> Found:
    same_file = known.file == document.file
    place = known.position(("metadata", "name"))
    where = f"line {place.line}" if same_file else f"{place.file}:{place.line}"
    name = f"{namespace}/{document.name}" if namespace else document.name
    level: Level
    if _meaning(known) == _meaning(document):
        level, rest = "note", "and says the same"
        help_text = ""
    elif document.kind in _IMMUTABLE:
        # Files of one folder are often alternatives, of which only one is applied.
        level, rest = "error" if same_file else "warning", "and its spec cannot be changed"
        help_text = "Give one of them another name" + ("" if same_file else ", unless only one of the files is applied")
    else:
        level, rest = "warning", "and the later one replaces it"
        help_text = "Give one of them another name" + ("" if same_file else ", unless only one of the files is applied")
    message = f"{document.kind} {name} is in {where} already, {rest}"
    return Found(document, ("metadata", "name"), message, help=help_text, level=level)


def _meaning(document: Document) -> dict[str, Any]:
    return {field: value for field, value in document.tree.items() if field not in ("metadata", "status")}


RULE = Rule(
    code="S113",
    name="given-twice",
    family="shape",
    level="error",
    summary="Two objects of one kind have the same name",
    why=(
        "Objects of a kind are told apart by namespace and name: the second one is an update of the first. The spec of"
        " a ResourceClaim and of a ResourceClaimTemplate cannot be changed (KEP-4381), nor most of a pod's, so that the"
        " second apply fails with 'field is immutable'; of other kinds the first is lost. In different files it may be"
        " meant: one or the other is applied."
    ),
    bad=_BAD,
    good=_GOOD,
    find=find,
    see="https://kep.k8s.io/4381",
)
