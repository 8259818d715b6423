"""S110: an object needs a Kubernetes feature gate that is disabled."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.loading import Document
from allotment.phrases import counted
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.gates import RequiredGate, disabled_gates, gate_exists, stage_text
from allotment.tools.check.objects.validation_errors import errors_with_all_gates, errors_with_gates
from allotment.tools.check.rule import Level, Rule, RuleMatch


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """The disabled gates that documents need, each at the first field that needs it."""
    for document in bundle.documents:
        required = list(disabled_gates(bundle, document))
        is_rejected = bool(required) and _is_rejected(bundle, document)
        for gate in required:
            yield _report(bundle, document, gate, "error" if is_rejected else gate.effect.level)


def _is_rejected(bundle: Bundle, document: Document) -> bool:
    """Whether the API server rejects the object only because of disabled gates."""
    manifest = bundle.manifests.get(document)
    if manifest is None:
        return False
    with_all_gates = errors_with_all_gates(bundle, manifest)
    return any(error not in with_all_gates for error in errors_with_gates(bundle, manifest))


def _report(bundle: Bundle, document: Document, required: RequiredGate, level: Level) -> RuleMatch:
    features, gate, path = bundle.features, required.gate, required.paths[0]
    is_kind = path == ("kind",)
    subject = document.kind if is_kind else f"{path[-1]}{' of a PodGroup' if document.kind == 'PodGroup' else ''}"
    more = len(required.paths) - 1
    if more:
        subject += f" (here and in {counted(more, 'more place')})"
    message = f"{subject} needs feature gate {gate}, {stage_text(gate, features)}"
    if not gate_exists(gate, features):
        result = "the API server does not know the kind" if is_kind else "the API server does not know the field"
        return RuleMatch(document, path, message, help=f"{result}, and rejects it", level="error", at_key=not is_kind)
    help_text = f"{required.effect.result}; {_how_to_enable(document, gate, is_kind)}"
    return RuleMatch(document, path, message, help=help_text, level=level, at_key=not is_kind)


def _how_to_enable(document: Document, gate: str, is_kind: bool) -> str:
    """The advice to enable the gate."""
    gates = f"{gate}=true"
    if document.kind == "PodGroup":
        gates = f"GenericWorkload=true,{gates}"
    advice = f"enable the gate with --feature-gates={gates} on all components"
    if is_kind or document.kind == "PodGroup":
        advice += f", and the API with --runtime-config={document.api_version}=true"
    return advice


RULE = Rule(
    code="S110",
    name="gate-off",
    family="shape",
    level="warning",
    summary="the object needs a feature gate that is disabled in the cluster's release",
    why=(
        "When an object is created, the API server drops the fields of disabled features without an error or a "
        "warning; only existing objects keep them. The rest of the object is stored and has a different meaning, or "
        "is rejected because required content is missing. Each DRA feature has its own gate and progresses from "
        "alpha (off by default) through beta to GA; a release that does not know the field yet rejects it as unknown."
    ),
    bad=examples.device_class("gpu.example.com", 'device.driver == "gpu.example.com"')
    + "  extendedResourceName: example.com/gpu\n",
    good=examples.device_class("gpu.example.com", 'device.driver == "gpu.example.com"'),
    find=_find,
    see="https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/",
    kube="1.35",
)
