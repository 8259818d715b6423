"""Validation of MutatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from typing import Final

from allotment.apiserver.admission.expressions import Compiler
from allotment.apiserver.admission.match_rules import expression_errors, match_conditions, supported
from allotment.apiserver.admission.mutation_types import OBJECT, PATCHES
from allotment.apiserver.admission.parameter_permissions import binding_permissions, policy_permissions
from allotment.apiserver.admission.policy_rules import (
    FAILURE_POLICIES,
    binding_errors,
    match_constraints,
    parameter_kind,
    sources,
    variable_errors,
)
from allotment.apiserver.admission.webhook_rules import REINVOCATION_POLICIES
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.cel.checking import types
from allotment.model.trees import Tree
from allotment.model.validation.errors import invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString

_POLICIES: Final = "mutatingadmissionpolicies.admissionregistration.k8s.io"
#: Deletions change nothing that a policy could mutate.
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
#: The field of each patch type.
_PATCH_TYPES: Final = {"ApplyConfiguration": ("applyConfiguration", OBJECT), "JSONPatch": ("jsonPatch", PATCHES)}


def _policy(tree: Tree, write: Write) -> Errors:
    return list(_policy_errors(tree, None, write)) or policy_permissions(tree["spec"], {}, write)


def _policy_update(new: Tree, old: Tree, write: Write) -> Errors:
    return list(_policy_errors(new, old, write)) or policy_permissions(new["spec"], old["spec"], write)


def _policy_errors(tree: Tree, old: Tree | None, write: Write) -> Errors:
    """``old``: the policy before an update, whose expressions may use what new ones may not use yet."""
    spec, before = tree.get("spec") or {}, (old or {}).get("spec") or {}
    known = frozenset(sources(before))
    has_params = spec.get("paramKind") is not None
    compiler = Compiler(write.features.kube, "new", has_params=has_params, composition=True, preexisting=known)
    conditions = Compiler(write.features.kube, "new", has_params=has_params, composition=False, preexisting=known)
    yield from supported(spec.get("failurePolicy"), "spec.failurePolicy", FAILURE_POLICIES)
    if has_params:
        yield from parameter_kind(spec["paramKind"], "spec.paramKind")
    yield from match_constraints(spec, "spec")
    yield from _operations(spec.get("matchConstraints"), "spec.matchConstraints")
    if old is None or any(spec.get(name) != before.get(name) for name in ("matchConditions", "paramKind")):
        yield from match_conditions(
            spec.get("matchConditions") or (),
            "spec.matchConditions",
            lambda source: conditions.compile(source, (types.BOOL,)),
        )
    yield from variable_errors(spec.get("variables") or (), "spec.variables", compiler)
    mutations = spec.get("mutations") or ()
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        yield from _mutation(mutation, f"spec.mutations[{index}]", compiler)
    yield from supported(spec.get("reinvocationPolicy") or None, "spec.reinvocationPolicy", REINVOCATION_POLICIES)


def _operations(resources: Tree | None, path: str) -> Errors:
    for rule in (resources or {}).get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _OPERATIONS:
                yield not_supported(f"{path}.resourceRules.operations", GoNamedString(operation), _OPERATIONS)


def _mutation(mutation: Tree, path: str, compiler: Compiler) -> Errors:
    patch_type = mutation.get("patchType") or ""
    if not patch_type:
        yield required(f"{path}.patchType")
        return
    if patch_type not in _PATCH_TYPES:
        yield not_supported(f"{path}.patchType", GoNamedString(patch_type), tuple(_PATCH_TYPES))
        return
    field, result = _PATCH_TYPES[patch_type]
    patch = mutation.get(field)
    if patch is None:
        yield required(f"{path}.{field}", f"must be specified when patchType is {patch_type}")
    else:
        source = str(patch.get("expression") or "").strip()
        expression_path = f"{path}.{field}.expression"
        if source:
            yield from expression_errors(compiler.compile_mutation(source, result), expression_path)
        else:
            yield required(expression_path)
    for other, _ in _PATCH_TYPES.values():
        if other != field and mutation.get(other) is not None:
            detail = f"must not be specified when patchType is {patch_type}"
            yield invalid(f"{path}.{other}", f"{{{other}}}", detail)


def _binding(tree: Tree, write: Write) -> Errors:
    errors = list(_binding_errors(tree))
    return errors or binding_permissions(tree["spec"], {}, write, _POLICIES, mutating=True)


def _binding_errors(tree: Tree) -> Errors:
    spec = tree.get("spec") or {}
    yield from binding_errors(spec)
    yield from _operations(spec.get("matchResources"), "spec.matchResources")


def _binding_update(new: Tree, old: Tree, write: Write) -> Errors:
    errors = list(_binding_errors(new))
    return errors or binding_permissions(new["spec"], old["spec"], write, _POLICIES, mutating=True)


RULES: Final = {
    _POLICIES: KindRules(validate_create=_policy, validate_update=_policy_update, has_generation=True),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": KindRules(
        validate_create=_binding, validate_update=_binding_update, has_generation=True
    ),
}
