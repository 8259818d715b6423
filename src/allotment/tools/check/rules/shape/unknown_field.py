"""S106: fields that the kind does not have."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import Edit, Lift, Nest, RenameKey
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.decoding_errors import Owned, misfits_of
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.views import at, mapping


def _find(bundle: Bundle) -> Iterator[Found]:
    """Unknown fields that no other rule explains."""
    for owned in misfits_of(bundle, "unknown-field"):
        misfit, struct = owned.misfit, owned.struct
        where = struct.bare_name if struct is not None and struct.bare_name else owned.document.kind
        fix = _fix(owned)
        hint = "only a template has a spec in its spec" if _is_second_spec(owned) else misfit.hint
        yield Found(
            owned.document, misfit.path, f'{where} has no field "{misfit.path[-1]}"', help=hint, fix=fix, key=True
        )


def _is_second_spec(owned: Owned) -> bool:
    """Whether a claim was written as if it were a template, with nothing else in its spec."""
    path, tree = owned.misfit.path, owned.document.tree
    spec = mapping(at(tree, path[:-1]))
    return (
        owned.document.kind == "ResourceClaim"
        and path == ("spec", "spec")
        and spec.keys() == {"spec"}
        and bool(mapping(spec["spec"]))
    )


def _fix(owned: Owned) -> Fix | None:
    document, (path, suggestion) = owned.document, (owned.misfit.path, owned.misfit.suggestion)
    mapping_around, name = mapping(at(document.tree, path[:-1])), str(path[-1])
    edit: Edit
    if name == "basic" and owned.struct is not None and owned.struct.bare_name == "Device":
        inner = mapping(mapping_around["basic"])
        if not inner or inner.keys() & mapping_around.keys():
            return None
        return Fix("write its fields beside the device's name", ((document, Lift(path)),), safe=True)
    if _is_second_spec(owned):
        return Fix("write its fields in the first spec", ((document, Lift(path)),), safe=True)
    parent, dot, _ = suggestion.rpartition(".")
    if dot:
        if parent in mapping_around:
            return None
        edit = Nest(path[:-1], (name,), parent)
        # A template holds a whole claim's spec: whoever writes devices there has left one spec out.
        left_out = document.kind == "ResourceClaimTemplate" and suggestion == "spec.devices"
        return Fix(f"move it under {parent}", ((document, edit),), safe=left_out)
    if not suggestion or suggestion in mapping_around:
        return None
    return Fix(f"write {suggestion}", ((document, RenameKey(path, suggestion)),), safe=False)


RULE = Rule(
    code="S106",
    name="unknown-field",
    family="shape",
    level="error",
    summary="a field that the kind does not have",
    why=(
        "kubectl has the API server decode strictly (fieldValidation=Strict): an unknown field, mostly a misspelt one,"
        " is refused with 'strict decoding error'. Clients that do not ask for it, such as Helm and many operators,"
        " lose the field without a word, and the object means something else."
    ),
    bad=examples.claim("inference").replace("deviceClassName", "deviceClass"),
    good=examples.claim("inference"),
    find=_find,
    fixable="safe or unsafe",
    see="https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation",
)
