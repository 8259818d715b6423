"""S110: what needs a feature gate of Kubernetes that is off."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.loading import Document
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Level, Rule
from allotment.tools.check.rules.shape.gates import Needed, gates_in_the_way, is_known, stage
from allotment.tools.check.rules.shape.refusing import refused_anyway, refused_for

_BAD = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu.example.com
spec:
  selectors:
  - cel:
      expression: device.driver == "gpu.example.com"
  extendedResourceName: example.com/gpu
"""
_GOOD = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu.example.com
spec:
  selectors:
  - cel:
      expression: device.driver == "gpu.example.com"
"""


def find(bundle: Bundle) -> Iterator[Found]:
    """The gates that documents need, each at the first place that needs it."""
    for document in bundle.documents:
        needed = list(gates_in_the_way(bundle, document))
        refused = bool(needed) and _is_refused(bundle, document)
        for one in needed:
            yield _found(bundle, document, one, "error" if refused else one.effect.level)


def _is_refused(bundle: Bundle, document: Document) -> bool:
    """Whether the API server refuses the object only because of gates."""
    manifest = bundle.manifests.get(document)
    if manifest is None:
        return False
    anyway = refused_anyway(bundle, manifest)
    return any(error not in anyway for error in refused_for(bundle, manifest))


def _found(bundle: Bundle, document: Document, needed: Needed, level: Level) -> Found:
    features, gate, path = bundle.features, needed.gate, needed.places[0]
    what = document.kind if path == ("kind",) else str(path[-1])
    more = f" (and {len(needed.places) - 1} more places)" if len(needed.places) > 1 else ""
    whole = path == ("kind",)
    result = needed.effect.result
    if not is_known(gate, features):
        level = "error"
        result = "the API server does not know the " + ("kind" if whole else "field, and refuses it")
    message = f"{what}{more} needs feature gate {gate}, {stage(gate, features)}: {result}"
    switch = f"--feature-gates={gate}=true on kube-apiserver, kube-scheduler, kube-controller-manager and kubelet"
    if whole or document.kind == "PodGroup":
        switch += f", and --runtime-config={document.api_version}=true on kube-apiserver"
    help_text = f"Switch it on: {switch}" if is_known(gate, features) else "Use a newer release, or do without"
    return Found(document, path, message, help=help_text, level=level, key=not whole)


RULE = Rule(
    code="S110",
    name="gate-off",
    family="shape",
    level="warning",
    summary="The object needs a feature gate that is off in the cluster's release",
    why=(
        "Fields of a feature whose gate is off are dropped on creation without an error or a warning; only objects that"
        " have them already keep them. What is left is stored and means something else, or is refused for what is"
        " missing now. Each DRA feature has its gate and its own way from alpha (off) over beta to stable; a release"
        " that does not know the field yet refuses it as unknown."
    ),
    bad=_BAD,
    good=_GOOD,
    find=find,
    see="https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/",
    kube="1.35",
)
