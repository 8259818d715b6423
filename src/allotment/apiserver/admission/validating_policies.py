"""Applies ValidatingAdmissionPolicies to requests: Deny rejects a request, Warn adds a warning.

The lab has no audit log: audit annotations are only evaluated, because a failing one rejects the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.admission.attributes import Attributes, request_values
from allotment.apiserver.admission.expressions import (
    MATCH_CONDITIONS_BUDGET,
    POLICY_BUDGET,
    Compiler,
    Expression,
    Inputs,
    OutOfBudget,
    Result,
    evaluate,
)
from allotment.apiserver.admission.matching import is_exempt, matched_version
from allotment.apiserver.admission.parameters import ConfigurationError, parameter_kind, parameters
from allotment.apiserver.kinds.kind import StoreReader
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Change, Store
from allotment.cel.checking import types
from allotment.cel.evaluation.values import Value, type_name
from allotment.cluster.errors import StatusError
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status
from allotment.model.validation.gotext import size

POLICIES: Final = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS: Final = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
_MAX_MESSAGE_BYTES: Final = 5 * 1024
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class _CompiledPolicy(NamedTuple):
    """A policy, its bindings and its expressions."""

    tree: Tree
    bindings: Sequence[Tree]
    variables: Sequence[tuple[str, Expression]]
    conditions: Sequence[Expression]
    validations: Sequence[Expression]
    messages: Sequence[Expression | None]
    annotations: Sequence[Expression]

    @property
    def name(self) -> str:
        return str(self.tree["metadata"]["name"])


class _Denial(NamedTuple):
    """A failed validation, or an error that the failure policy turns into one."""

    policy: str
    binding: str
    message: str
    reason: str = "Invalid"


class ValidatingPolicies:
    """The policies of a store, compiled when they are first needed after a change."""

    def __init__(self, store: Store, catalog: Catalog, kube: str, authorizer: Authorizer) -> None:
        self._store, self._catalog, self._kube, self._authorizer = store, catalog, kube, authorizer
        self._policies: list[_CompiledPolicy] = []
        self._are_current = False
        self._unsubscribe = [store.subscribe(bucket, self._invalidate) for bucket in (POLICIES, BINDINGS)]

    def close(self) -> None:
        """Unsubscribe from changes of the store."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def _invalidate(self, change: Change) -> None:
        self._are_current = False

    @property
    def exist(self) -> bool:
        """Whether any policy has a binding."""
        return bool(self._current())

    def _current(self) -> list[_CompiledPolicy]:
        if not self._are_current:
            self._policies = _compiled_policies(self._store, self._kube, self._policies)
            self._are_current = True
        return self._policies

    def check(self, attributes: Attributes) -> None:
        """Raise StatusError if a policy denies the request."""
        if is_exempt(attributes):
            return
        values = _RequestValues(attributes, self._store, self._authorizer)
        denials = [denial for policy in self._current() for denial in self._apply(policy, attributes, values)]
        if denials:
            raise _rejection(attributes, denials[0])

    def _apply(self, policy: _CompiledPolicy, attributes: Attributes, values: _RequestValues) -> Iterator[_Denial]:
        """The denials of a policy; failed validations with the action Warn only add warnings."""
        spec = policy.tree["spec"]
        version = matched_version(attributes, spec["matchConstraints"], self._store)
        if version is None:
            return
        fails = spec.get("failurePolicy") != "Ignore"
        try:
            kind = parameter_kind(spec, self._catalog)
        except ConfigurationError as error:
            if fails:
                yield _Denial(policy.name, "", f"failed to configure policy: {error}")
            return
        for binding in policy.bindings:
            name, bound = binding["metadata"]["name"], binding["spec"]
            resources = bound.get("matchResources")
            if resources and matched_version(attributes, resources, self._store) is None:
                continue
            try:
                objects = parameters(kind, bound.get("paramRef"), attributes.admission_namespace, self._store)
            except ConfigurationError as error:
                if fails:
                    yield _Denial(policy.name, name, f"failed to configure binding: {error}")
                continue
            for params in objects:
                yield from _evaluate(policy, name, bound, values[version], params, attributes, fails=fails)


class _RequestValues(dict[str, Mapping[str, Value]]):
    """The values of a request by the version in which policies match it, converted once for all policies."""

    def __init__(self, attributes: Attributes, reader: StoreReader, authorizer: Authorizer) -> None:
        super().__init__()
        self._attributes, self._reader, self._authorizer = attributes, reader, authorizer

    def __missing__(self, version: str) -> Mapping[str, Value]:
        namespace = _namespace_of(self._attributes, self._reader)
        values = self[version] = request_values(self._attributes, version, namespace, self._authorizer)
        return values


def _namespace_of(attributes: Attributes, reader: StoreReader) -> Tree | None:
    entry = reader.get("namespaces", "", attributes.namespace) if attributes.namespace else None
    return None if entry is None else entry.tree


def _compiled_policies(reader: StoreReader, kube: str, before: Sequence[_CompiledPolicy]) -> list[_CompiledPolicy]:
    """The policies that have bindings, sorted by name; those that were compiled ``before`` and are unchanged stay."""
    known = {policy.name: policy for policy in before}
    bindings: dict[str, list[Tree]] = {}
    for entry in reader.list(BINDINGS):
        bindings.setdefault(entry.tree["spec"]["policyName"], []).append(entry.tree)
    found = ((reader.get(POLICIES, "", name), bound) for name, bound in sorted(bindings.items()))
    return [_compile(entry.tree, bound, kube, known) for entry, bound in found if entry is not None]


