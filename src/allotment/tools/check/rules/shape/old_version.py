"""S101: an API version that the cluster does not serve, or does not serve by default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from allotment.model.editing.edits import Edit, Lift, Nest, Remove, SetValue
from allotment.model.fields import GROUP
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.api_versions import FLAT_VERSIONS, HUB, VERSIONS, newest_version
from allotment.tools.check.objects.classic_dra import is_classic
from allotment.tools.check.objects.field_shapes import version_of
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.views import at, is_dra, items, mapping

FLAT_FIELDS: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
)  # fmt: skip
#: Fields that v1alpha3 had for controllers of classic DRA; no component reads them.
_REMOVED_FIELDS: Final[dict[str, tuple[Path, ...]]] = {
    "ResourceClaim": (("spec", "controller"),),
    "ResourceClaimTemplate": (("spec", "spec", "controller"),),
    "DeviceClass": (("spec", "suitableNodes"),),
}


def reshape_to_v1(document: Document, version: str) -> Iterator[Edit]:
    """The edits that convert a document of ``version`` to the v1 shape; none if it has that shape already."""
    tree, kind = document.tree, document.kind
    if version == "v1alpha3":
        for path in _REMOVED_FIELDS.get(kind, ()):
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
    # In v1beta1, empty strings and zero are unset; empty lists, objects and false are not.
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


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Objects whose version is not the newest one that the release serves."""
    kube = bundle.features.kube
    for document in bundle.documents:
        kind, version = document.kind, version_of(document)
        newest = newest_version(kind, kube)
        if not newest or version == newest or not is_dra(document) or is_classic(document):
            continue
        level, message = _level_and_message(kind, version, newest, kube)
        yield RuleMatch(document, ("apiVersion",), message, fix=_fix(document, version, newest), level=level)


def _level_and_message(kind: str, version: str, newest: str, kube: str) -> tuple[Level, str]:
    lifetime = VERSIONS[kind].get(version)
    api_version = f"{GROUP}/{version}"
    if lifetime is None:
        return "error", f"{api_version} has no kind {kind}"
    if lifetime.is_removed_in(kube):
        return "error", f"Kubernetes {kube} has no {kind} in {api_version}: it was removed in {lifetime.removed}"
    if not lifetime.exists_in(kube):
        return "error", f"Kubernetes {kube} has no {kind} in {api_version} yet: it was added in {lifetime.since}"
    end = f" and is removed in {lifetime.removed}" if lifetime.removed else ""
    if newest != HUB:
        return "note", f"{api_version} is an older version of {kind}{end}"
    return "warning", f"{api_version} is not served by default{end}"


def _fix(document: Document, version: str, newest: str) -> Fix:
    edits = [SetValue(("apiVersion",), f"{GROUP}/{newest}")]
    shape = list(reshape_to_v1(document, version)) if newest == HUB and version in FLAT_VERSIONS else []
    text = f"write {GROUP}/{newest}"
    if any(isinstance(edit, Nest) for edit in shape):
        text += ", and move the requests' fields under exactly"
    if any(isinstance(edit, Lift) for edit in shape):
        text += ", and move the devices' fields out of basic"
    return Fix(text, tuple((document, edit) for edit in [*edits, *shape]), safe=True)


_BAD = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata:
  name: training
spec:
  devices:
    requests:
    - name: gpu
      # Two of them.
      deviceClassName: gpu.nvidia.com
      count: 2
"""

_GOOD = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: training
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        # Two of them.
        deviceClassName: gpu.nvidia.com
        count: 2
"""

RULE = Rule(
    code="S101",
    name="old-version",
    family="shape",
    level="warning",
    summary="the API version is not the newest one that the cluster serves",
    why=(
        "Kubernetes has served resource.k8s.io/v1 since 1.34. Alpha and beta versions are disabled unless "
        "--runtime-config enables them, and they are removed over time: v1alpha3 of claims, templates, classes and "
        "slices was removed in 1.34; v1beta1 is removed in 1.38 and v1beta2 in 1.39. kubectl then reports 'no "
        "matches for kind'. v1beta1 and v1alpha3 also have a different structure: requests have no exactly, and the "
        "fields of a device are under basic (KEP-4381)."
    ),
    bad=_BAD,
    good=_GOOD,
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/4381",
)
