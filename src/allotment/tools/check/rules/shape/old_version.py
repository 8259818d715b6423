"""S101: an API version that the cluster does not serve, or only when told to."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import Lift, Nest, SetValue
from allotment.model.fields import GROUP
from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.api_versions import FLAT, HUB, VERSIONS, newest
from allotment.tools.check.objects.classic_dra import is_classic
from allotment.tools.check.objects.field_shapes import version_of
from allotment.tools.check.objects.reshaping import reshaping
from allotment.tools.check.rule import Fix, Found, Level, Rule
from allotment.tools.views import is_dra


def _find(bundle: Bundle) -> Iterator[Found]:
    """Objects in a version other than the one that the release serves."""
    kube = bundle.features.kube
    for document in bundle.documents:
        kind, version = document.kind, version_of(document)
        best = newest(kind, kube)
        if not best or version == best or not is_dra(document) or is_classic(document):
            continue
        level, message = _said(kind, version, best, kube)
        yield Found(document, ("apiVersion",), message, fix=_fix(document, version, best), level=level)


def _said(kind: str, version: str, best: str, kube: str) -> tuple[Level, str]:
    life = VERSIONS[kind].get(version)
    written = f"{GROUP}/{version}"
    if life is None:
        return "error", f"there is no {kind} in {written}"
    if life.over(kube):
        return "error", f"Kubernetes {kube} has no {kind} in {written}: removed in {life.gone}"
    if not life.in_release(kube):
        return "error", f"Kubernetes {kube} has no {kind} in {written} yet: it comes with {life.since}"
    end = f", and gone in {life.gone}" if life.gone else ""
    if best != HUB:
        return "note", f"{written} is the older one of two versions of {kind}{end}"
    return "warning", f"{written} is not served by default{end}"


def _fix(document: Document, version: str, best: str) -> Fix:
    edits = [SetValue(("apiVersion",), f"{GROUP}/{best}")]
    shape = list(reshaping(document, version)) if best == HUB and version in FLAT else []
    text = f"write {GROUP}/{best}"
    if any(isinstance(edit, Nest) for edit in shape):
        text += ", and move the requests' fields under exactly"
    if any(isinstance(edit, Lift) for edit in shape):
        text += ", and the devices' fields out of basic"
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
    summary="the API version is not the one that the cluster serves",
    why=(
        "Kubernetes serves resource.k8s.io/v1 since 1.34. Alpha and beta versions are off unless --runtime-config"
        " switches them on, and they end: v1alpha3 lost claims, templates, classes and slices in 1.34, v1beta1 goes in"
        " 1.38 and v1beta2 in 1.39. kubectl then says 'no matches for kind'. v1beta1 and v1alpha3 also wrote requests"
        " and devices in another shape: without exactly, and with a device's fields under basic (KEP-4381)."
    ),
    bad=_BAD,
    good=_GOOD,
    find=_find,
    fixable="safe",
    see="https://kep.k8s.io/4381",
)
