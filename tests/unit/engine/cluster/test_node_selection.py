"""Node selection: fields, operators, and validation of selectors."""

from __future__ import annotations

import pytest

from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, reaches, selects
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

NODE = NodeFacts("n1", {"zone": "a", "gpus": "8", "empty": ""})


def selector(key: str, operator: str, *values: str, fields: bool = False) -> NodeSelector:
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=values)
    if fields:
        return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("none", "In", ("a",), False),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a",), False),
        ("none", "NotIn", ("a",), True),
        ("empty", "Exists", (), True),
        ("none", "Exists", (), False),
        ("none", "DoesNotExist", (), True),
        ("zone", "DoesNotExist", (), False),
        ("gpus", "Gt", ("4",), True),
        ("gpus", "Gt", ("8",), False),
        ("gpus", "Lt", ("10",), True),
        ("gpus", "Lt", ("8",), False),
        ("zone", "Gt", ("4",), False),
        ("none", "Lt", ("4",), False),
    ],
)
def test_label_operators(key: str, operator: str, values: tuple[str, ...], expected: bool) -> None:
    assert selects(selector(key, operator, *values), NODE) is expected


def test_match_fields_support_only_the_name() -> None:
    assert selects(selector("metadata.name", "In", "n1", fields=True), NODE)
    assert not selects(selector("metadata.name", "NotIn", "n1", fields=True), NODE)
    assert not selects(selector("spec.unknown", "In", "n1", fields=True), NODE)


def test_terms_are_alternatives_and_an_empty_one_matches_nothing() -> None:
    terms = (*selector("zone", "In", "b").node_selector_terms, *selector("zone", "In", "a").node_selector_terms)
    assert selects(NodeSelector(node_selector_terms=terms), NODE)
    assert not selects(NodeSelector(node_selector_terms=(NodeSelectorTerm(),)), NODE)
    assert not selects(NodeSelector(), NODE)


def test_selection_fields_are_evaluated_in_order() -> None:
    assert reaches(NODE, "n1", None, None)
    assert not reaches(NODE, "n2", True, None)
    assert reaches(NODE, None, True, selector("zone", "In", "b"))
    assert not reaches(NODE, None, None, None)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (
            selector("zone", "Is", "a"),
            (
                "failed to parse node selector &NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{"
                "MatchExpressions:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:zone,Operator:Is,Values:[a],},},"
                "MatchFields:[]NodeSelectorRequirement{},},},}: nodeSelectorTerms[0].matchExpressions[0].operator: "
                'Unsupported value: "Is": supported values: "DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"'
            ),
        ),
        (selector("zone", "In"), "for 'in', 'notin' operators, values set can't be empty"),
        (selector("zone", "Exists", "a"), "values set must be empty for exists and does not exist"),
        (selector("zone", "Gt", "1", "2"), "for 'Gt', 'Lt' operators, exactly one value is required"),
        (selector("zone", "Gt", "many"), "for 'Gt', 'Lt' operators, the value must be an integer"),
        (selector("metadata.name", "Exists", fields=True), 'supported values: "In", "NotIn"'),
        (selector("metadata.name", "In", "a", "b", fields=True), "must have one element"),
    ],
)
def test_unusable_selectors_say_why(bad: NodeSelector, text: str) -> None:
    with pytest.raises(UnusableNodeSelector) as raised:
        selects(bad, NODE)
    assert text in str(raised.value)
