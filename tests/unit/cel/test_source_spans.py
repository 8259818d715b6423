"""Spans of nodes: the text at the span of a node parses to an equal node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.errors import CompileError
from allotment.cel.selector import compile_selector
from allotment.cel.source_spans import SourceSpans, parse_spans
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Node, Select, walk
from allotment.cel.syntax.parser import parse
from allotment.model.features import Features
from tests.unit.cel.compiling import shown

# Raise the interpreter's recursion limit now: Hypothesis warns if a test changes it.
parse_spans("(" * 100 + "a" + ")" * 100)

# Expressions with any operators, parentheses, spaces and comments.
_LEAVES = st.sampled_from(
    ["a", ".a", "1", "-1", "true", '"x"', "'''y'''", "[1, (2)]", "{1: a}", "device", "quantity('1Gi')", "b'z'"]
)
_BINARY = st.sampled_from(["+", "-", "*", "==", "!=", "<", ">=", "in", "&&", "||", " && // why\n "])


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{} {} {}".format, inner, _BINARY, inner),
        st.builds("({})".format, inner),
        st.builds("( ({} ) )".format, inner),
        st.builds("!({})".format, inner),
        st.builds("!!({})".format, inner),
        st.builds("-({})".format, inner),
        st.builds("({}) ? ({}) : {}".format, inner, inner, inner),
        st.builds("({}).b".format, inner),
        st.builds("({}) . ?b".format, inner),
        st.builds("({})[ {} ]".format, inner, inner),
        st.builds("({})[?{}]".format, inner, inner),
        st.builds("({}).f({}, {})".format, inner, inner, inner),
        st.builds("f({})".format, inner),
        st.builds("has(({}).b)".format, inner),
        st.builds("({}).all(k, {})".format, inner, inner),
        st.builds("({}).filter(k, {})".format, inner, inner),
        st.builds("({}).optMap(k, {})".format, inner, inner),
        st.builds("cel.bind(v, {}, {})".format, inner, inner),
    )


_EXPRESSIONS = st.recursive(_LEAVES, _joined, max_leaves=12)


def _nodes_with_spans(spans: SourceSpans) -> list[tuple[Node, tuple[int, int], tuple[int, int]]]:
    found = []
    for node in walk(spans.parsed.expr):
        inner, outer = spans.span(node), spans.outer_span(node)
        assert (inner is None) == (outer is None)
        if inner is not None and outer is not None:
            found.append((node, inner, outer))
    return found


@given(_EXPRESSIONS)
def test_the_text_of_a_node_parses_to_an_equal_node(source: str) -> None:
    spans = parse_spans(source)
    for node, inner, outer in _nodes_with_spans(spans):
        assert shown(parse(source[slice(*inner)]).expr) == shown(node)
        assert shown(parse(source[slice(*outer)]).expr) == shown(node)
        assert outer[0] <= inner[0] < inner[1] <= outer[1]


@given(_EXPRESSIONS)
def test_any_node_can_be_replaced_by_its_text_in_parentheses(source: str) -> None:
    spans = parse_spans(source)
    for node, _, (start, stop) in _nodes_with_spans(spans):
        # Macros require names and fields without parentheses.
        if (isinstance(node, Select) and node.test_only) or "has(" in source or "k" in source or "v" in source:
            continue
        again = parse(source[:start] + f"({source[start:stop]})" + source[stop:])
        assert shown(again.expr) == shown(spans.parsed.expr)


@given(_EXPRESSIONS)
def test_recording_spans_does_not_change_the_tree(source: str) -> None:
    plain, recorded = parse(source), parse_spans(source).parsed
    assert shown(recorded.expr) == shown(plain.expr)
    assert [node.id for node in walk(recorded.expr)] == [node.id for node in walk(plain.expr)]
    assert [(t.start, t.stop) for t in recorded.conjuncts()] == [(t.start, t.stop) for t in plain.conjuncts()]


def test_nodes_generated_by_macros_have_no_span() -> None:
    spans = parse_spans("device.attributes.all(domain, domain != 'x')")
    root = spans.parsed.expr
    assert isinstance(root, ast.Comprehension)
    assert spans.text(root) == spans.source
    assert spans.text(root.iter_range) == "device.attributes"
    assert spans.span(root.accu_init) is None
    assert spans.text(root.accu_init) == ""
    step = root.loop_step
    assert isinstance(step, Call)
    assert spans.span(step) is None
    assert spans.text(step.args[1]) == "domain != 'x'"


def test_spans_apply_to_nodes_that_the_checker_replaced() -> None:
    source = "ip.isCanonical('1.2.3.4') && (device.driver == 'd')"
    selector = compile_selector(source, Features(kube="1.36"))
    spans = parse_spans(source)
    assert [spans.text(n) for n in walk(selector.checked.expr) if isinstance(n, Call)] == [
        source, "ip.isCanonical('1.2.3.4')", "device.driver == 'd'"
    ]  # fmt: skip


def test_outer_spans_include_parentheses() -> None:
    spans = parse_spans('((device.capacity["d"].memory)) >= !!(quantity("40Gi"))')
    root = spans.parsed.expr
    assert isinstance(root, Call)
    left, right = root.args
    assert spans.text(left) == 'device.capacity["d"].memory'
    assert spans.outer_span(left) == (0, 31)
    assert spans.source[slice(*(spans.outer_span(right) or (0, 0)))] == '!!(quantity("40Gi"))'


def test_deep_nesting_gives_spans_or_compile_errors() -> None:
    deep = parse_spans("(" * 240 + "a" + ")" * 240)
    assert deep.outer_span(deep.parsed.expr) == (0, 481)
    assert deep.span(deep.parsed.expr) == (240, 241)
    for source in ("(" * 30 + "a", "[" * 600, "!(" * 251 + "a" + ")" * 251, "a" + "[0]" * 400, "a." * 90, ""):
        with pytest.raises(CompileError):
            parse_spans(source)