def _compile(tree: Tree, bindings: Sequence[Tree], kube: str, known: Mapping[str, _CompiledPolicy]) -> _CompiledPolicy:
    before = known.get(tree["metadata"]["name"])
    if before is not None and before.tree is tree:
        return before._replace(bindings=bindings)
    spec = tree["spec"]
    compiler = Compiler(kube, "stored", has_params=bool(spec.get("paramKind")), composition=True)
    validations = spec.get("validations") or ()
    return _CompiledPolicy(
        tree,
        bindings,
        [(item["name"], compiler.declare(item["name"], item["expression"])) for item in spec.get("variables") or ()],
        [compiler.compile(item["expression"], (types.BOOL,)) for item in spec.get("matchConditions") or ()],
        [compiler.compile(item["expression"], (types.BOOL,)) for item in validations],
        [
            compiler.compile(item["messageExpression"], (types.STRING,), has_authorizer=False)
            if item.get("messageExpression")
            else None
            for item in validations
        ],
        [
            compiler.compile(item["valueExpression"], (types.STRING, types.NULL))
            for item in spec.get("auditAnnotations") or ()
        ],
    )


def _evaluate(
    policy: _CompiledPolicy, binding: str, bound: Tree, values: Mapping[str, Value], params: Tree | None,
    attributes: Attributes, *, fails: bool,
) -> Iterator[_Denial]:  # fmt: skip
    """The denials of a policy with one set of parameters."""
    actions = bound.get("validationActions") or ()
    try:
        failures = list(_failures(policy, values, params, fails=fails))
    except OutOfBudget as error:
        failures = [_Denial(policy.name, "", str(error))] if fails else []
    for failure in failures:
        if "Deny" in actions:
            yield failure._replace(binding=binding)
        if "Warn" in actions:
            subject = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding}'"
            attributes.warn(f"Validation failed for {subject}: {failure.message}")
    if fails:
        for message in _annotation_errors(policy, values, params):
            yield _Denial(policy.name, binding, message)


def _failures(
    policy: _CompiledPolicy, values: Mapping[str, Value], params: Tree | None, *, fails: bool
) -> Iterator[_Denial]:
    """The failed validations. Raises OutOfBudget."""
    if policy.conditions:
        # Conditions cannot read the namespace.
        inputs = Inputs({**values, "namespaceObject": None}, params, policy.variables)
        results, _ = evaluate(policy.conditions, inputs, MATCH_CONDITIONS_BUDGET)
        if any(result.value is False for result in results):
            return
        errors = [result.error for result in results if result.error is not None]
        if errors:
            if fails:
                yield _Denial(policy.name, "", _joined(errors))
            return
    inputs = Inputs(values, params, policy.variables)
    results, budget = evaluate(policy.validations, inputs, POLICY_BUDGET)
    try:
        messages, problem = evaluate(policy.messages, inputs, budget)[0], ""
    except OutOfBudget as error:
        messages, problem = [], f"failed messageExpression: {error}"
    for index, result in enumerate(results):
        error_text = result.error or problem
        if error_text:
            if fails:
                yield _Denial(policy.name, "", error_text)
        elif result.value is not True:
            validation = policy.tree["spec"]["validations"][index]
            message = _message(validation, messages[index])
            yield _Denial(policy.name, "", message, validation.get("reason") or "Invalid")


def _joined(errors: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _message(validation: Tree, computed: Result) -> str:
    """The message of a failed validation: that of messageExpression, if it is one usable line."""
    if type(computed.value) is str:
        text = computed.value.strip()
        if text and "\n" not in text and size(text) <= _MAX_MESSAGE_BYTES:
            return text
    fixed = str(validation.get("message") or "").strip()
    return fixed or f"failed expression: {validation['expression'].strip()}"


def _annotation_errors(policy: _CompiledPolicy, values: Mapping[str, Value], params: Tree | None) -> Iterator[str]:
    if not policy.annotations:
        return
    try:
        results, _ = evaluate(policy.annotations, Inputs(values, params, policy.variables), POLICY_BUDGET)
    except OutOfBudget as error:
        yield str(error)
        return
    for expression, result in zip(policy.annotations, results, strict=True):
        if result.error is not None:
            yield result.error
        elif result.value is not None and type(result.value) is not str:
            yield (
                f"valueExpression '{expression.source}' resulted in unsupported return type: "
                f"{type_name(result.value)}. Return type must be either string or null."
            )


def _rejection(attributes: Attributes, denial: _Denial) -> StatusError:
    """The error of a denied request, with the reason and the code of the validation."""
    kind = attributes.kind
    with_binding = f" with binding '{denial.binding}'" if denial.binding else ""
    message = f"ValidatingAdmissionPolicy '{denial.policy}'{with_binding} denied request: {denial.message}"
    subject = f"{kind.bucket} {quote(attributes.name)}" if attributes.name else kind.bucket
    details: Tree = {"name": attributes.name, "group": kind.group, "kind": kind.plural}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [{"message": message}]
    code = _CODES.get(denial.reason, 422)
    return StatusError(failure_status(code, denial.reason, f"{subject} is forbidden: {message}", details))
