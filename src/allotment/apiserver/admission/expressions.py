"""The CEL expressions of admission policies: their variables, and the limits of their cost.

Objects are of type ``dyn``. ``variables`` has the named expressions of the policy; each is evaluated at most once for a
request, when another expression first reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

from allotment.apiserver.admission.mutation_types import with_mutation_types
from allotment.cel.checking import types
from allotment.cel.checking.checked_expression import CheckedExpression
from allotment.cel.checking.environment import Environment, EnvName, declare_environment
from allotment.cel.checking.types import Type, TypeKind
from allotment.cel.errors import CompileError
from allotment.cel.evaluation.planner import ExpressionPlan
from allotment.cel.evaluation.values import CelError, ListValue, MapValue, Value
from allotment.cel.selector import compile_checked, plan_checked, run_plan
from allotment.model.trees import Tree

#: Cost limits of one expression, and of the expressions of a policy for one set of parameters.
_EXPRESSION_LIMIT: Final = 1_000_000
POLICY_BUDGET: Final = 10_000_000
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"

_NAMES: Final = (
    "object", "oldObject", "namespaceObject", "request", "params", "authorizer", "authorizer.requestResource",
    "variables",
)  # fmt: skip
_STRINGS: Final = types.list_of(types.STRING)
_VARIABLES: Final = types.struct("kubernetes.variables")
_AUTHORIZER: Final = {
    "authorizer": types.struct("kubernetes.authorization.Authorizer"),
    "authorizer.requestResource": types.struct("kubernetes.authorization.ResourceCheck"),
}
_KIND: Final = {"group": types.STRING, "version": types.STRING, "kind": types.STRING}
_RESOURCE: Final = {"group": types.STRING, "version": types.STRING, "resource": types.STRING}
_STRUCTS: Final[Mapping[str, Mapping[str, Type]]] = {
    "kubernetes.GroupVersionKind": _KIND,
    "kubernetes.GroupVersionResource": _RESOURCE,
    "kubernetes.UserInfo": {
        "username": types.STRING, "uid": types.STRING, "groups": _STRINGS,
        "extra": types.map_of(types.STRING, _STRINGS),
    },
    "kubernetes.AdmissionRequest": {
        "kind": types.struct("kubernetes.GroupVersionKind"),
        "resource": types.struct("kubernetes.GroupVersionResource"),
        "subResource": types.STRING,
        "requestKind": types.struct("kubernetes.GroupVersionKind"),
        "requestResource": types.struct("kubernetes.GroupVersionResource"),
        "requestSubResource": types.STRING, "name": types.STRING, "namespace": types.STRING,
        "operation": types.STRING, "userInfo": types.struct("kubernetes.UserInfo"), "dryRun": types.BOOL,
        "options": types.DYN,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _STRINGS},
    "kubernetes.NamespaceCondition": {
        "status": types.STRING, "type": types.STRING, "lastTransitionTime": types.TIMESTAMP,
        "message": types.STRING, "reason": types.STRING,
    },
    "kubernetes.NamespaceStatus": {
        "conditions": types.list_of(types.struct("kubernetes.NamespaceCondition")), "phase": types.STRING,
    },
    "kubernetes.NamespaceMetadata": {
        "name": types.STRING, "generateName": types.STRING, "namespace": types.STRING,
        "labels": types.map_of(types.STRING, types.STRING), "annotations": types.map_of(types.STRING, types.STRING),
        "UID": types.STRING, "creationTimestamp": types.TIMESTAMP, "deletionGracePeriodSeconds": types.INT,
        "deletionTimestamp": types.TIMESTAMP, "generation": types.INT, "resourceVersion": types.STRING,
        "finalizers": _STRINGS,
    },
    "kubernetes.Namespace": {
        "metadata": types.struct("kubernetes.NamespaceMetadata"), "spec": types.struct("kubernetes.NamespaceSpec"),
        "status": types.struct("kubernetes.NamespaceStatus"),
    },
}  # fmt: skip


class OutOfBudget(Exception):
    """Raised when the expressions of a policy cost more than their budget."""

    def __init__(self) -> None:
        super().__init__(_OUT_OF_BUDGET)


class Expression(NamedTuple):
    """An expression as written, and compiled or with its error."""

    source: str
    compiled: tuple[CheckedExpression, ExpressionPlan] | CompileError


@cache
def _environment(kube: str, name: EnvName, has_params: bool, has_authorizer: bool) -> Environment:
    variables: dict[str, Type] = {
        "object": types.DYN, "oldObject": types.DYN, "namespaceObject": types.struct("kubernetes.Namespace"),
        "request": types.struct("kubernetes.AdmissionRequest"), **({"params": types.DYN} if has_params else {}),
        **(_AUTHORIZER if has_authorizer else {}),
    }  # fmt: skip
    base = replace(declare_environment(kube, name, True, True), variables={}, attribute_type=None)
    return replace(base.extended(variables), structs={**base.structs, **_STRUCTS})


class Compiler:
    """Compiles the expressions of one policy.

    ``name``: ``new`` for expressions that a client writes, ``stored`` for those that are evaluated, and for the
    ``preexisting`` ones of a policy that is updated. ``composition``: whether ``variables`` is declared.
    """

    def __init__(
        self,
        kube: str,
        name: EnvName,
        *,
        has_params: bool,
        composition: bool,
        preexisting: frozenset[str] = frozenset(),
    ) -> None:
        self._kube, self._name, self._has_params, self._preexisting = kube, name, has_params, preexisting
        self._fields: dict[str, Type] | None = {} if composition else None

    def compile(self, source: str, accepted: Sequence[Type] = (), *, has_authorizer: bool = True) -> Expression:
        """Compile an expression whose result has one of the ``accepted`` types; any type if there are none."""
        return self._compiled(source, accepted, self._environment(source, has_authorizer))

    def _environment(self, source: str, has_authorizer: bool) -> Environment:
        name: EnvName = "stored" if source in self._preexisting else self._name
        env = _environment(self._kube, name, self._has_params, has_authorizer)
        if self._fields is not None:
            env = replace(
                env,
                variables={**env.variables, "variables": _VARIABLES},
                structs={**env.structs, _VARIABLES.name: dict(self._fields)},
            )
        return env

    @staticmethod
    def _compiled(source: str, accepted: Sequence[Type], env: Environment) -> Expression:
        try:
            checked = compile_checked(source, env)
            if accepted and checked.output_type not in accepted:
                raise CompileError(_type_problem(accepted, checked.output_type))
            return Expression(source, (checked, plan_checked(checked, _NAMES)))
        except CompileError as error:
            return Expression(source, error)

    def compile_mutation(self, source: str, accepted: Type) -> Expression:
        """Compile an expression that creates objects (``Object.spec{replicas: 1}``) or JSON patches."""
        return self._compiled(source, (accepted,), with_mutation_types(self._environment(source, True), source))

    def declare(self, name: str, source: str) -> Expression:
        """Compile a variable, which later expressions can refer to."""
        expression = self.compile(source)
        if self._fields is not None:
            compiled = expression.compiled
            self._fields[name] = types.DYN if isinstance(compiled, CompileError) else _declared(compiled[0].output_type)
        return expression


def _type_problem(accepted: Sequence[Type], actual: Type) -> str:
    if len(accepted) == 1:
        return f"must evaluate to {accepted[0]} but got {actual}"
    return f"must evaluate to one of [{' '.join(map(str, accepted))}] but got {actual}"


def _declared(result: Type) -> Type:
    """The type of a variable: that of its expression, if it is a scalar, a list or a map."""
    if result.kind in (TypeKind.LIST, TypeKind.MAP):
        params = tuple(map(_declared, result.params))
        return types.list_of(params[0]) if len(params) == 1 else types.map_of(params[0], params[1])
    is_scalar = result.kind in (
        TypeKind.ANY, TypeKind.BOOL, TypeKind.BYTES, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.INT, TypeKind.NULL,
        TypeKind.STRING, TypeKind.TIMESTAMP, TypeKind.UINT,
    )  # fmt: skip
    return result if is_scalar and not result.nullable else types.DYN


class _JsonEntries(dict[Any, Any]):
    """The entries of a map from a JSON object; values are converted when they are first read, most of them never.

    Until then an entry is the JSON value, afterwards the pair of the key and the CEL value.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        entry = super().get(key, default)
        if type(entry) is not tuple and key in self:
            entry = self[key] = (key, cel_value(entry))
        return entry

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def values(self) -> Any:
        return [self.get(key) for key in self]

    def items(self) -> Any:
        return [(key, self.get(key)) for key in self]


