"""Validation of ValidatingAdmissionPolicies and their bindings: a cluster refuses those that cannot be evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from allotment.apiserver.admission.expressions import Compiler
from allotment.apiserver.admission.match_rules import (
    expression_errors,
    match_conditions,
    match_resources,
    qualified_name,
    supported,
)
from allotment.apiserver.admission.parameter_permissions import binding_permissions, policy_permissions
from allotment.apiserver.kinds.field_validation import label_selector, service_name_problems
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.cel.checking import types
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import duplicate, forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString, GoStruct, size

_POLICIES: Final = "validatingadmissionpolicies.admissionregistration.k8s.io"
FAILURE_POLICIES: Final = ("Fail", "Ignore")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
#: In the order of the message.
_NOT_FOUND_ACTIONS: Final = ("Deny", "Allow")
_EXPRESSION_FIELDS: Final = ("expression", "messageExpression", "valueExpression")
_MAX_ANNOTATIONS: Final = 20
_MAX_ANNOTATION_BYTES: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_NOTHING: Final = "validations or auditAnnotations must contain at least one item"
_EXCLUSIVE: Final = "name and selector are mutually exclusive"


def _policy(tree: Tree, write: Write) -> Errors:
    return list(_policy_errors(tree, None, write)) or policy_permissions(tree["spec"], {}, write)


def _policy_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource == "status":
        return ()
    return list(_policy_errors(new, old, write)) or policy_permissions(new["spec"], old["spec"], write)


def _policy_errors(tree: Tree, old: Tree | None, write: Write) -> Errors:
    """``old``: the policy before an update, whose expressions may use what new ones may not use yet."""
    spec = tree.get("spec") or {}
    before = (old or {}).get("spec") or {}
    known = frozenset(sources(before))
    has_params = spec.get("paramKind") is not None
    variables = spec.get("variables") or ()
    compiler = Compiler(
        write.features.kube, "new", has_params=has_params, composition=bool(variables), preexisting=known
    )
    yield from supported(spec.get("failurePolicy"), "spec.failurePolicy", FAILURE_POLICIES)
    if has_params:
        yield from parameter_kind(spec["paramKind"], "spec.paramKind")
    yield from match_constraints(spec, "spec")
    unchanged = old is not None and all(spec.get(name) == before.get(name) for name in ("matchConditions", "paramKind"))
    if not unchanged:
        # Match conditions are evaluated before the variables.
        conditions = Compiler(write.features.kube, "new", has_params=has_params, composition=False, preexisting=known)
        yield from match_conditions(
            spec.get("matchConditions") or (),
            "spec.matchConditions",
            lambda source: conditions.compile(source, (types.BOOL,)),
        )
    yield from variable_errors(variables, "spec.variables", compiler)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        yield required("spec.validations", _NOTHING)
        yield required("spec.auditAnnotations", _NOTHING)
        return
    for index, validation in enumerate(validations):
        yield from _validation(validation, f"spec.validations[{index}]", compiler)
    yield from _annotations(annotations, str(tree["metadata"].get("name") or ""), compiler)


def sources(spec: Tree) -> Iterator[str]:
    """The expressions of a policy."""
    for name in ("matchConditions", "variables", "validations", "auditAnnotations", "mutations"):
        for written in spec.get(name) or ():
            item = {**written, **(written.get("applyConfiguration") or {}), **(written.get("jsonPatch") or {})}
            yield from (
                str(item[field]) for field in ("expression", "messageExpression", "valueExpression") if field in item
            )


def match_constraints(spec: Tree, path: str) -> Errors:
    """The match constraints of a policy, which has at least one resource rule."""
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield required(f"{path}.matchConstraints")
        return
    yield from match_resources(constraints, f"{path}.matchConstraints")
    if not constraints.get("resourceRules"):
        yield required(f"{path}.matchConstraints.resourceRules")


def parameter_kind(kind: Tree, path: str) -> Errors:
    """The apiVersion and kind of a policy's parameters."""
    written, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    group, _, version = written.rpartition("/")
    if not written:
        yield required(f"{path}.apiVersion")
    elif written.count("/") > 1:
        yield invalid(f"{path}.apiVersion", written, f"unexpected GroupVersion string: {written}")
    else:
        problems = names.subdomain_problems(group) if group else ()
        if problems:
            yield invalid(f"{path}.apiVersion", group, ",".join(problems))
        if not version:
            yield invalid(f"{path}.apiVersion", written, "version must be specified")
        elif problems := service_name_problems(version):
            yield invalid(f"{path}.apiVersion", version, ",".join(problems))
    if not name:
        yield required(f"{path}.kind")
    elif problems := service_name_problems(name.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
        yield invalid(f"{path}.kind", name, detail)


def variable_errors(variables: Sequence[Tree], path: str, compiler: Compiler) -> Errors:
    """Variables, each of which can refer to those before it."""
    for index, variable in enumerate(variables):
        name, source = variable.get("name") or "", variable.get("expression") or ""
        if not name.strip():
            yield required(f"{path}[{index}].name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            yield invalid(f"{path}[{index}].name", name, "must be a valid CEL identifier")
        if not source.strip():
            yield required(f"{path}[{index}].expression", "expression is not specified")
        else:
            yield from expression_errors(compiler.declare(name, source), f"{path}[{index}].expression")


def _validation(validation: Tree, path: str, compiler: Compiler) -> Errors:
    source, message = validation.get("expression") or "", validation.get("message") or ""
    computed = validation.get("messageExpression") or ""
    if not source.strip():
        yield required(f"{path}.expression", "expression is not specified")
    else:
        yield from expression_errors(compiler.compile(source, (types.BOOL,)), f"{path}.expression")
    if computed and not computed.strip():
        yield invalid(f"{path}.messageExpression", computed, "must be non-empty if specified")
    elif computed:
        expression = compiler.compile(computed, (types.STRING,), has_authorizer=False)
        yield from expression_errors(expression, f"{path}.messageExpression")
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", GoNamedString(reason), _REASONS)


def _annotations(annotations: Sequence[Tree], policy: str, compiler: Compiler) -> Errors:
    path = "spec.auditAnnotations"
    if len(annotations) > _MAX_ANNOTATIONS:
        written = [
            GoStruct(Key=item.get("key") or "", ValueExpression=item.get("valueExpression") or "")
            for item in annotations
        ]
        yield invalid(path, written, f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations")
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        key, source = annotation.get("key") or "", annotation.get("valueExpression") or ""
        if policy:
            yield from qualified_name(f"{policy}/{key}", f"{path}[{index}].key")
        else:
            yield invalid(f"{path}[{index}].key", key, "requires metadata.name be non-empty")
        value_path = f"{path}[{index}].valueExpression"
        trimmed = source.strip()
        if not trimmed:
            yield required(value_path, "valueExpression is not specified")
        elif size(trimmed) > _MAX_ANNOTATION_BYTES:
            yield required(value_path, f"must not exceed {_MAX_ANNOTATION_BYTES} bytes in length")
        else:
            yield from expression_errors(compiler.compile(trimmed, (types.STRING, types.NULL)), value_path, source)
        if key in seen:
            yield duplicate(f"{path}[{index}].key", key)
        seen.add(key)


def _binding(tree: Tree, write: Write) -> Errors:
    return list(_binding_errors(tree, write)) or binding_permissions(tree["spec"], {}, write, _POLICIES)


def _binding_errors(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    yield from binding_errors(spec)
    actions = spec.get("validationActions") or ()
    path = "spec.validationActions"
    for index, action in enumerate(actions):
        yield from supported(action, f"{path}[{index}]", _ACTIONS)
        if action in actions[:index]:
            yield duplicate(f"{path}[{index}]", GoNamedString(action))
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        yield invalid(path, actions, detail)
    if not actions:
        yield required(path, "" if write.features.since("1.37") else "at least one validation action is required")


def _binding_update(new: Tree, old: Tree, write: Write) -> Errors:
    return list(_binding_errors(new, write)) or binding_permissions(new["spec"], old["spec"], write, _POLICIES)


def binding_errors(spec: Tree) -> Errors:
    """The policy, the parameters and the resources of a binding."""
    policy = spec.get("policyName") or ""
    if not policy:
        yield required("spec.policyName")
    else:
        yield from (invalid("spec.policyName", policy, problem) for problem in names.subdomain_problems(policy))
    yield from _parameter_reference(spec.get("paramRef"), "spec.paramRef")
    yield from match_resources(spec.get("matchResources"), "spec.matchResources")


def _parameter_reference(reference: Tree | None, path: str) -> Errors:
    if reference is None:
        return
    name, selector = reference.get("name") or "", reference.get("selector")
    if name:
        yield from (invalid(f"{path}.name", name, problem) for problem in names.path_segment_problems(name))
        if selector is not None:
            yield forbidden(f"{path}.name", _EXCLUSIVE)
    if selector is not None:
        yield from label_selector(selector, f"{path}.selector")
        if name:
            yield forbidden(f"{path}.selector", _EXCLUSIVE)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    action_path = f"{path}.parameterNotFoundAction"
    action = reference.get("parameterNotFoundAction") or None
    yield from supported(action, action_path, _NOT_FOUND_ACTIONS)


RULES: Final = {
    _POLICIES: KindRules(validate_create=_policy, validate_update=_policy_update, has_generation=True),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": KindRules(
        validate_create=_binding, validate_update=_binding_update, has_generation=True
    ),
}
