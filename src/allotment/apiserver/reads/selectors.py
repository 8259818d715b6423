"""Parses and evaluates label and field selectors of lists and watches.

Parsed selectors are cached. Errors have kube-apiserver's messages, which differ for built-in kinds and custom
resources if a field is not selectable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, NoReturn

from allotment.apiserver import api_errors
from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.field_validation import path_segment_problems
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.memo import memoized
from allotment.cluster.errors import StatusError
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, invalid, summary
from allotment.model.validation.names import label_key_problems, label_value_problems

Labels = Mapping[str, str]

_NONE: Final[Labels] = {}
_LEXEMES: Final = re.compile(r"\s*(?:([=!<>(),]+)|([^\s=!<>(),]+))")
_OPERATORS: Final = ("==", "!=", "=", "!", "(", ")", ",", ">", "<")


class Requirement(NamedTuple):
    """A requirement of a label selector. ``operator``: in, notin, exists, !, gt or lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()
    bound: int = 0

    def matches(self, labels: Labels) -> bool:
        """Whether labels satisfy the requirement."""
        value = labels.get(self.key)
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "!":
            return value is None
        try:
            number = int(value) if value is not None and _is_number(value) else None
        except ValueError:
            return False
        return number is not None and (number > self.bound if self.operator == "gt" else number < self.bound)


_is_number = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII).fullmatch


class ObjectSelection(NamedTuple):
    """A label and a field selector. ``name`` and ``namespace`` are set if the field selector fixes them."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[tuple[Callable[[Tree], str], bool, str], ...] = ()
    name: str | None = None
    namespace: str | None = None

    @property
    def matches_all(self) -> bool:
        """Whether all objects match."""
        return not self.labels and not self.fields

    def matches(self, tree: Tree) -> bool:
        """Whether a stored object matches."""
        if self.labels:
            labels = tree["metadata"].get("labels") or _NONE
            for requirement in self.labels:
                if not requirement.matches(labels):
                    return False
        return all((read(tree) == wanted) is equal for read, equal, wanted in self.fields)


EVERYTHING: Final = ObjectSelection()


def parse_selection(kind: ServedKind, version: str, labels: str, fields: str) -> ObjectSelection:
    """Parse the label and field selectors for a kind. Raises StatusError 400."""
    if not labels and not fields:
        return EVERYTHING
    terms = _fields(kind, version, fields) if fields else ()
    fixed = {path: value for path, equal, value in terms if equal}
    return ObjectSelection(
        parse_labels(labels) if labels else (),
        tuple((_reader(kind, version, path), equal, value) for path, equal, value in terms),
        fixed.get("metadata.name"),
        fixed.get("metadata.namespace"),
    )


def exact_name(fields: str) -> str:
    """The name that a field selector requires; empty if there is none or the selector is invalid.

    >>> exact_name("spec.nodeName=n,metadata.name=web")
    'web'
    """
    name = exact_value(fields, "metadata.name")
    return "" if path_segment_problems(name) else name


def exact_value(fields: str, path: str) -> str:
    """The value that a field selector requires for a field; empty if there is none or the selector is invalid."""
    if path not in fields:
        return ""
    try:
        terms = _split(fields)
    except StatusError:
        return ""
    return next((value for term_path, equal, value in terms if equal and term_path == path), "")


# --- labels ----------------------------------------------------------------------------------------------------------


class _Lexer:
    """The tokens of a label selector, with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0

    def peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._position += 1
        return token


def _tokens(text: str) -> Iterator[str]:
    offset = 0
    while match := _LEXEMES.match(text, offset):
        offset = match.end()
        symbols, word = match.groups()
        if word:
            yield word
            continue
        while symbols:
            operator = next(operator for operator in _OPERATORS if symbols.startswith(operator))
            yield operator
            symbols = symbols[len(operator) :]


