"""S110: what needs a feature gate of Kubernetes that is off."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.loading import Document
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.gates import Needed, gates_in_the_way, is_known, stage
from allotment.tools.check.objects.validation_errors import refused_anyway, refused_for
from allotment.tools.check.rule import Found, Level, Rule


def _find(bundle: Bundle) -> Iterator[Found]:
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
    whole = path == ("kind",)
    what = document.kind if whole else f"{path[-1]}{' of a PodGroup' if document.kind == 'PodGroup' else ''}"
    others = len(needed.places) - 1
    if others:
        what += f" (here and in {others} more place{'s' if others > 1 else ''})"
    message = f"{what} needs feature gate {gate}, {stage(gate, features)}"
    if not is_known(gate, features):
        result = "the API server does not know the kind" if whole else "the API server does not know the field"
        return Found(document, path, message, help=f"{result}, and refuses it", level="error", key=not whole)
    help_text = f"{needed.effect.result}; {_switch(document, gate, whole)}"
    return Found(document, path, message, help=help_text, level=level, key=not whole)


def _switch(document: Document, gate: str, whole: bool) -> str:
    """How to have it on."""
    gates = f"{gate}=true"
    if document.kind == "PodGroup":
        gates = f"GenericWorkload=true,{gates}"
    switch = f"switch it on with --feature-gates={gates} on all components"
    if whole or document.kind == "PodGroup":
        switch += f", and its API with --runtime-config={document.api_version}=true"
    return switch


RULE = Rule(
    code="S110",
    name="gate-off",
    family="shape",
    level="warning",
    summary="the object needs a feature gate that is off in the cluster's release",
    why=(
        "Fields of a feature whose gate is off are dropped on creation without an error or a warning; only objects that"
        " have them already keep them. What is left is stored and means something else, or is refused for what is"
        " missing now. Each DRA feature has its gate and its own way from alpha (off) over beta to stable; a release"
        " that does not know the field yet refuses it as unknown."
    ),
    bad=examples.device_class("gpu.example.com", 'device.driver == "gpu.example.com"')
    + "  extendedResourceName: example.com/gpu\n",
    good=examples.device_class("gpu.example.com", 'device.driver == "gpu.example.com"'),
    find=_find,
    see="https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/",
    kube="1.35",
)
