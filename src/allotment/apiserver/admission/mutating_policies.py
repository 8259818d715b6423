"""Applies MutatingAdmissionPolicies to requests: each mutation is a JSON patch, or an object that is merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from allotment.apiserver import api_errors
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.admission.bound_policies import BoundPolicies, Evaluation, Misconfiguration, RequestValues
from allotment.apiserver.admission.expressions import (
    POLICY_BUDGET,
    Compiler,
    Expression,
    Inputs,
    OutOfBudget,
    cel_value,
    evaluate,
)
from allotment.apiserver.admission.matching import ConditionsFailed, is_exempt, meets_conditions
from allotment.apiserver.admission.mutation_types import OBJECT, PATCHES
from allotment.apiserver.admission.object_patches import PatchFailed, decoded, patched
from allotment.apiserver.admission.reinvocation import Reinvocation
from allotment.apiserver.conversion import as_stored
from allotment.apiserver.served_kinds import Catalog, shape_in
from allotment.apiserver.storage.store import Store
from allotment.apiserver.writes.apply_merge import merge
from allotment.apiserver.writes.apply_schema import DEDUCED, Structure, UnkeyedError, structure_of
from allotment.apiserver.writes.type_check import schema_errors
from allotment.cel.checking import types
from allotment.cel.evaluation.objects import ObjectValue, json_value, type_mismatches
from allotment.cel.evaluation.values import CelError, Value
from allotment.cluster.errors import StatusError
from allotment.model.fields import shape_of
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status

BUCKETS: Final = (
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
)


class _Compiled(NamedTuple):
    """The expressions of a policy; ``mutations`` with whether each is a JSON patch."""

    variables: Sequence[tuple[str, Expression]]
    conditions: Sequence[Expression]
    mutations: Sequence[tuple[Expression, bool]]


class _Failed(Exception):
    """Raised if a mutation cannot be applied; the failure policy decides."""


class _Denial(NamedTuple):
    policy: str
    binding: str
    message: str
    reason: str = ""


class MutatingPolicies:
    """The policies of a store, compiled when they are first needed after a change."""

    def __init__(self, store: Store, catalog: Catalog, kube: str, authorizer: Authorizer) -> None:
        self._store, self._authorizer = store, authorizer

        def compiled(spec: Tree) -> _Compiled:
            return _compile(spec, kube)

        self._policies = BoundPolicies(store, catalog, BUCKETS, compiled)

    def close(self) -> None:
        """Unsubscribe from changes of the store."""
        self._policies.close()

    @property
    def exist(self) -> bool:
        """Whether any policy has a binding."""
        return bool(self._policies.current())

    def mutate(self, attributes: Attributes, calls: Reinvocation, default: Callable[[Tree, Tree], Tree]) -> Tree | None:
        """The new object after all policies. Raises StatusError.

        ``default`` completes an object that a policy has changed; its second argument is the object before.
        """
        if is_exempt(attributes) or not calls.begin_round(attributes.new):
            return attributes.new
        request = _Request(attributes, RequestValues(attributes, self._store, self._authorizer), default)
        denials: list[_Denial] = []
        # What matches is decided before the first change.
        for evaluation in list(self._policies.evaluations(attributes)):
            if isinstance(evaluation, Misconfiguration):
                found = [_Denial(evaluation.policy, evaluation.binding, evaluation.message)]
                fails = evaluation.fails
            else:
                found, fails = list(_apply(evaluation, request, calls)), evaluation.policy.fails
            denials += found if fails else []
        if denials:
            raise _rejection(attributes, denials)
        if request.attributes.new is not attributes.new:
            calls.repeat_all()  # other than a webhook, a policy also runs again after its own change
        calls.end_round(request.attributes.new)
        return request.attributes.new


class _Request:
    """A request whose object policies change one after the other."""

    def __init__(self, attributes: Attributes, values: RequestValues, default: Callable[[Tree, Tree], Tree]) -> None:
        self.attributes = attributes
        self._values = values
        self._default = default
        self._objects: dict[str, Value] = {}

    def values(self, version: str) -> Mapping[str, Value]:
        """The values of expressions, with the current object."""
        values = self._values[version]
        return {**values, "object": self._objects[version]} if version in self._objects else values

    def shown(self, version: str) -> Tree | None:
        """The current object in a version."""
        return self.attributes.converted(self.attributes.new, version)

    def set(self, tree: Tree, version: str) -> None:
        """Replace the object by one in a version."""
        before = self.attributes.new
        assert before is not None, "only existing objects are changed"
        if self.attributes.body_kind is None:
            tree = self._default(as_stored(self.attributes.kind, version, tree), before)
        self.attributes = self.attributes._replace(new=tree)
        self._objects = {version: cel_value(self.shown(version))}


def _compile(spec: Tree, kube: str) -> _Compiled:
    compiler = Compiler(kube, "stored", has_params=bool(spec.get("paramKind")), composition=True)
    variables = [
        (item["name"], compiler.declare(item["name"], item["expression"])) for item in spec.get("variables") or ()
    ]
    conditions = [compiler.compile(item["expression"], (types.BOOL,)) for item in spec.get("matchConditions") or ()]
    mutations = []
    for item in spec.get("mutations") or ():
        is_patch = item["patchType"] == "JSONPatch"
        source = item["jsonPatch" if is_patch else "applyConfiguration"]["expression"]
        mutations.append((compiler.compile_mutation(source, PATCHES if is_patch else OBJECT), is_patch))
    return _Compiled(variables, conditions, mutations)


def _apply(evaluation: Evaluation[_Compiled], request: _Request, calls: Reinvocation) -> Iterator[_Denial]:
    """Change the object by the mutations of a policy; yields its errors. Raises StatusError."""
    compiled = evaluation.policy.compiled
    policy, binding, params = evaluation.policy.name, evaluation.binding_name, evaluation.params
    try:
        if not meets_conditions(compiled.conditions, request.values(evaluation.version), params, compiled.variables):
            return
    except (ConditionsFailed, OutOfBudget) as error:
        yield _Denial(policy, binding, str(error), "Invalid")
        return
    key = (policy, binding, None if params is None else _identity(params))
    if not calls.includes(key):
        return
    before = request.attributes.new
    for expression, is_patch in compiled.mutations:
        shown = request.shown(evaluation.version)
        if shown is None:
            continue
        inputs = Inputs(request.values(evaluation.version), params, compiled.variables)
        try:
            value = _value(expression, inputs)
            change = _json_patched if is_patch else _merged
            tree = change(shown, value, request.attributes, evaluation.version)
            if tree is not shown:
                request.set(tree, evaluation.version)
        except (_Failed, OutOfBudget) as failure:
            yield _Denial(policy, binding, str(failure), "Invalid")
    calls.record_call(
        key, changed=request.attributes.new != before,
        is_repeatable=evaluation.policy.tree["spec"].get("reinvocationPolicy") == "IfNeeded",
    )  # fmt: skip


def _identity(params: Tree) -> tuple[str, str]:
    meta = params["metadata"]
    return meta.get("namespace") or "", meta["name"]


def _value(expression: Expression, inputs: Inputs) -> Value:
    results, _ = evaluate([expression], inputs, POLICY_BUDGET)
    if results[0].error is not None:
        raise _Failed(results[0].error)
    return results[0].value


def _json_patched(shown: Tree, value: Value, attributes: Attributes, version: str) -> Tree:
    """The object after the JSON patch of an expression; the same object if a test of the patch fails."""
    try:
        operations = [_operation(item) for item in value.items]
        tree = patched(shown, operations)
    except PatchFailed as failure:
        if failure.is_test:
            return shown
        raise _Failed(f"JSON Patch: {failure}") from None
    result = decoded(tree, shown, attributes, version)
    problems = [violation.message for violation in result.violations if violation.category in ("type", "value")]
    if problems:
        raise api_errors.internal(problems[0])
    if result.violations:
        unknown = ", ".join(dict.fromkeys(violation.message for violation in result.violations))
        raise api_errors.internal(f"strict decoding error: {unknown}")
    return result.tree


def _operation(item: ObjectValue) -> Tree:
    fields = dict(item.fields)
    operation: Tree = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    if "value" in fields:
        value = fields["value"]
        if type(value) is ObjectValue and (problems := list(type_mismatches(value, value.cel_type))):
            raise _Failed("type mismatch: " + "\n".join(problems))
        operation["value"] = _json(value, "JSONPath valueExpression evaluated to a type that could not marshal to JSON")
    return operation


def _json(value: Value, problem: str) -> Any:
    try:
        return json_value(value)
    except CelError as error:
        raise _Failed(f"{problem}: {error}") from None


def _merged(shown: Tree, value: Value, attributes: Attributes, version: str) -> Tree:
    """The object with the fields of the one that an expression creates."""
    if problems := list(type_mismatches(value, OBJECT.name)):
        raise _Failed("type mismatch: " + "\n".join(problems))
    patch = {
        **_json(value, "invalid return type"), "kind": shown.get("kind"), "apiVersion": shown.get("apiVersion")
    }  # fmt: skip
    if attributes.body_kind is None:
        structure = structure_of(shape_in(attributes.kind, version))
        errors = schema_errors(structure, patch)
    elif attributes.body_kind[1] == "Scale":
        # Upstream has no schema for it, so that only JSON patches can change it.
        structure, errors = DEDUCED, f"no corresponding type for {attributes.body_kind[0]}, Kind=Scale"
    else:
        structure = structure_of(shape_of(*attributes.body_kind))
        errors = schema_errors(structure, patch)
    if errors:
        raise _Failed(f"error applying patch: failed to convert patch object to typed object: {errors}")
    if atomics := list(_atomics(structure, patch, "")):
        detail = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise _Failed(f"error applying patch: invalid ApplyConfiguration: {detail}")
    try:
        tree: Tree = merge(structure, shown, patch)
    except UnkeyedError as error:
        raise _Failed(f"error applying patch: failed to merge patch: {error}") from None
    return tree


def _atomics(structure: Structure, value: Any, path: str) -> Iterator[str]:
    """The paths of atomic values: merging would remove all of their other parts."""
    if structure.relation == "leaf" and type(value) in (dict, list):
        yield path
    if structure.relation == "deduced" and type(value) is list:
        yield path
    if type(value) is dict and structure.relation not in ("leaf", "deduced"):
        for name, inner in value.items():
            yield from _atomics(structure.field(name)[1], inner, f"{path}.{name}")
    elif type(value) is list and structure.element is not None:
        for index, inner in enumerate(value):
            yield from _atomics(structure.element, inner, f"{path}[{index}]")


def _rejection(attributes: Attributes, denials: Sequence[_Denial]) -> StatusError:
    kind = attributes.kind
    details: Tree = {"name": attributes.name, "group": kind.group, "kind": kind.plural}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [{"message": _text(denial)} for denial in denials]
    first = denials[0]
    return StatusError(failure_status(403, first.reason or "Forbidden", _text(first), details))


def _text(denial: _Denial) -> str:
    if denial.binding:
        return f"policy '{denial.policy}' with binding '{denial.binding}' denied request: {denial.message}"
    return f"policy {quote(denial.policy)} denied request: {denial.message}"
