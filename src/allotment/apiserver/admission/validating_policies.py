"""Applies ValidatingAdmissionPolicies to requests: Deny rejects a request, Warn adds a warning.

The lab has no audit log: audit annotations are only evaluated, because a failing one rejects the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.admission.bound_policies import (
    BoundPolicies,
    BoundPolicy,
    Evaluation,
    Misconfiguration,
    RequestValues,
)
from allotment.apiserver.admission.expressions import (
    POLICY_BUDGET,
    Compiler,
    Expression,
    Inputs,
    OutOfBudget,
    Result,
    evaluate,
)
from allotment.apiserver.admission.matching import ConditionsFailed, is_exempt, meets_conditions
from allotment.apiserver.served_kinds import Catalog
from allotment.apiserver.storage.store import Store
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


class _Compiled(NamedTuple):
    """The expressions of a policy."""

    variables: Sequence[tuple[str, Expression]]
    conditions: Sequence[Expression]
    validations: Sequence[Expression]
    messages: Sequence[Expression | None]
    annotations: Sequence[Expression]


class _Denial(NamedTuple):
    """A failed validation, or an error that the failure policy turns into one."""

    policy: str
    binding: str
    message: str
    reason: str = "Invalid"


class ValidatingPolicies:
    """The policies of a store, compiled when they are first needed after a change."""

    def __init__(self, store: Store, catalog: Catalog, kube: str, authorizer: Authorizer) -> None:
        self._store, self._authorizer = store, authorizer

        def compiled(spec: Tree) -> _Compiled:
            return _compile(spec, kube)

        self._policies = BoundPolicies(store, catalog, (POLICIES, BINDINGS), compiled)

    def close(self) -> None:
        """Unsubscribe from changes of the store."""
        self._policies.close()

    @property
    def exist(self) -> bool:
        """Whether any policy has a binding."""
        return bool(self._policies.current())

    def check(self, attributes: Attributes) -> None:
        """Raise StatusError if a policy denies the request."""
        if is_exempt(attributes):
            return
        values = RequestValues(attributes, self._store, self._authorizer)
        denials: list[_Denial] = []
        for evaluation in self._policies.evaluations(attributes):
            if not isinstance(evaluation, Misconfiguration):
                denials += _evaluate(evaluation, values[evaluation.version], attributes)
            elif evaluation.fails:
                denials.append(_Denial(evaluation.policy, evaluation.binding, evaluation.message))
        if denials:
            raise _rejection(attributes, denials[0])


def _compile(spec: Tree, kube: str) -> _Compiled:
    compiler = Compiler(kube, "stored", has_params=bool(spec.get("paramKind")), composition=True)
    validations = spec.get("validations") or ()
    return _Compiled(
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
    evaluation: Evaluation[_Compiled], values: Mapping[str, Value], attributes: Attributes
) -> Iterator[_Denial]:
    """The denials of a policy with one set of parameters; those with the action Warn only add warnings."""
    policy, binding, params = evaluation.policy, evaluation.binding_name, evaluation.params
    actions = evaluation.binding["spec"].get("validationActions") or ()
    try:
        failures = list(_failures(policy, values, params))
    except OutOfBudget as error:
        failures = [_Denial(policy.name, "", str(error))] if policy.fails else []
    for failure in failures:
        if "Deny" in actions:
            yield failure._replace(binding=binding)
        if "Warn" in actions:
            subject = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding}'"
            attributes.warn(f"Validation failed for {subject}: {failure.message}")
    if policy.fails:
        for message in _annotation_errors(policy.compiled, values, params):
            yield _Denial(policy.name, binding, message)


def _failures(policy: BoundPolicy[_Compiled], values: Mapping[str, Value], params: Tree | None) -> Iterator[_Denial]:
    """The failed validations. Raises OutOfBudget."""
    compiled, fails = policy.compiled, policy.fails
    try:
        if not meets_conditions(compiled.conditions, values, params, compiled.variables):
            return
    except ConditionsFailed as error:
        if fails:
            yield _Denial(policy.name, "", str(error))
        return
    inputs = Inputs(values, params, compiled.variables)
    results, budget = evaluate(compiled.validations, inputs, POLICY_BUDGET)
    try:
        messages, problem = evaluate(compiled.messages, inputs, budget)[0], ""
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


def _message(validation: Tree, computed: Result) -> str:
    """The message of a failed validation: that of messageExpression, if it is one usable line."""
    if type(computed.value) is str:
        text = computed.value.strip()
        if text and "\n" not in text and size(text) <= _MAX_MESSAGE_BYTES:
            return text
    fixed = str(validation.get("message") or "").strip()
    return fixed or f"failed expression: {validation['expression'].strip()}"


def _annotation_errors(policy: _Compiled, values: Mapping[str, Value], params: Tree | None) -> Iterator[str]:
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
