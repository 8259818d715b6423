"""S106: fields that the kind does not have."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.explanation.references import REFERENCE_FIELDS
from allotment.model.editing.edits import Edit, Lift, Nest, RenameKey
from allotment.model.field_advice import unknown_field_advice
from allotment.model.meta import ObjectKey
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.decoding_errors import AttributedError, decoding_errors_for
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at, mapping


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Unknown fields that no other rule explains."""
    for error in decoding_errors_for(bundle, "unknown-field"):
        misfit, struct = error.misfit, error.struct
        where = struct.bare_name if struct is not None and struct.bare_name else error.document.kind
        if where == "ResourceClaim" and error.document.kind != where:
            where = "an item of resources.claims"  # Go has two types of this name
        fix = _fix(error) or _claim_of_pod(bundle, error)
        hint = "only a template has a spec inside its spec" if _is_second_spec(error) else misfit.hint
        yield RuleMatch(
            error.document, misfit.path, f'{where} has no field "{misfit.path[-1]}"', help=hint, fix=fix, at_key=True
        )


def _is_second_spec(error: AttributedError) -> bool:
    """Whether a claim is written like a template, with only another spec in its spec."""
    path, tree = error.misfit.path, error.document.tree
    spec = mapping(at(tree, path[:-1]))
    return (
        error.document.kind == "ResourceClaim"
        and path == ("spec", "spec")
        and spec.keys() == {"spec"}
        and bool(mapping(spec["spec"]))
    )


def _fix(error: AttributedError) -> Fix | None:
    document, (path, suggestion) = error.document, (error.misfit.path, error.misfit.suggestion)
    parent_fields, name = mapping(at(document.tree, path[:-1])), str(path[-1])
    edit: Edit
    advice = unknown_field_advice(error.struct.bare_name, path, parent_fields) if error.struct is not None else None
    if advice is not None:
        edits = tuple((document, edit) for edit in advice.edits)
        return Fix(advice.fix, edits, safe=False) if edits else None
    if name == "basic" and error.struct is not None and error.struct.bare_name == "Device":
        inner = mapping(parent_fields["basic"])
        if not inner or inner.keys() & parent_fields.keys():
            return None
        return Fix("move its fields next to the device's name", ((document, Lift(path)),), safe=True)
    if _is_second_spec(error):
        return Fix("move its fields into the outer spec", ((document, Lift(path)),), safe=True)
    parent, dot, _ = suggestion.rpartition(".")
    if dot:
        if parent in parent_fields:
            return None
        edit = Nest(path[:-1], (name,), parent)
        # A template contains a claim's spec: with devices directly below spec, the inner spec is missing.
        is_certain = document.kind == "ResourceClaimTemplate" and suggestion == "spec.devices"
        return Fix(f"move it under {parent}", ((document, edit),), safe=is_certain)
    if not suggestion or suggestion in parent_fields:
        return None
    return Fix(f"write {suggestion}", ((document, RenameKey(path, suggestion)),), safe=False)


def _claim_of_pod(bundle: Bundle, error: AttributedError) -> Fix | None:
    """The field of a pod's claim for the kind of the object that it names, if only one kind has an object of the name.

    The field itself has an obvious correction to neither kind.
    """
    path, document = error.misfit.path, error.document
    entry = mapping(at(document.tree, path[:-1]))
    name = entry.get(str(path[-1]))
    if error.struct is None or error.struct.bare_name != "PodResourceClaim" or not isinstance(name, str):
        return None
    pod = next((pod for pod in bundle.pods if pod.document is document), None)
    if pod is None or entry.keys() & set(REFERENCE_FIELDS.values()):
        return None
    key = ObjectKey(pod.key.namespace, name)
    stored = {"ResourceClaim": bundle.cluster_claims, "ResourceClaimTemplate": bundle.cluster_templates}
    fields = [
        field
        for kind, field in REFERENCE_FIELDS.items()
        if any(view.kind == kind and view.key == key for view in bundle.claims) or key in stored[kind]
    ]
    if len(fields) != 1:
        return None
    return Fix(f"write {fields[0]}", ((document, RenameKey(path, fields[0])),), safe=True)


_POD = examples.pod("inference", "resourceClaimName: inference")

RULE = Rule(
    code="S106",
    name="unknown-field",
    family="shape",
    level="error",
    summary="the kind has no such field",
    why=(
        "kubectl requests strict decoding (fieldValidation=Strict): an unknown field, usually a typo, is rejected "
        "with 'strict decoding error'. For clients that do not request strict decoding, such as Helm and many "
        "operators, the API server silently drops the field, which changes the meaning of the object. A pod names its "
        "claim with resourceClaimName or resourceClaimTemplateName, whichever is the kind of the object."
    ),
    bad=examples.join_documents(
        examples.claim("inference").replace("deviceClassName", "deviceClass"),
        _POD.replace("resourceClaimName", "claimName"),
    ),
    good=examples.join_documents(examples.claim("inference"), _POD),
    find=_find,
    fixable="safe or unsafe",
    see="https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation",
)