@memoized(1024)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector into requirements that must all be satisfied. Raises StatusError 400.

    >>> parse_labels("app in (a, b), !old")[1].matches({"old": "1"})
    False
    """
    lexer = _Lexer(text)
    requirements: list[Requirement] = []
    if not lexer.peek():
        return ()
    while True:
        if lexer.peek() in ("", ",", ")", "(", "=", "==", "!=", ">", "<"):
            problem = f"found {_quoted_token(lexer)}, expected: !, identifier, or 'end of string'"
            raise api_errors.bad_request(problem)
        requirements.append(_requirement(lexer))
        token = lexer.take()
        if not token:
            return tuple(requirements)
        if token != ",":
            raise api_errors.bad_request(f"found '{token}', expected: ',' or 'end of string'")
        if lexer.peek() in ("", ",", ")", "(", "=", "==", "!=", ">", "<"):
            raise api_errors.bad_request(f"found {_quoted_token(lexer)}, expected: identifier after ','")


def _quoted_token(lexer: _Lexer) -> str:
    return f"'{lexer.peek()}'"


def _wrong(why: str) -> NoReturn:
    raise api_errors.bad_request(f"unable to parse requirement: {why}")


def _requirement(lexer: _Lexer) -> Requirement:
    absent = lexer.peek() == "!"
    if absent:
        lexer.take()
    key = lexer.peek()
    if key in ("", *_OPERATORS):
        _wrong(f"found {_quoted_token(lexer)}, expected: identifier")
    lexer.take()
    problems = label_key_problems(key)
    if problems:
        _invalid([invalid("key", key, problem) for problem in problems[:1]])
    if absent:
        return Requirement(key, "!")
    operator = lexer.peek()
    if operator in ("", ","):
        return Requirement(key, "exists")
    lexer.take()
    if operator in ("in", "notin"):
        return Requirement(key, operator, _checked(key, _set(lexer)))
    if operator in ("=", "==", "!=", ">", "<"):
        value = lexer.peek()
        if value in (",", ""):
            value = ""
        elif value in _OPERATORS:
            _wrong(f"found {_quoted_token(lexer)}, expected: identifier")
        else:
            lexer.take()
        if operator in (">", "<"):
            if not _is_number(value):
                detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                _invalid([invalid("values[0]", value, detail)])
            return Requirement(key, "gt" if operator == ">" else "lt", bound=int(value))
        return Requirement(key, "notin" if operator == "!=" else "in", _checked(key, [value]))
    _wrong(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _set(lexer: _Lexer) -> list[str]:
    if lexer.peek() != "(":
        _wrong(f"found {_quoted_token(lexer)} expected: '('")
    lexer.take()
    values: list[str] = []
    empty = True
    while True:
        token = lexer.take()
        if token == ")":
            if empty:
                values.append("")
            return list(dict.fromkeys(values))
        if token == ",":
            if empty:
                values.append("")
            empty = True
        elif token in ("", *_OPERATORS):
            _wrong(f"found '{token}', expected: ',', ')' or identifier")
        else:
            if not empty:
                _wrong(f"found '{token}', expected: ',' or ')'")
            values.append(token)
            empty = False


def _checked(key: str, values: list[str]) -> frozenset[str]:
    errors = [
        invalid(f"values[{index}][{key}]", value, problem)
        for index, value in enumerate(values)
        for problem in label_value_problems(value)
    ]
    if errors:
        _invalid(errors)
    return frozenset(values)


def _invalid(errors: list[FieldError]) -> NoReturn:
    _wrong(summary(errors))


# --- fields ----------------------------------------------------------------------------------------------------------

Term = tuple[str, bool, str]


@memoized(1024)
def _split(text: str) -> tuple[Term, ...]:
    """The path, operator (True for equality) and value of each term. Raises StatusError 400."""
    return tuple(_term(term, text) for term in _terms(text) if term)


def _terms(text: str) -> Iterator[str]:
    """Split at commas that are not escaped with a backslash."""
    start, offset = 0, 0
    while offset < len(text):
        if text[offset] == "\\":
            offset += 1
        elif text[offset] == ",":
            yield text[start:offset]
            start = offset + 1
        offset += 1
    yield text[start:]


def _term(term: str, text: str) -> Term:
    offset = 0
    while offset < len(term):
        if term[offset] == "\\":
            offset += 2
            continue
        for operator in ("!=", "==", "="):
            if term.startswith(operator, offset):
                return term[:offset], operator != "!=", _unescaped(term[offset + len(operator) :], text)
        offset += 1
    raise api_errors.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")


def _unescaped(value: str, text: str) -> str:
    out, offset = "", 0
    while offset < len(value):
        character = value[offset]
        if character == "\\":
            offset += 1
            if offset >= len(value) or value[offset] not in "\\,=":
                escaped = value[offset] if offset < len(value) else ""
                raise api_errors.bad_request(f"invalid field selector: invalid escape sequence: \\{escaped}")
            character = value[offset]
        elif character in ",=":
            raise api_errors.bad_request(f"invalid selector: '{text}'; unescaped character in value: {character}")
        out += character
        offset += 1
    return out


def _fields(kind: ServedKind, version: str, text: str) -> tuple[Term, ...]:
    terms = _split(text)
    for path, _, _ in terms:
        if path not in kind.fields_in(version) and path not in _ALWAYS:
            raise api_errors.bad_request(_unknown(kind, version, path))
    return terms


def _unknown(kind: ServedKind, version: str, path: str) -> str:
    if kind.shapes:
        return f"field label not supported: {path}"
    if not kind.fields:
        return f'{quote(path)} is not a known field selector: only "metadata.name", "metadata.namespace"'
    if kind.group == "batch":
        return f"field label {quote(path)} not supported for {kind.kind}"
    if kind.group in ("", "events.k8s.io"):
        return f"field label not supported: {path}"
    return f"field label not supported for {kind.group}/{version}, Kind={kind.kind}: {path}"


def _name(tree: Tree) -> str:
    return str(tree["metadata"]["name"])


def _namespace(tree: Tree) -> str:
    return tree["metadata"].get("namespace") or ""


_ALWAYS: Final[Mapping[str, Callable[[Tree], str]]] = {"metadata.name": _name, "metadata.namespace": _namespace}


def _reader(kind: ServedKind, version: str, path: str) -> Callable[[Tree], str]:
    if path in _ALWAYS:
        return _ALWAYS[path]
    getter = kind.fields_in(version)[path]
    return getter if kind.convert is None else lambda tree: getter(in_version(kind, version, tree))
