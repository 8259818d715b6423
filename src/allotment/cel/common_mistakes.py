"""Expressions that do not parse because another language was meant: ``=``, ``and``, ``&``, ``24Gi``, round quotes.

Slips are mended one after the other, where the parser stumbles, until the text parses or nothing is known to help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from allotment.cel.errors import CompileError
from allotment.cel.source_spans import Extent
from allotment.cel.syntax.lexer import Token, tokenize
from allotment.cel.syntax.parser import parse

_MOST: Final = 24
_WORDS: Final = {"and": "&&", "or": "||"}
_ROUND: Final = {**dict.fromkeys("“”„‟«»", '"'), **dict.fromkeys("‘’‚‛‹›", "'")}
#: What an operand ends at, outside of brackets.
_BOUNDS: Final = frozenset({"&&", "||", "?", ":", ",", "EOF", "ERROR"})
#: What stands behind the number of an amount of memory.
_UNIT: Final = re.compile("[KMGTPE]i?[Bb]?|k[Bb]?")


class Slip(NamedTuple):
    """What was written and where, and what is meant: ``and``, ``&&``."""

    written: str
    meant: str
    extent: Extent


class Mended(NamedTuple):
    """An expression that parses, and the slips that it had, in the order of the text."""

    slips: tuple[Slip, ...]
    expression: str


class _Change(NamedTuple):
    """A slip, the whole text without it, and by how many code points that is longer at its place."""

    slip: Slip
    text: str
    grown: int


def mended(source: str) -> Mended | None:
    """The expression with its slips mended; None where it parses as it is, or not at all.

    >>> mended('device.driver = "a" and not x').expression
    'device.driver == "a" && !x'
    """
    text = source
    slips: list[Slip] = []
    changes: list[_Change] = []
    for _ in range(_MOST):
        place = _stumble(text)
        if place is None:
            return Mended(tuple(sorted(slips, key=lambda slip: slip.extent)), text) if slips else None
        tokens = tokenize(text)
        # What is no token at all hides the tokens behind it.
        stumbled = next((n for n, token in enumerate(tokens) if token.pos == place), None)
        at = len(tokens) - 1 if tokens[-1].kind == "ERROR" else stumbled
        change = None if at is None else next((c for mend in _MENDS if (c := mend(text, tokens, at))), None)
        if change is None:
            return None
        slips.append(change.slip._replace(extent=_back(change.slip.extent, changes)))
        changes.append(change)
        text = change.text
    return None


def _back(extent: Extent, changes: list[_Change]) -> Extent:
    """Where a place of the text so far was before all changes."""
    start, stop = extent
    for change in reversed(changes):
        was, grown = change.slip.extent, change.grown
        if start >= was[1] + grown:
            start, stop = start - grown, stop - grown
    return start, stop


def _stumble(text: str) -> int | None:
    """Where the parser gives up; None for a text that parses, -1 for one that has no such place."""
    try:
        parse(text)
    except CompileError as error:
        if not error.issues or error.issues[0].line < 1:
            return -1
        issue = error.issues[0]
        return sum(len(line) + 1 for line in text.split("\n")[: issue.line - 1]) + max(issue.column, 0)
    return None


def _replaced(text: str, start: int, stop: int, meant: str) -> _Change:
    return _Change(Slip(text[start:stop], meant, (start, stop)), text[:start] + meant + text[stop:],
                   len(meant) - (stop - start))  # fmt: skip


def _assignment(text: str, tokens: list[Token], at: int) -> _Change | None:
    """``=``, ``=>``, ``===`` and ``<>``."""
    pos = tokens[at].pos
    before = tokens[at - 1] if at else None
    if text[pos : pos + 1] == ">" and before is not None and before.kind == "<" and before.pos == pos - 1:
        return _replaced(text, pos - 1, pos + 1, "!=")
    if text[pos : pos + 1] != "=":
        return None
    if before is not None and before.kind in ("==", "!=") and before.pos == pos - 2:
        return _replaced(text, pos - 2, pos + 1, before.kind)
    if text[pos + 1 : pos + 2] in (">", "<"):
        return _replaced(text, pos, pos + 2, f"{text[pos + 1]}=")
    return None if text[pos + 1 : pos + 2] == "~" else _replaced(text, pos, pos + 1, "==")


def _single(text: str, tokens: list[Token], at: int) -> _Change | None:
    """``&`` and ``|``."""
    pos = tokens[at].pos
    return _replaced(text, pos, pos + 1, text[pos] * 2) if text[pos : pos + 1] in ("&", "|") else None


def _word(text: str, tokens: list[Token], at: int) -> _Change | None:
    """``and`` and ``or``."""
    token = tokens[at]
    meant = _WORDS.get(token.text.lower())
    return (
        None
        if meant is None or token.kind != "IDENT"
        else _replaced(text, token.pos, token.pos + len(token.text), meant)
    )


def _round_quotes(text: str, tokens: list[Token], at: int) -> _Change | None:
    """Quotes as a word processor makes them."""
    start = tokens[at].pos
    quote = _ROUND.get(text[start : start + 1])
    stop = next((n for n in range(start + 1, len(text)) if _ROUND.get(text[n]) == quote), -1)
    if quote is None or stop < 0:
        return None
    inside = text[start + 1 : stop]
    return None if quote in inside or "\\" in inside else _replaced(text, start, stop + 1, f"{quote}{inside}{quote}")


def _not(text: str, tokens: list[Token], at: int) -> _Change | None:
    """``not x``, where the parser stumbles over ``x``, and ``x not in y``, where it stumbles over ``not``."""
    if tokens[at].text.lower() == "not" and at + 1 < len(tokens) and tokens[at + 1].kind == "in":
        left, right = tokens[_first(tokens, at)], tokens[_last(tokens, at + 2)]
        start, stop = left.pos, right.pos + len(right.text)
        inside = text[start : tokens[at].pos] + text[tokens[at + 1].pos : stop]
        changed = f"{text[:start]}!({inside}){text[stop:]}"
        slip = Slip("not in", "!(… in …)", (tokens[at].pos, tokens[at + 1].pos + 2))
        return _Change(slip, changed, len(changed) - len(text))
    if not at or tokens[at - 1].text.lower() != "not" or tokens[at].kind in _BOUNDS:
        return None
    word, last = tokens[at - 1], tokens[_last(tokens, at)]
    stop = last.pos + len(last.text)
    operand = text[tokens[at].pos : stop]
    plain = all(t.kind in ("IDENT", ".") for t in tokens[at : _last(tokens, at) + 1])
    changed = f"{text[: word.pos]}{'!' + operand if plain else f'!({operand})'}{text[stop:]}"
    return _Change(Slip(word.text, "!", (word.pos, word.pos + len(word.text))), changed, len(changed) - len(text))


def _last(tokens: list[Token], at: int) -> int:
    """The last token of the operand of ``&&`` or ``||`` that starts, or goes on, at a token."""
    depth = 0
    for number in range(at, len(tokens)):
        kind = tokens[number].kind
        if kind in "([{":
            depth += 1
        elif kind in ")]}":
            depth -= 1
        if depth < 0 or (depth == 0 and (kind in _BOUNDS or (number > at and tokens[number].text.lower() in _WORDS))):
            return max(number - 1, at)
    return len(tokens) - 1


def _first(tokens: list[Token], at: int) -> int:
    """The first token of the operand that ends before a token."""
    depth = 0
    for number in range(at - 1, -1, -1):
        kind = tokens[number].kind
        if kind in ")]}":
            depth += 1
        elif kind in "([{":
            depth -= 1
        if depth < 0 or (depth == 0 and (kind in _BOUNDS or tokens[number].text.lower() in _WORDS)):
            return number + 1
    return 0


def _amount(text: str, tokens: list[Token], at: int) -> _Change | None:
    """``24Gi``, a quantity without quotes; also ``24GB``, which is for others to judge once it is a text."""
    unit, number = tokens[at], tokens[at - 1] if at else None
    if number is None or number.kind not in ("INT", "FLOAT") or number.pos + len(number.text) != unit.pos:
        return None
    if unit.kind != "IDENT" or not _UNIT.fullmatch(unit.text):
        return None
    stop = unit.pos + len(unit.text)
    return _replaced(text, number.pos, stop, f'quantity("{text[number.pos : stop]}")')


_MENDS: Final[tuple[Callable[[str, list[Token], int], _Change | None], ...]] = (
    _assignment,
    _single,
    _word,
    _round_quotes,
    _not,
    _amount,
)

#: Values of other languages by their names there.
VALUES: Final[Mapping[str, str]] = {"True": "true", "False": "false", "TRUE": "true", "FALSE": "false", "None": "null"}
