"""Fixes for expressions that use another language's syntax: ``=``, ``and``, ``&``, ``24Gi``, typographic quotes.

Each pass fixes the mistake at the position of the first syntax error, until the text parses or no fix applies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from allotment.cel.errors import CompileError
from allotment.cel.source_spans import TextSpan
from allotment.cel.syntax.lexer import Token, tokenize
from allotment.cel.syntax.parser import parse

_MAX_FIXES: Final = 24
_WORD_OPERATORS: Final = {"and": "&&", "or": "||"}
_TYPOGRAPHIC_QUOTES: Final = {**dict.fromkeys("“”„‟«»", '"'), **dict.fromkeys("‘’‚‛‹›", "'")}
#: Token kinds that end an operand outside of brackets.
_OPERAND_ENDS: Final = frozenset({"&&", "||", "?", ":", ",", "EOF", "ERROR"})
#: The unit after the number of an amount of memory.
_MEMORY_UNIT: Final = re.compile("[KMGTPE]i?[Bb]?|k[Bb]?")


class ExpressionMistake(NamedTuple):
    """A mistake in an expression, its replacement (``and``, ``&&``) and its position in the original text."""

    text: str
    replacement: str
    span: TextSpan

    @property
    def sentence(self) -> str:
        """The mistake and its correction, as a sentence."""
        return f"{self.text} is not valid in CEL: write {self.replacement}"


class FixedExpression(NamedTuple):
    """An expression that parses after its mistakes, listed in text order, were fixed."""

    mistakes: tuple[ExpressionMistake, ...]
    expression: str


class _Fix(NamedTuple):
    """A mistake, the whole text after the fix, and the number of code points that the fix adds."""

    mistake: ExpressionMistake
    text: str
    growth: int


def fix_mistakes(source: str) -> FixedExpression | None:
    """Returns the expression with its mistakes fixed; None if it parses already or cannot be fixed.

    >>> fix_mistakes('device.driver = "a" and not x').expression
    'device.driver == "a" && !x'
    """
    text = source
    mistakes: list[ExpressionMistake] = []
    fixes: list[_Fix] = []
    for _ in range(_MAX_FIXES):
        offset = _error_offset(text)
        if offset is None:
            return (
                FixedExpression(tuple(sorted(mistakes, key=lambda mistake: mistake.span)), text) if mistakes else None
            )
        tokens = tokenize(text)
        # The token list ends at a character that starts no token.
        error_token = next((n for n, token in enumerate(tokens) if token.pos == offset), None)
        index = len(tokens) - 1 if tokens[-1].kind == "ERROR" else error_token
        applied = None if index is None else next((c for fix in _FIXES if (c := fix(text, tokens, index))), None)
        if applied is None:
            return None
        mistakes.append(applied.mistake._replace(span=_original_span(applied.mistake.span, fixes)))
        fixes.append(applied)
        text = applied.text
    return None


def _original_span(span: TextSpan, fixes: list[_Fix]) -> TextSpan:
    """Maps a span of the fixed text back to the original text."""
    start, stop = span
    for fix in reversed(fixes):
        fixed_span, growth = fix.mistake.span, fix.growth
        if start >= fixed_span[1] + growth:
            start, stop = start - growth, stop - growth
    return start, stop


def _error_offset(text: str) -> int | None:
    """The offset of the first syntax error; None if the text parses, -1 if the error has no position."""
    try:
        parse(text)
    except CompileError as error:
        if not error.issues or error.issues[0].line < 1:
            return -1
        issue = error.issues[0]
        return sum(len(line) + 1 for line in text.split("\n")[: issue.line - 1]) + max(issue.column, 0)
    return None


def _replacement(text: str, start: int, stop: int, replacement: str) -> _Fix:
    mistake = ExpressionMistake(text[start:stop], replacement, (start, stop))
    return _Fix(mistake, text[:start] + replacement + text[stop:], len(replacement) - (stop - start))


def _fix_equals(text: str, tokens: list[Token], index: int) -> _Fix | None:
    """``=``, ``=>``, ``===`` and ``<>``."""
    pos = tokens[index].pos
    before = tokens[index - 1] if index else None
    if text[pos : pos + 1] == ">" and before is not None and before.kind == "<" and before.pos == pos - 1:
        return _replacement(text, pos - 1, pos + 1, "!=")
    if text[pos : pos + 1] != "=":
        return None
    if before is not None and before.kind in ("==", "!=") and before.pos == pos - 2:
        return _replacement(text, pos - 2, pos + 1, before.kind)
    if text[pos + 1 : pos + 2] in (">", "<"):
        return _replacement(text, pos, pos + 2, f"{text[pos + 1]}=")
    return None if text[pos + 1 : pos + 2] == "~" else _replacement(text, pos, pos + 1, "==")


def _fix_single_operator(text: str, tokens: list[Token], index: int) -> _Fix | None:
    """``&`` and ``|``."""
    pos = tokens[index].pos
    return _replacement(text, pos, pos + 1, text[pos] * 2) if text[pos : pos + 1] in ("&", "|") else None


def _fix_word_operator(text: str, tokens: list[Token], index: int) -> _Fix | None:
    """``and`` and ``or``."""
    token = tokens[index]
    replacement = _WORD_OPERATORS.get(token.text.lower())
    return (
        None
        if replacement is None or token.kind != "IDENT"
        else _replacement(text, token.pos, token.pos + len(token.text), replacement)
    )


def _fix_typographic_quotes(text: str, tokens: list[Token], index: int) -> _Fix | None:
    """``“x”``, quotes as word processors insert them."""
    start = tokens[index].pos
    quote = _TYPOGRAPHIC_QUOTES.get(text[start : start + 1])
    stop = next((n for n in range(start + 1, len(text)) if _TYPOGRAPHIC_QUOTES.get(text[n]) == quote), -1)
    if quote is None or stop < 0:
        return None
    inside = text[start + 1 : stop]
    return None if quote in inside or "\\" in inside else _replacement(text, start, stop + 1, f"{quote}{inside}{quote}")


def _fix_not(text: str, tokens: list[Token], index: int) -> _Fix | None:
    """``not x``, where the syntax error is at ``x``, and ``x not in y``, where it is at ``not``."""
    if tokens[index].text.lower() == "not" and index + 1 < len(tokens) and tokens[index + 1].kind == "in":
        left, right = tokens[_operand_start(tokens, index)], tokens[_operand_end(tokens, index + 2)]
        start, stop = left.pos, right.pos + len(right.text)
        inside = text[start : tokens[index].pos] + text[tokens[index + 1].pos : stop]
        fixed_text = f"{text[:start]}!({inside}){text[stop:]}"
        mistake = ExpressionMistake("not in", "!(… in …)", (tokens[index].pos, tokens[index + 1].pos + 2))
        return _Fix(mistake, fixed_text, len(fixed_text) - len(text))
    if not index or tokens[index - 1].text.lower() != "not" or tokens[index].kind in _OPERAND_ENDS:
        return None
    word, last = tokens[index - 1], tokens[_operand_end(tokens, index)]
    stop = last.pos + len(last.text)
    operand = text[tokens[index].pos : stop]
    is_path = all(t.kind in ("IDENT", ".") for t in tokens[index : _operand_end(tokens, index) + 1])
    fixed_text = f"{text[: word.pos]}{'!' + operand if is_path else f'!({operand})'}{text[stop:]}"
    return _Fix(
        ExpressionMistake(word.text, "!", (word.pos, word.pos + len(word.text))),
        fixed_text,
        len(fixed_text) - len(text),
    )


def _operand_end(tokens: list[Token], index: int) -> int:
    """The last token of the operand of ``&&`` or ``||`` that contains the token at ``index``."""
    depth = 0
    for number in range(index, len(tokens)):
        kind = tokens[number].kind
        if kind in "([{":
            depth += 1
        elif kind in ")]}":
            depth -= 1
        if depth < 0 or (
            depth == 0
            and (kind in _OPERAND_ENDS or (number > index and tokens[number].text.lower() in _WORD_OPERATORS))
        ):
            return max(number - 1, index)
    return len(tokens) - 1


def _operand_start(tokens: list[Token], index: int) -> int:
    """The first token of the operand that ends before the token at ``index``."""
    depth = 0
    for number in range(index - 1, -1, -1):
        kind = tokens[number].kind
        if kind in ")]}":
            depth += 1
        elif kind in "([{":
            depth -= 1
        if depth < 0 or (depth == 0 and (kind in _OPERAND_ENDS or tokens[number].text.lower() in _WORD_OPERATORS)):
            return number + 1
    return 0


def _fix_unquoted_quantity(text: str, tokens: list[Token], index: int) -> _Fix | None:
    """``24Gi``, a quantity without quotes. ``24GB`` is quoted too: its unit is checked elsewhere."""
    unit, number = tokens[index], tokens[index - 1] if index else None
    if number is None or number.kind not in ("INT", "FLOAT") or number.pos + len(number.text) != unit.pos:
        return None
    if unit.kind != "IDENT" or not _MEMORY_UNIT.fullmatch(unit.text):
        return None
    stop = unit.pos + len(unit.text)
    return _replacement(text, number.pos, stop, f'quantity("{text[number.pos : stop]}")')


_FIXES: Final[tuple[Callable[[str, list[Token], int], _Fix | None], ...]] = (
    _fix_equals,
    _fix_single_operator,
    _fix_word_operator,
    _fix_typographic_quotes,
    _fix_not,
    _fix_unquoted_quantity,
)

#: Literals of other languages and their CEL equivalents.
FOREIGN_LITERALS: Final[Mapping[str, str]] = {
    "True": "true",
    "False": "false",
    "TRUE": "true",
    "FALSE": "false",
    "None": "null",
}
