"""The edits that give an object of v1beta1 or v1alpha3 its v1 shape, its apiVersion apart.

The same conversion as `allotment.model.versions.to_v1`, on the document as it is written, so that comments and order
stay. A request that has ``exactly`` already and a device without ``basic`` are as v1 has them and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from allotment.model.editing.edits import Edit, Lift, Nest, Remove, SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.views import at, items, mapping

FLAT_FIELDS: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
)  # fmt: skip
#: What v1alpha3 once had for classic controllers; nothing reads it any more.
_TOMBSTONES: Final[dict[str, tuple[Path, ...]]] = {
    "ResourceClaim": (("spec", "controller"),),
    "ResourceClaimTemplate": (("spec", "spec", "controller"),),
    "DeviceClass": (("spec", "suitableNodes"),),
}


def reshaping(document: Document, version: str) -> Iterator[Edit]:
    """The edits for a document of ``version``; none where its shape is v1's."""
    tree, kind = document.tree, document.kind
    if version == "v1alpha3":
        for path in _TOMBSTONES.get(kind, ()):
            if path[-1] in mapping(at(tree, path[:-1])):
                yield Remove(path)
    if kind in ("ResourceClaim", "ResourceClaimTemplate"):
        spec: Path = ("spec",) if kind == "ResourceClaim" else ("spec", "spec")
        requests: Path = (*spec, "devices", "requests")
        for number, request in items(at(tree, requests)):
            yield from _request((*requests, number), request)
    elif kind == "ResourceSlice":
        yield from _slice(mapping(tree.get("spec")), version)


def _request(path: Path, request: dict[str, Any]) -> Iterator[Edit]:
    flat = tuple(name for name in FLAT_FIELDS if name in request)
    if not flat or "exactly" in request:
        return
    # Empty strings and zero are unset in v1beta1; empty lists, objects and false are not.
    if any(request[name] not in ("", 0, None) or request[name] is False for name in flat):
        yield Nest(path, flat, "exactly")
    else:
        yield from (Remove((*path, name)) for name in flat)


def _slice(spec: dict[str, Any], version: str) -> Iterator[Edit]:
    if spec.get("nodeName") == "":
        yield Remove(("spec", "nodeName"))
    if spec.get("allNodes") is False:
        yield Remove(("spec", "allNodes"))
    for number, device in items(spec.get("devices")):
        path: Path = ("spec", "devices", number)
        if not isinstance(device.get("basic"), dict):
            continue
        if version == "v1alpha3":
            for name, amount in mapping(device["basic"].get("capacity")).items():
                if not isinstance(amount, dict):
                    yield SetValue((*path, "basic", "capacity", name), {"value": amount})
        yield Lift((*path, "basic"))
