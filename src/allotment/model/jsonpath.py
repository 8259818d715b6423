"""JSONPath, for kubectl's options (``-o jsonpath=``, ``--for=jsonpath=``), printer columns and selectable fields.

A template is text with actions in braces. An action is a chain of steps; each step is applied to all results of the
previous one: ``.field``, ``['key']``, ``[0]``, ``[-1]``, ``[1:3]``, ``[*]``, ``[0,2]``, ``..`` for any depth, filters
such as ``[?(@.type=="Ready")]``, and quoted text. ``{range …}`` repeats its body, up to ``{end}``, for each result.
``$`` and ``@`` both refer to the current object. A missing field has no results; an index or a filter that does not fit
its value is an error. The reference is ``k8s.io/client-go/util/jsonpath``, which kubectl and kube-apiserver share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from allotment.model.validation.gotext import float_text, json_text

#: Maps the results of the previous step to the results of this step. Raises EvaluationError.
Step = Callable[[list[Any]], list[Any]]

_TERMINATORS: Final = r" \t\r\n.,\[\]$@{}"
_FIELD: Final = re.compile(rf"(?:\\[\s\S]?|[^\\{_TERMINATORS}])*")
_IDENTIFIER: Final = re.compile(rf"[^\W\d][^{_TERMINATORS}]*")
_NUMBER: Final = re.compile(r"[+-]?[0-9.]*")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_BRACKETS: Final = re.compile(r"\[([^\]\n]*)\]")
_KEY: Final = re.compile(r"'([^']*)'")
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+?)$")
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))", re.DOTALL
)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INT64: Final = range(-(2**63), 2**63)
_TYPES: Final = {
    dict: "map[string]interface {}", str: "string", bool: "bool", int: "int64", float: "float64", type(None): "nil",
}  # fmt: skip
#: A single action, with or without braces.
_SINGLE_ACTION: Final = re.compile(r"\{([^{}]+)\}|([^{}]+)")
_KEYWORDS: Final = ("range", "end", "true", "false")
_MAX_DEPTH: Final = 50


class TemplateError(ValueError):
    """Raised for a syntax error in a template."""


class EvaluationError(ValueError):
    """Raised if a template does not fit an object."""


class _Range(NamedTuple):
    """``{range …}``: the steps to the values to iterate over, and the repeated nodes."""

    over: tuple[Step, ...]
    body: tuple[_Node, ...]


#: Text, an action, or a range.
_Node = str | tuple[Step, ...] | _Range


class Template:
    """A parsed template."""

    def __init__(self, nodes: tuple[_Node, ...]) -> None:
        self._nodes = nodes

    def results(self, value: Any) -> list[list[Any]]:
        """The results of each node of the template, in order. Raises EvaluationError."""
        return list(_evaluate(self._nodes, value))

    def first(self, value: Any) -> list[Any]:
        """The results of the first node of the template. Raises EvaluationError."""
        return next(_evaluate(self._nodes, value), [])

    def render(self, value: Any) -> str:
        """Return the text for an object. Raises EvaluationError."""
        return "".join(" ".join(map(text_of, results)) for results in _evaluate(self._nodes, value))


@lru_cache(1024)
def parse(text: str) -> Template:
    r"""Parse a template. Raises TemplateError.

    >>> parse("{.a[?(@.b=='c')].d}, {.e}").render({"a": [{"b": "c", "d": 1}], "e": {"f": None}})
    '1, {"f":null}'
    >>> parse(r"{.a.b\.c}").render({"a": {"b.c": True}})
    'true'
    """
    nodes, _ = _Reader(text).nodes()
    return Template(tuple(nodes))


def relax(text: str) -> str:
    """Add missing braces and a missing leading dot to a template of a single action.

    >>> relax("metadata.name"), relax("{metadata.name}"), relax(".a"), relax("{.a} {.b}")
    ('{.metadata.name}', '{.metadata.name}', '{.a}', '{.a} {.b}')
    """
    single = _SINGLE_ACTION.fullmatch(text)
    if single is None or not (body := (single[1] or single[2]).strip()):
        return text
    identifier = _IDENTIFIER.match(body)
    return f"{{.{body}}}" if identifier and identifier[0] not in _KEYWORDS else f"{{{body}}}"


def text_of(value: Any) -> str:
    """A value as kubectl prints it.

    >>> text_of("a"), text_of(True), text_of(None), text_of(2.5e6), text_of({"b": [1, None], "a": "<"})
    ('a', 'true', 'null', '2.5e+06', '{"a":"\\\\u003c","b":[1,null]}')
    """
    if isinstance(value, str):
        return value
    return float_text(value) if isinstance(value, float) else json_text(value)


def _evaluate(nodes: Sequence[_Node], value: Any) -> Iterator[list[Any]]:
    for node in nodes:
        if isinstance(node, str):
            yield [node]
        elif isinstance(node, _Range):
            for item in _apply_steps(node.over, [value]):
                yield from _evaluate(node.body, item)
        else:
            yield _apply_steps(node, [value])


def _apply_steps(steps: Sequence[Step], values: list[Any]) -> list[Any]:
    for step in steps:
        values = step(values)
    return values


# --- parser ----------------------------------------------------------------------------------------------------------


class _Reader:
    """Parses a template in one pass."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def nodes(self, depth: int = 0) -> tuple[list[_Node], bool]:
        """Parse up to the end of the text or, in a range, to its ``{end}``; also returns whether that was found."""
        if depth > _MAX_DEPTH:
            raise TemplateError("ranges are nested too deeply")
        nodes: list[_Node] = []
        while self._at < len(self._text):
            brace = self._text.find("{", self._at)
            if brace != self._at:
                end = brace if brace >= 0 else len(self._text)
                nodes.append(self._text[self._at : end])
                self._at = end
                continue
            keyword, steps = self._action()
            if keyword == "end":
                if not depth:
                    raise TemplateError("not in range, nothing to end")
                return nodes, True
            if keyword == "range":
                body, terminator = self.nodes(depth + 1)
                nodes.append(_Range(steps, tuple(body)))
                if not terminator:  # as upstream: the rest applies to each value, and then again to the object itself
                    nodes += body
            else:
                nodes.append(steps)
        return nodes, False

    def _action(self) -> tuple[str, tuple[Step, ...]]:
        """Parse the action at the current brace: ``range``, ``end`` or an empty string, and its steps."""
        self._at += 1
        keyword, steps = "", list[Step]()
        while (character := self._peek()) != "}":
            if character in ("", "\r", "\n"):
                raise TemplateError("unclosed action: } is missing")
            if character in " @$":
                self._at += 1
            elif self._text.startswith("[?(", self._at):
                steps.append(self._filter())
            elif character == "[":
                steps += self._brackets()
            elif self._text.startswith("..", self._at):
                steps += self._descent(steps)
            elif character == ".":
                self._at += 1
                steps.append(self._field())
            elif character in "\"'":
                steps.append(_constant(self._string(character)))
            elif character in "+-" or character.isdigit():
                steps.append(self._number())
            elif (name := self._match(_IDENTIFIER)) in ("true", "false"):
                steps.append(_for_each(name == "true"))
            elif name in ("range", "end") and not (keyword or steps):
                keyword = name
            elif name:
                raise TemplateError(f"unrecognized identifier {name}: a field starts with a dot, as .{name}")
            else:
                raise TemplateError(f"unrecognized character in action: {character!r}")
        self._at += 1
        return keyword, tuple(steps)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _field(self) -> Step:
        name = self._match(_FIELD)
        return _all_children if name == "*" else _key(name.replace("\\", ""))

    def _descent(self, before: Sequence[Step]) -> list[Step]:
        if before and before[-1] is _descendants:
            raise TemplateError("a second .. directly after the first")
        self._at += 2
        character = self._peek()
        return [_descendants, self._field()] if character == "_" or character.isalnum() else [_descendants]

    def _number(self) -> Step:
        text = self._match(_NUMBER)
        if _INTEGER.fullmatch(text) and int(text) in _INT64:
            return _for_each(int(text))
        try:
            return _for_each(float(text))
        except ValueError:
            raise TemplateError(f"not a number: {text or self._peek()}") from None

    def _string(self, quote: str) -> str:
        end = self._at + 1
        while (end := self._text.find(quote, end)) >= 0 and self._text[end - 1] == "\\":
            end += 1
        if end < 0 or "\n" in (body := self._text[self._at + 1 : end]):
            raise TemplateError(f"unterminated quoted string: {quote} is missing")
        self._at = end + 1
        return _ESCAPE.sub(lambda match: _unescape(match, quote), body)

    def _brackets(self) -> Sequence[Step]:
        match = _BRACKETS.match(self._text, self._at)
        if match is None:
            raise TemplateError("unterminated array: ] is missing")
        self._at = match.end()
        parts = match[1].split(",")
        if len(parts) > 1:
            return (_union([_parse_steps(f"[{part.strip(' ')}]") for part in parts]),)
        if key := _KEY.fullmatch(match[1]):
            return _parse_steps(f".{key[1]}")
        bounds = _SLICE.fullmatch(":" if match[1] == "*" else match[1])
        if bounds is None:
            raise TemplateError(f"invalid array index {match[1]}")
        start, end, step = bounds.groups()
        if end is None:  # an index is a slice of length 1
            first = _parse_int(start) or 0
            return (_slice(first, first + 1, _parse_int(step), index=True),)
        return (_slice(_parse_int(start), _parse_int(end), _parse_int(step)),)

    def _filter(self) -> Step:
        start = self._at = self._at + 3
        quote, quoted = "", False  # only the first quoted string can contain a parenthesis
        while (character := self._peek()) != ")" or (quote and not quoted):
            if character in ("", "\n"):
                raise TemplateError("unterminated filter: ) is missing")
            if character in "\"'":
                if not quote:
                    quote = character
                elif character == quote and self._text[self._at - 1] != "\\":
                    quoted = True
            self._at += 1
        text = self._text[start : self._at]
        if not self._text.startswith(")]", self._at):
            raise TemplateError("unterminated filter: ] is missing")
        self._at += 2
        comparison = _COMPARISON.fullmatch(text)
        if comparison is None:
            return _exists_filter(_parse_steps(text))
        left, operator, right = comparison.groups()
        return _comparison_filter(_parse_steps(left), operator, _parse_steps(right))


