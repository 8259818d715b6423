"""Node selection of slices and devices: by name, for all nodes, or by a node selector.

Terms of a selector are ORed, an empty term matches nothing, and a selector is validated before it is matched, as in
``component-helpers/scheduling/corev1/nodeaffinity``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.quoting import quote


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The properties of a node that allocation reads."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    declared_features: frozenset[str] = frozenset()
    """``status.declaredFeatures``: features of the kubelet that schedulers must know (KEP-5328)."""


class UnusableNodeSelector(ValueError):
    """Raised when a node selector has an unknown operator, or values that are invalid for its operator."""

    def __init__(self, selector: NodeSelector, problems: tuple[str, ...]) -> None:
        shown = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        super().__init__(f"failed to parse node selector {_go_text(selector)}: {shown}")


def reaches(node: NodeFacts, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> bool:
    """Whether the node is selected. If no field is set, no node is: a later API version may have other fields."""
    if node_name:
        return node_name == node.name
    if all_nodes:
        return True
    return selector is not None and selects(selector, node)


def selects(selector: NodeSelector, node: NodeFacts) -> bool:
    """Whether a node selector matches the node; ``UnusableNodeSelector`` if it is invalid."""
    problems = _problems_cached(_SelectorKey(selector))
    if problems:
        raise UnusableNodeSelector(selector, problems)
    return any(_term_matches(term, node) for term in selector.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, node: NodeFacts) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_LABEL_OPERATORS[e.operator](node.labels.get(e.key), e.values) for e in term.match_expressions) and all(
        ((node.name if f.key == "metadata.name" else "") == f.values[0]) == (f.operator == "In")
        for f in term.match_fields
    )


_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 20:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _compares(label: str | None, values: tuple[str, ...], greater: bool) -> bool:
    if label is None or (actual := _integer(label)) is None or (limit := _integer(values[0])) is None:
        return False
    return actual > limit if greater else actual < limit


_LABEL_OPERATORS: Mapping[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda label, values: label is not None and label in values,
    "NotIn": lambda label, values: label is None or label not in values,
    "Exists": lambda label, values: label is not None,
    "DoesNotExist": lambda label, values: label is None,
    "Gt": lambda label, values: _compares(label, values, greater=True),
    "Lt": lambda label, values: _compares(label, values, greater=False),
}


# --- validation of selectors -------------------------------------------------------------------------------------


class _SelectorKey:
    """A cache key that compares selectors by identity: they live as long as their slices and match on many nodes."""

    __slots__ = ("selector",)

    def __init__(self, selector: NodeSelector) -> None:
        self.selector = selector

    def __hash__(self) -> int:
        return id(self.selector)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SelectorKey) and other.selector is self.selector


@functools.lru_cache(maxsize=1024)
def _problems_cached(frozen: _SelectorKey) -> tuple[str, ...]:
    return tuple(
        problem
        for i, term in enumerate(frozen.selector.node_selector_terms)
        for kind, requirements, find in (
            ("matchExpressions", term.match_expressions, _label_problem),
            ("matchFields", term.match_fields, _field_problem),
        )
        for j, requirement in enumerate(requirements)
        if (problem := find(requirement, f"nodeSelectorTerms[{i}].{kind}[{j}]")) is not None
    )


def _unsupported(path: str, operator: str, supported: tuple[str, ...]) -> str:
    listed = ", ".join(quote(s) for s in sorted(supported))
    return f"{path}.operator: Unsupported value: {quote(operator)}: supported values: {listed}"


def _shown(values: tuple[str, ...]) -> str:
    return "[" + ",".join(quote(v) for v in values) + "]"


def _label_problem(requirement: NodeSelectorRequirement, path: str) -> str | None:
    operator, values = requirement.operator, requirement.values
    at = f"{path}.values: Invalid value: {_shown(values)}: "
    if operator not in _LABEL_OPERATORS:
        return _unsupported(path, operator, tuple(_LABEL_OPERATORS))
    if operator in ("In", "NotIn"):
        return None if values else at + "for 'in', 'notin' operators, values set can't be empty"
    if operator in ("Exists", "DoesNotExist"):
        return at + "values set must be empty for exists and does not exist" if values else None
    if len(values) != 1:
        return at + "for 'Gt', 'Lt' operators, exactly one value is required"
    if _integer(values[0]) is None:
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        return f"{path}.values[0]: Invalid value: {quote(values[0])}: {why}"
    return None


def _field_problem(requirement: NodeSelectorRequirement, path: str) -> str | None:
    if requirement.operator not in ("In", "NotIn"):
        return _unsupported(path, requirement.operator, ("In", "NotIn"))
    if len(requirement.values) != 1:
        return f"{path}.values: Invalid value: {_shown(requirement.values)}: must have one element"
    return None


def _go_text(selector: NodeSelector) -> str:
    """The selector as Go's generated ``String()`` formats it."""

    def requirements(items: tuple[NodeSelectorRequirement, ...]) -> str:
        inner = "".join(
            f"NodeSelectorRequirement{{Key:{r.key},Operator:{r.operator},Values:[{' '.join(r.values)}],}},"
            for r in items
        )
        return f"[]NodeSelectorRequirement{{{inner}}}"

    terms = "".join(
        f"NodeSelectorTerm{{MatchExpressions:{requirements(t.match_expressions)},"
        f"MatchFields:{requirements(t.match_fields)},}},"
        for t in selector.node_selector_terms
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"
