"""S109: validation errors of the API server that no other rule explains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.engine.diagnosis.published_names import similar_names
from allotment.explanation.fixes import admission_fixes
from allotment.model.decoding import Manifest
from allotment.model.editing.edits import SetValue
from allotment.model.field_advice import rejected_value_advice
from allotment.model.loading import Document
from allotment.model.loading.marks import Path, split_path
from allotment.model.semver import Semver, SemverError
from allotment.model.validation.errors import ErrorType, FieldError
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.field_shapes import written_path
from allotment.tools.check.objects.gates import disabled_gates
from allotment.tools.check.objects.placeholders import is_placeholder
from allotment.tools.check.objects.validation_errors import errors_with_all_gates, errors_with_gates
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.simulation.suggested_fix import suggested_fix
from allotment.tools.views import at, mapping

_QUOTED: Final = re.compile(r'"([^"]*)"')
_CLAIMS: Final = "must be one of the names in pod.spec.resourceClaims: "


def suggest_fix(document: Document, path: Path, error: FieldError) -> Fix | None:
    """The fix with the value that was probably intended; None without a suggestion."""
    value = at(document.tree, path)
    if not isinstance(value, str):
        # An item of a list is identified by its name.
        path, value = (*path, "name"), at(document.tree, (*path, "name"))
    if not isinstance(value, str):
        return None
    suggestion, safe = (
        _complete_version(value, error) or _supported_value(value, error) or _pod_claim(value, error) or ("", False)
    )
    return Fix(f"write {suggestion}", ((document, SetValue(path, suggestion)),), safe) if suggestion else None


def _complete_version(value: str, error: FieldError) -> tuple[str, bool] | None:
    """A version with fewer than three numbers is completed with zeros."""
    if "semver.org" not in error.detail:
        return None
    try:
        return str(Semver.parse(value.strip(), normalize=True)), True
    except SemverError:
        return None


def _supported_value(value: str, error: FieldError) -> tuple[str, bool] | None:
    """The supported value that differs only in case, or the nearest one."""
    if error.type is not ErrorType.NOT_SUPPORTED:
        return None
    supported = _QUOTED.findall(error.detail)
    same_spelling = [candidate for candidate in supported if candidate.lower() == value.lower()]
    similar = same_spelling or similar_names(value, supported)
    return (similar[0], bool(same_spelling)) if len(similar) == 1 else None


def _pod_claim(value: str, error: FieldError) -> tuple[str, bool] | None:
    """The nearest claim of the pod, or the only one."""
    if error.type is not ErrorType.NOT_FOUND or not error.detail.startswith(_CLAIMS):
        return None
    names = error.detail.removeprefix(_CLAIMS).split(", ")
    similar = similar_names(value, names) or tuple(names)
    return (similar[0], False) if len(similar) == 1 else None


#: Errors that other rules explain, by field.
_COVERED_FIELDS: Final = (
    re.compile(r"devices\.requests\[\d+\](\.firstAvailable\[\d+\])?\.name$"),  # request-without-name
    re.compile(r"devices\.requests\[\d+\]\.adminAccess$"),  # admin-access-label
)
_UNKNOWN_REQUEST: Final = "must be the name of a request in the claim"


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """The API server's own errors, with its own wording."""
    for document, manifest in bundle.manifests.items():
        errors = errors_with_gates(bundle, manifest)
        if errors and any(True for _ in disabled_gates(bundle, document)):
            with_all_gates = errors_with_all_gates(bundle, manifest)
            errors = [error for error in errors if error in with_all_gates]
        advised: set[tuple[Path, str]] = set()
        for error in errors:
            if _is_covered(document, error):
                continue
            match = _report(document, written_path(document, split_path(error.path)), error)
            if match.fix is None and bundle.cluster is not None:
                match = match._replace(fix=_only_class(bundle, manifest, error))
            # Two errors with the same message for a field are one mistake.
            if (match.path, match.message) not in advised:
                advised.add((match.path, match.message))
                yield match


def _only_class(bundle: Bundle, manifest: Manifest, error: FieldError) -> Fix | None:
    """The fix that requests the only class of the cluster, if the class is missing."""
    if error.type is not ErrorType.REQUIRED:
        return None
    changes = admission_fixes(manifest.document.kind, manifest.key, [error], bundle.known_classes)
    fix = next((fix for change in changes if (fix := suggested_fix(bundle, [change])) is not None), None)
    return fix._replace(safe=False) if fix is not None else None


def _report(document: Document, path: Path, error: FieldError) -> RuleMatch:
    value = at(document.tree, path)
    if is_placeholder(value):
        message = f'"{value}" is a placeholder: unless it is replaced, the API server rejects the {document.kind}'
        return RuleMatch(document, path, message, level="note")
    advice = rejected_value_advice(path, error.body, document.tree)
    if advice is not None:
        fix = Fix(advice.fix, tuple((document, edit) for edit in advice.edits), safe=False) if advice.edits else None
        message = f"{error.path}: {advice.sentence}"
        return RuleMatch(document, path, message, help=f"Kubernetes says: {error.body}", fix=fix)
    return RuleMatch(document, path, str(error).rstrip("."), fix=suggest_fix(document, path, error))


def _is_covered(document: Document, error: FieldError) -> bool:
    if error.detail.startswith(_UNKNOWN_REQUEST) or any(pattern.search(error.path) for pattern in _COVERED_FIELDS):
        return True
    value = at(document.tree, written_path(document, split_path(error.path)))
    if isinstance(value, str):
        if error.path.endswith(".deviceClassName") and value:
            return True  # unknown-class
        if error.path.endswith((".matchAttribute", ".distinctAttribute")) and "/" not in value:
            return True  # constraint-nobody-publishes
        if error.path.endswith("].request") and "/" in value:
            return True  # no-such-request
    # The rules for CEL check all expressions except those that are too long to be compiled.
    if error.path.endswith(".cel.expression") and error.type is not ErrorType.TOO_LONG:
        return isinstance(at(document.tree, written_path(document, split_path(error.path))), str)
    pool = at(document.tree, ("spec", "pool"))
    missing = error.path in ("spec.pool.name", "spec.pool.resourceSliceCount")
    return missing and error.path.rpartition(".")[2] not in mapping(pool)


_DEVICE = """\
- name: gpu-0
  attributes:
    cudaComputeCapability:
      version: "{}"
"""

RULE = Rule(
    code="S109",
    name="refused",
    family="shape",
    level="error",
    summary="the API server rejects the object, for a reason that no other rule explains",
    why=(
        "In addition to types and field names, the API server validates the content of an object, such as the number "
        "of items, mutually exclusive fields, and the format of names. It responds with 422 Unprocessable Entity, "
        "the field path and the reason. This rule applies the same validation; its messages use the field paths of "
        "v1, whatever the version of the manifest. A message that does not say what to do is quoted after a sentence "
        "that does."
    ),
    bad=examples.resource_slice(_DEVICE.format("8.0"), node="worker-2"),
    good=examples.resource_slice(_DEVICE.format("8.0.0"), node="worker-2"),
    find=_find,
    fixable="safe or unsafe",
    see="https://github.com/kubernetes/kubernetes/tree/master/pkg/apis/resource/validation",
)
