"""Node selectors of core/v1: terms are ORed, requirements of a term are ANDed."""

from __future__ import annotations

from allotment.model.meta import Value


class NodeSelectorRequirement(Value, frozen=True):
    """``key operator values``; operators In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Value, frozen=True):
    """All expressions (labels) and all fields (only ``metadata.name``) must match; an empty term matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Value, frozen=True):
    """A node matches if any term matches."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()
