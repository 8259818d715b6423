"""Where the parts of expressions stand: the text of every part parses to that part."""

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

# A long text raises the interpreter's limit once, which Hypothesis does not like to see in a test of its own.
parse_spans("(" * 100 + "a" + ")" * 100)

# Expressions as people write them: any operator, any parentheses, spaces and comments in odd places.
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


def _placed(there: SourceSpans) -> list[tuple[Node, tuple[int, int], tuple[int, int]]]:
    found = []
    for node in walk(there.parsed.expr):
        inner, outer = there.span(node), there.outer_span(node)
        assert (inner is None) == (outer is None)
        if inner is not None and outer is not None:
            found.append((node, inner, outer))
    return found


@given(_EXPRESSIONS)
def test_text_of_a_part_parses_to_that_part(source: str) -> None:
    there = parse_spans(source)
    for node, inner, outer in _placed(there):
        assert shown(parse(source[slice(*inner)]).expr) == shown(node)
        assert shown(parse(source[slice(*outer)]).expr) == shown(node)
        assert outer[0] <= inner[0] < inner[1] <= outer[1]


@given(_EXPRESSIONS)
def test_any_part_can_be_replaced_by_another_in_parentheses(source: str) -> None:
    there = parse_spans(source)
    for node, _, (start, stop) in _placed(there):
        # A macro wants names and fields where they stand.
        if (isinstance(node, Select) and node.test_only) or "has(" in source or "k" in source or "v" in source:
            continue
        again = parse(source[:start] + f"({source[start:stop]})" + source[stop:])
        assert shown(again.expr) == shown(there.parsed.expr)


@given(_EXPRESSIONS)
def test_noting_places_changes_nothing(source: str) -> None:
    plain, noted = parse(source), parse_spans(source).parsed
    assert shown(noted.expr) == shown(plain.expr)
    assert [node.id for node in walk(noted.expr)] == [node.id for node in walk(plain.expr)]
    assert [(t.start, t.stop) for t in noted.conjuncts()] == [(t.start, t.stop) for t in plain.conjuncts()]


def test_what_was_written_has_a_place_and_what_a_macro_made_has_none() -> None:
    there = parse_spans("device.attributes.all(domain, domain != 'x')")
    root = there.parsed.expr
    assert isinstance(root, ast.Comprehension)
    assert there.text(root) == there.source
    assert there.text(root.iter_range) == "device.attributes"
    assert there.span(root.accu_init) is None
    assert there.text(root.accu_init) == ""
    step = root.loop_step
    assert isinstance(step, Call)
    assert there.span(step) is None
    assert there.text(step.args[1]) == "domain != 'x'"


def test_places_are_good_for_the_nodes_that_the_checker_put_in_their_place() -> None:
    source = "ip.isCanonical('1.2.3.4') && (device.driver == 'd')"
    selector = compile_selector(source, Features(kube="1.36"))
    there = parse_spans(source)
    assert [there.text(n) for n in walk(selector.checked.expr) if isinstance(n, Call)] == [
        source, "ip.isCanonical('1.2.3.4')", "device.driver == 'd'"
    ]  # fmt: skip


def test_an_operand_is_found_with_its_parentheses() -> None:
    there = parse_spans('((device.capacity["d"].memory)) >= !!(quantity("40Gi"))')
    root = there.parsed.expr
    assert isinstance(root, Call)
    left, right = root.args
    assert there.text(left) == 'device.capacity["d"].memory'
    assert there.outer_span(left) == (0, 31)
    assert there.source[slice(*(there.outer_span(right) or (0, 0)))] == '!!(quantity("40Gi"))'


def test_deep_nesting_is_refused_or_placed_but_never_breaks() -> None:
    deep = parse_spans("(" * 240 + "a" + ")" * 240)
    assert deep.outer_span(deep.parsed.expr) == (0, 481)
    assert deep.span(deep.parsed.expr) == (240, 241)
    for source in ("(" * 30 + "a", "[" * 600, "!(" * 251 + "a" + ")" * 251, "a" + "[0]" * 400, "a." * 90, ""):
        with pytest.raises(CompileError):
            parse_spans(source)
