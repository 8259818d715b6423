"""S101: an API version that the cluster does not serve, or does not serve by default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from allotment.model.editing.edits import Edit, Lift, Nest, Remove, RenameKey, SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.releases import release_key
from allotment.phrases import listed
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.api_versions import (
    FLAT_VERSIONS,
    HUB,
    REFUSED_SINCE,
    is_served_by_default,
    newest_version,
    versions_for,
)
from allotment.tools.check.objects.classic_dra import is_classic
from allotment.tools.check.objects.field_shapes import version_of
from allotment.tools.check.objects.group_reshaping import reshape_group
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.views import at, is_dra, items, mapping

FLAT_FIELDS: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
    "derivedAttributes",
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
    """Objects whose version is not the newest one that the release has."""
    kube = bundle.features.kube
    for document in bundle.documents:
        version, newest = version_of(document), newest_version(document, kube)
        if not newest or version == newest or is_classic(document):
            continue
        level, message = _level_and_message(document, newest, kube)
        fix = _fix(document, newest, kube)
        help_text = "" if fix else f"write it in {_group(document)}/{newest}, which has other fields"
        yield RuleMatch(document, ("apiVersion",), message, help=help_text, fix=fix, level=level)


def _level_and_message(document: Document, newest: str, kube: str) -> tuple[Level, str]:
    kind, version = document.kind, version_of(document)
    lifetime = versions_for(document).get(version)
    api_version = f"{_group(document)}/{version}"
    if lifetime is None:
        return "error", f"{api_version} has no kind {kind}"
    if lifetime.is_removed_in(kube):
        return "error", f"Kubernetes {kube} has no {kind} in {api_version}: it was removed in {lifetime.removed}"
    if not lifetime.exists_in(kube):
        return "error", f"Kubernetes {kube} has no {kind} in {api_version} yet: it was added in {lifetime.since}"
    end = f" and is removed in {lifetime.removed}" if lifetime.removed else ""
    if not is_served_by_default(document, newest, kube):
        return "note", f"{api_version} is an older version of {kind}{end}"
    level: Level = "error" if release_key(kube) >= release_key(REFUSED_SINCE) else "warning"
    return level, f"{api_version} is not served by default{end}"


def _group(document: Document) -> str:
    return document.api_version.partition("/")[0]


def _fix(document: Document, newest: str, kube: str) -> Fix | None:
    version, target = version_of(document), f"{_group(document)}/{newest}"
    if not is_dra(document):
        edits = reshape_group(document, target, kube)
        return Fix(f"write {target}{_group_changes(edits)}", _of(document, edits), safe=True) if edits else None
    shape = list(reshape_to_v1(document, version)) if newest == HUB and version in FLAT_VERSIONS else []
    text = f"write {target}"
    if any(isinstance(edit, Nest) for edit in shape):
        text += ", and move the requests' fields under exactly"
    if any(isinstance(edit, Lift) for edit in shape):
        text += ", and move the devices' fields out of basic"
    return Fix(text, _of(document, [SetValue(("apiVersion",), target), *shape]), safe=True)


def _of(document: Document, edits: Iterable[Edit]) -> tuple[tuple[Document, Edit], ...]:
    return tuple((document, edit) for edit in edits)


def _group_changes(edits: Iterable[Edit]) -> str:
    """The changes of a group other than its version, as the end of a sentence."""
    renamed = {edit.path[-1]: edit.name for edit in edits if isinstance(edit, RenameKey) and len(edit.path) == 2}
    changes = [f"{name} in place of {old}" for old, name in renamed.items()]
    if any(isinstance(edit, SetValue) and edit.path[-1] == "disruptionMode" for edit in edits):
        changes.append("disruptionMode in its form")
    return f", with {listed(changes)}" if changes else ""


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
    level="error",
    summary="the API version is not the newest one that the cluster serves",
    why=(
        "Kubernetes has served resource.k8s.io/v1 since 1.34. Alpha and beta versions are disabled unless "
        "--runtime-config enables them, and they are removed over time: v1alpha3 of claims, templates, classes and "
        "slices was removed in 1.34; v1beta1 is removed in 1.38 and v1beta2 in 1.39. kubectl then reports 'no "
        "matches for kind'. v1beta1 and v1alpha3 also have a different structure: requests have no exactly, and the "
        "fields of a device are under basic (KEP-4381). Because v1beta1 is about to be removed, a version that is not "
        "served by default is an error for 1.37 and later. DeviceTaintRule is in v1 since 1.37. In scheduling.k8s.io, "
        "1.37 replaced v1alpha2 of PodGroup and Workload by v1beta1, which refers to a template with workloadRef and "
        "has an object as disruptionMode (KEP-4671)."
    ),
    bad=_BAD,
    good=_GOOD,
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/4381",
    kube="1.37",
)
