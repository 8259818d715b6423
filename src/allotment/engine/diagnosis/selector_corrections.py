"""Corrections of selectors that read attributes and capacities in a way that cannot be meant.

The published names of the cluster decide the correction: whether a name is an attribute or a capacity, and its domain.
The caller checks whether the corrected expression compiles and whether the pod fits with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from allotment.cel import common_mistakes, ordering_operators
from allotment.cel.device_references import selection_chain
from allotment.cel.errors import CompileError
from allotment.cel.source_spans import SourceSpans, TextSpan, parse_spans
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, Ident, Node, walk
from allotment.engine.diagnosis.expression_correction import correct_expression
from allotment.engine.diagnosis.published_names import PublishedNames, of_similar_owner, similar_names
from allotment.model.written_amounts import ACCESSORS, quantity_of_number

_KINDS: Final = ("attributes", "capacity")
_COMPARISONS: Final = frozenset({*ordering_operators.ORDERINGS, ast.EQUALS, ast.NOT_EQUALS})
_NUMBERS: Final = frozenset({"int", "uint", "double"})


class SelectorCorrection(NamedTuple):
    """The description of a correction, the corrected expression, and its kind of remedy."""

    text: str
    expression: str
    remedy: Literal["correction", "likely"] = "correction"


class _Edit(NamedTuple):
    """A replacement of a part of an expression, and its description."""

    span: TextSpan
    becomes: str
    text: str


def selector_corrections(expression: str, published: PublishedNames) -> Iterator[SelectorCorrection]:
    """The possible corrections of an expression, the likeliest first; several if a domain is missing.

    >>> names = PublishedNames(1, frozenset({"d.io"}), {"d.io": {"model": frozenset({"string"})}}, {"d.io": {"memory"}})
    >>> [found.expression for found in selector_corrections('device.attributes.model == "a"', names)]
    ['device.attributes["d.io"].model == "a"']
    >>> [found.expression for found in selector_corrections('device.capacity["d.io"].memory.value >= 40', names)]
    ['device.capacity["d.io"].memory.compareTo(quantity("40Gi")) >= 0']
    """
    parsed = common_mistakes.fix_mistakes(expression)
    source = parsed.expression if parsed is not None else expression
    domains = _possible_domains(source, published)
    seen: set[str] = set()
    for domain in domains or [""]:
        read = _apply(source, _reading_edits(source, published, domain))
        compared = _apply(read.expression, _number_edits(read.expression))
        last = correct_expression(compared.expression)
        steps = [f"write {m.replacement} instead of {m.text}" for m in (parsed.mistakes if parsed else ())]
        steps += filter(None, (read.text, compared.text, last.text if last is not None else ""))
        result = last.expression if last is not None else compared.expression
        if result != expression and result not in seen:
            seen.add(result)
            remedy: Literal["correction", "likely"] = "likely" if compared.text else "correction"
            yield SelectorCorrection(", ".join(dict.fromkeys(steps)), result, remedy)


def _apply(source: str, edits: Sequence[_Edit]) -> SelectorCorrection:
    """The expression after edits, which do not overlap."""
    text = source
    for edit in sorted(edits, reverse=True):
        text = text[: edit.span[0]] + edit.becomes + text[edit.span[1] :]
    return SelectorCorrection(", ".join(dict.fromkeys(edit.text for edit in edits)), text)


# --- reading --------------------------------------------------------------------------------------------------------


class _Access(NamedTuple):
    """A chain of selections from ``device``: the constant keys, and the offsets at which they end; the first offset is
    the end of ``device``."""

    keys: list[str]
    ends: list[int]


def _accesses(source: str) -> Iterator[_Access]:
    """The chains of selections from the attributes and capacities of ``device``; none if the text does not parse."""
    try:
        spans = parse_spans(source)
    except CompileError:
        return
    inner: set[int] = set()
    for node in walk(spans.parsed.expr):
        if node.id in inner:
            continue
        base, keys, selections = selection_chain(node)
        inner |= {selection.id for selection in selections}
        found = [spans.span(part) for part in (base, *selections)]
        if isinstance(base, Ident) and base.name == "device" and keys[:1] and keys[0] in _KINDS and all(found):
            yield _Access(keys, [span[1] for span in found if span is not None])


def _is_name(access: _Access, published: PublishedNames) -> bool:
    """Whether the first key after the kind is a name without its domain."""
    keys = access.keys
    return (
        len(keys) > 1
        and keys[1] not in published.domains()
        and (len(keys) == 2 or keys[2] in ACCESSORS)
        and bool(_domains_of(keys[1], published))
    )


def _domains_of(name: str, published: PublishedNames) -> list[str]:
    """The domains in which a name is published, or a similar name if it is published in none."""
    known = {domain: _names_of(domain, published) for domain in published.domains()}
    exact = [domain for domain, names in known.items() if name in names]
    return exact or [domain for domain, names in known.items() if similar_names(name, names)]


def _possible_domains(source: str, published: PublishedNames) -> list[str]:
    """The domains of the names that have none, those of other names first."""
    accesses = list(_accesses(source))
    used = {access.keys[1] for access in accesses if len(access.keys) > 1}
    found = (_domains_of(access.keys[1], published) for access in accesses if _is_name(access, published))
    return sorted({domain for domains in found for domain in domains}, key=lambda domain: (domain not in used, domain))


def _reading_edits(source: str, published: PublishedNames, domain: str) -> list[_Edit]:
    """The corrections of accesses: the missing ``domain``, the other map, and the type of a value read as a field."""
    edits: list[_Edit] = []
    for keys, ends in _accesses(source):
        if _is_name(_Access(keys, ends), published) and domain in _domains_of(keys[1], published):
            kind, name = intended_name(domain, keys[1], keys[0], published)
            edits.append(_Edit((ends[0], ends[2]), f'.{kind}["{domain}"].{name}', f'read {name} from "{domain}"'))
            first = 2
        elif len(keys) > 2:
            actual = _intended_domain(keys[1], keys[2], published)
            kind, name = intended_name(actual, keys[2], keys[0], published)
            if kind != keys[0]:
                text = f'read device.{kind}["{actual}"].{name}'
                is_whole = (actual, name) != (keys[1], keys[2])
                becomes, end = (f'.{kind}["{actual}"].{name}', ends[3]) if is_whole else (f".{kind}", ends[1])
                edits.append(_Edit((ends[0], end), becomes, text))
            first = 3
        else:
            continue
        last = first
        while last < len(keys) and keys[last] in ACCESSORS:
            last += 1
        if last > first:
            noun = "capacity" if kind == "capacity" else "attribute"
            text = f"remove .{'.'.join(keys[first:last])}: in CEL, the {noun} itself is the value"
            edits.append(_Edit((ends[first], ends[last]), "", text))
    return edits


def _intended_domain(domain: str, name: str, published: PublishedNames) -> str:
    """The domain itself, or if nothing is published in it, the most similar one in which the name is published."""
    if domain in published.domains():
        return domain
    return next(iter(similar_names(domain, of_similar_owner(domain, _domains_of(name, published)))), domain)


def intended_name(domain: str, name: str, kind: str, published: PublishedNames) -> tuple[str, str]:
    """The map that contains a name, or a name similar to it, and that name; ``kind`` and ``name`` if no map does."""
    kinds = (kind, *(other for other in _KINDS if other != kind))
    known = {each: _names_of(domain, published, each) for each in kinds}
    exact = ((each, name) for each in kinds if name in known[each])
    similar = ((each, found) for each in kinds for found in similar_names(name, known[each], 1))
    return next(exact, None) or next(similar, (kind, name))


def _names_of(domain: str, published: PublishedNames, *kinds: str) -> set[str]:
    """The names that are published in a domain, as attributes, capacities, or either if no kind is given."""
    maps = {"attributes": published.attributes.get(domain, {}), "capacity": published.capacities.get(domain, ())}
    return {name for kind in kinds or _KINDS for name in maps[kind]}


# --- comparing ------------------------------------------------------------------------------------------------------


def _number_edits(source: str) -> list[_Edit]:
    """The numbers that are compared with capacities, as quantities."""
    try:
        spans = parse_spans(source)
    except CompileError:
        return []
    edits = []
    for node in walk(spans.parsed.expr):
        if isinstance(node, Call) and node.function in _COMPARISONS and len(node.args) == 2:
            for number, other in (node.args, node.args[::-1]):
                edits += _number_edit(spans, number, other)
    return edits


def _number_edit(spans: SourceSpans, number: Node, other: Node) -> list[_Edit]:
    base, keys, _ = selection_chain(other)
    span = spans.span(number)
    is_capacity = isinstance(base, Ident) and base.name == "device" and len(keys) == 3 and keys[0] == "capacity"
    if not is_capacity or span is None or not isinstance(number, Const) or number.kind not in _NUMBERS:
        return []
    guess = quantity_of_number(spans.text(number).rstrip("uU"), keys[2])
    if guess is None:
        return []
    return [_Edit(span, f'quantity("{guess.text}")', f'compare with quantity("{guess.text}")')]