def cel_value(value: Any) -> Value:
    """A JSON value as a CEL value."""
    if type(value) is dict:
        return MapValue(_JsonEntries(value), string_keys_only=True)
    if type(value) is list:
        return ListValue([cel_value(item) for item in value])
    return value


class _LazyVariables(dict[Any, Any]):
    """The entries of ``variables``, which are evaluated when they are first read."""

    def __init__(self, expressions: Iterable[tuple[str, Expression]], inputs: Inputs) -> None:
        super().__init__({name: None for name, _ in expressions})
        self._expressions = dict(expressions)
        self._inputs = inputs

    def get(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            return default
        entry = self[key]
        if entry is None:
            entry = self[key] = (key, self._evaluate(str(key)))
        if isinstance(entry[1], CelError):
            raise entry[1]
        return entry

    def _evaluate(self, name: str) -> Value:
        compiled = self._expressions[name].compiled
        if isinstance(compiled, CompileError):
            return CelError(f'composited variable "{name}" fails to compile: {compiled}')
        outcome = run_plan(*compiled, None, self._inputs.values, _EXPRESSION_LIMIT)
        self._inputs.charged += _EXPRESSION_LIMIT if outcome.cost is None else outcome.cost
        if outcome.error is not None:
            return CelError(f'composited variable "{name}" fails to evaluate: {outcome.error}')
        return outcome.value


class Inputs:
    """The values that the expressions of a policy read: those of the request, and the parameters.

    ``charged``: the cost of the variables that were evaluated since it was last taken.
    """

    def __init__(
        self, request_values: Mapping[str, Value], params: Tree | None, variables: Sequence[tuple[str, Expression]]
    ) -> None:
        values = {**request_values, "params": cel_value(params)}
        self.charged = 0
        values["variables"] = MapValue(_LazyVariables(variables, self), string_keys_only=True)
        self.values = [values[name] for name in _NAMES]


class Result(NamedTuple):
    """The value of an expression, or the text of its error; both None for a placeholder."""

    value: Value = None
    error: str | None = None


def evaluate(expressions: Sequence[Expression | None], inputs: Inputs, budget: int) -> tuple[list[Result], int]:
    """Evaluate expressions in order; returns the remaining budget. Raises OutOfBudget."""
    results: list[Result] = []
    for expression in expressions:
        if expression is None:
            results.append(Result())
            continue
        if isinstance(expression.compiled, CompileError):
            results.append(Result(error=f"compilation error: {expression.compiled}"))
            continue
        inputs.charged = 0
        outcome = run_plan(*expression.compiled, None, inputs.values, _EXPRESSION_LIMIT)
        budget -= inputs.charged + (_EXPRESSION_LIMIT if outcome.cost is None else outcome.cost)
        if budget < 0:
            raise OutOfBudget
        if outcome.error is None:
            results.append(Result(outcome.value))
        else:
            results.append(Result(error=f"expression '{expression.source}' resulted in error: {outcome.error}"))
    return results, budget
