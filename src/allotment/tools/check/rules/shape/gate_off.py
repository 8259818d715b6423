"""S110: an object needs a Kubernetes feature gate that is disabled."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.field_history import release_advice
from allotment.model.loading import Document
from allotment.phrases import counted
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.api_versions import is_group, is_served_by_default, newest_version, versions_for
from allotment.tools.check.objects.field_shapes import version_of
from allotment.tools.check.objects.gates import RequiredGate, disabled_gates, gate_exists, gates_to_enable, stage_text
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
    owner = f" of a {document.kind}" if is_group(document) or path[-1] == "scheduling" else ""
    subject = document.kind if is_kind else f"{path[-1]}{owner}"
    more = len(required.paths) - 1
    if more:
        subject += f" (here and in {counted(more, 'more place')})"
    message = f"{subject} needs feature gate {gate}, {stage_text(gate, features)}"
    if not gate_exists(gate, features):
        kind, kube = document.kind, features.kube
        since = "" if is_kind else release_advice(document.api_version, kind, path, kube)
        unknown = f"the API server does not know the {'kind' if is_kind else 'field'}, and rejects it"
        help_text = f"{since}: the API server rejects it" if since else unknown
        return RuleMatch(document, path, message, help=help_text, level="error", at_key=not is_kind)
    help_text = f"{required.effect.result}; {_how_to_enable(bundle, document, gate, is_kind)}"
    return RuleMatch(document, path, message, help=help_text, level=level, at_key=not is_kind)


def _how_to_enable(bundle: Bundle, document: Document, gate: str, is_kind: bool) -> str:
    """The advice to enable the gate, the gates that it requires, and the API version."""
    kube = bundle.features.kube
    gates = ",".join(f"{name}=true" for name in gates_to_enable(gate, bundle.features))
    advice = f"enable the gate with --feature-gates={gates} on all components"
    if not is_kind and not is_group(document):
        return advice
    # The version as written, if the release has it; otherwise the one that the fix of its version writes.
    newest, version = newest_version(document, kube), version_of(document)
    lifetime = versions_for(document).get(version)
    version = version if lifetime is not None and lifetime.exists_in(kube) else newest
    if is_served_by_default(document, version, kube):
        return advice
    return f"{advice}, and the API with --runtime-config={document.api_version.partition('/')[0]}/{version}=true"


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