def _parse_steps(text: str) -> tuple[Step, ...]:
    """Parse an action without its braces."""
    keyword, steps = _Reader(f"{{{text}}}")._action()
    if keyword:
        raise TemplateError(f"{keyword} is not the first word of an action")
    return steps


def _parse_int(text: str | None) -> int | None:
    digits = (text or "").removeprefix(":")
    if digits == "-":
        raise TemplateError("array index - is not a number")
    return int(digits) if digits else None


def _unescape(match: re.Match[str], quote: str) -> str:
    plain, *codes, octal, _ = match.groups()
    if plain and (plain not in "'\"" or plain == quote):
        return _ESCAPED.get(plain, plain)
    if octal:
        return chr(int(octal, 8))
    code = next((code for code in codes if code), None)
    if code is None or int(code, 16) > 0x10FFFF:
        raise TemplateError(f"unknown escape in a quoted string: {match[0]}")
    return chr(int(code, 16))


# --- steps -----------------------------------------------------------------------------------------------------------


def _constant(text: str) -> Step:
    return lambda values: [text]


def _for_each(constant: Any) -> Step:
    return lambda values: [constant] * len(values)


def _key(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, str):  # Go's strings are bytes
        return list(value.encode(errors="replace"))
    return value if isinstance(value, list) else []


