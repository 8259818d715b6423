"""Node selectors of slices and allocations, by the rules of core/v1."""

from __future__ import annotations

from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, forbidden, invalid, required
from allotment.model.validation.gotext import GoNamedString

_UNKNOWN = "not a valid selector operator"


def node_selector(selector: NodeSelector, path: str) -> Errors:
    """Validate a node selector: at least one term, every requirement valid."""
    path = f"{path}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        yield required(path, "must have at least one node selector term")
    for index, term in enumerate(selector.node_selector_terms):
        yield from _term(term, f"{path}[{index}]")


def _term(term: NodeSelectorTerm, path: str) -> Errors:
    for index, requirement in enumerate(term.match_expressions):
        yield from _expression(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.match_fields):
        yield from _field(requirement, f"{path}.matchFields[{index}]")


def _expression(requirement: NodeSelectorRequirement, path: str) -> Errors:
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(f"{path}.operator", GoNamedString(operator), _UNKNOWN)
    yield from names.label_key(requirement.key, f"{path}.key")
    for index, value in enumerate(values):
        yield from names.label_value(value, f"{path}.values[{index}]")


def _field(requirement: NodeSelectorRequirement, path: str) -> Errors:
    if requirement.operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", GoNamedString(requirement.operator), _UNKNOWN)
    elif len(requirement.values) != 1:
        yield required(
            f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if requirement.key != "metadata.name":
        yield invalid(f"{path}.key", requirement.key, "not a valid field selector key")
        return
    for index, value in enumerate(requirement.values):
        yield from names.subdomain(value, f"{path}.values[{index}]")