def _all_children(values: list[Any]) -> list[Any]:
    return [child for value in values for child in _children(value)]


def _descendants(values: list[Any]) -> list[Any]:
    """The values and all their descendants that have children."""
    result: list[Any] = []
    for value in values:
        if children := _children(value):
            result.append(value)
            result += _descendants(children)
    return result


def _union(choices: Sequence[Sequence[Step]]) -> Step:
    return lambda values: [value for steps in choices for value in _apply_steps(steps, values)]


def _slice(start: int | None, end: int | None, step: int | None, *, index: bool = False) -> Step:
    def sliced(values: list[Any]) -> list[Any]:
        result: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise EvaluationError(f"{_TYPES[type(value)]} is not array or slice")
            length = len(value)
            first, last = start or 0, length if end is None else end
            first += length if first < 0 else 0
            last += length if last < 0 or (last == 0 and index) else 0
            if first == last:
                return result
            if not 0 <= first < length:
                raise EvaluationError(f"array index out of bounds: index {first}, length {length}")
            if not 0 <= last <= length:
                raise EvaluationError(f"array index out of bounds: index {last - 1}, length {length}")
            if first > last:
                raise EvaluationError(f"starting index {first} is greater than ending index {last}")
            if step is not None and step <= 0:
                raise EvaluationError("step must be > 0")
            result += value[first : last : step or 1]
        return result

    return sliced


def _exists_filter(path: Sequence[Step]) -> Step:
    def exists(item: Any) -> bool:
        try:
            return bool(_apply_steps(path, [item]))
        except EvaluationError:
            return True  # as upstream, which ignores the error

    return lambda values: [item for value in values for item in _require_list(value) if exists(item)]


def _comparison_filter(left: Sequence[Step], operator: str, right: Sequence[Step]) -> Step:
    def matches(item: Any) -> bool:
        sides = []
        for path in (left, right):
            matches_found = _apply_steps(path, [item])
            if not matches_found:
                return False
            if len(matches_found) > 1:
                raise EvaluationError("can only compare one element at a time")
            sides.append(matches_found[0])
        return _compare(operator, *sides)

    return lambda values: [item for value in values for item in _require_list(value) if matches(item)]


def _require_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise EvaluationError(f"{text_of(value)} is not array or slice and cannot be filtered")
    return value


def _compare(operator: str, left: Any, right: Any) -> bool:
    if operator not in ("==", "!=", "<", "<=", ">", ">="):
        raise EvaluationError(f"unrecognized filter operator {operator}")
    for value in (left, right):
        if isinstance(value, dict | list) or value is None:
            raise EvaluationError("invalid type for comparison")
    if type(left) is not type(right):
        raise EvaluationError("incompatible types for comparison")
    if operator in ("==", "!="):
        return bool(left == right) is (operator == "==")
    if isinstance(left, bool):
        raise EvaluationError("invalid type for comparison")
    if operator in ("<", "<="):
        return bool(left < right or (operator == "<=" and left == right))
    return bool(left > right or (operator == ">=" and left == right))
