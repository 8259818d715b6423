"""``-o jsonpath=TEMPLATE`` and ``--for=jsonpath=…``: the templates that kubectl users know.

Text with expressions in braces: paths from the object (``.status.phase``, ``$`` the whole, ``@`` the item of a range),
quoted strings, and ``range … end``. A path may have ``[0]``, ``[-1]``, ``[1:3]``, ``[*]``, ``['key']``, ``[0,2]``,
``..`` for any depth, and filters ``[?(@.type=="Ready")]``. What is not there prints nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

Step = Callable[[Any, Any], Iterable[Any]]

_FIELD = re.compile(r"(?:[^.\[\]{}()|'\"\s\\,=!<>@$*?:]|\\.)+")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_SLICE = re.compile(r"(-?[0-9]*):(-?[0-9]*)(?::([0-9]*))?")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b), "!=": lambda a, b: bool(a != b), "<=": lambda a, b: bool(a <= b),
    ">=": lambda a, b: bool(a >= b), "<": lambda a, b: bool(a < b), ">": lambda a, b: bool(a > b),
}  # fmt: skip


class BadTemplate(ValueError):
    """Raised for a template that cannot be read."""


class _Path(NamedTuple):
    steps: tuple[Step, ...]
    root: bool = False

    def find(self, current: Any, root: Any) -> list[Any]:
        found = [root if self.root else current]
        for step in self.steps:
            found = [value for one in found for value in step(one, root)]
        return found


class _Range(NamedTuple):
    over: _Path
    body: tuple[str | _Path | _Range, ...]


class Template:
    """A template, read."""

    def __init__(self, text: str) -> None:
        relaxed = "{" not in text and text.strip() != ""
        source = f"{{{text if text[0] in '.$@[' else '.' + text}}}" if relaxed else text
        self._nodes = _Reader(source).template()

    def render(self, value: Any) -> str:
        """The text for an object."""
        return "".join(_rendered(self._nodes, value, value))

    def find(self, value: Any) -> list[Any]:
        """What the paths of the template lead to."""
        return [found for node in self._nodes if isinstance(node, _Path) for found in node.find(value, value)]


def _rendered(nodes: Sequence[str | _Path | _Range], current: Any, root: Any) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif isinstance(node, _Path):
            yield " ".join(text_of(value) for value in node.find(current, root))
        else:
            for item in node.over.find(current, root):
                yield from _rendered(node.body, item, root)


def text_of(value: Any) -> str:
    """A value as kubectl prints it.

    >>> text_of("a"), text_of(True), text_of({"a": [1, None]})
    ('a', 'true', '{"a":[1,null]}')
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


class _Reader:
    """One pass over a template."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def template(self) -> tuple[str | _Path | _Range, ...]:
        nodes = self._nodes(inside=False)
        return tuple(nodes)

    def _nodes(self, inside: bool) -> list[str | _Path | _Range]:
        nodes: list[str | _Path | _Range] = []
        while self.at < len(self.text):
            brace = self.text.find("{", self.at)
            if brace != self.at:
                end = brace if brace >= 0 else len(self.text)
                nodes.append(self.text[self.at : end])
                self.at = end
                continue
            self.at += 1
            self._blanks()
            if self._word("end"):
                self._close()
                if not inside:
                    raise BadTemplate("not in range, nothing to end")
                return nodes
            if self._word("range"):
                over = self._path()
                self._close()
                nodes.append(_Range(over, tuple(self._nodes(inside=True))))
                continue
            while not self._close(final=False):
                nodes.append(self._string() if self._peek() in "\"'" else self._path())
        if inside:
            raise BadTemplate("unclosed range: {end} is missing")
        return nodes

    # --- pieces

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _blanks(self) -> None:
        while self._peek().isspace():
            self.at += 1

    def _word(self, word: str) -> bool:
        after = self.text[self.at + len(word) : self.at + len(word) + 1]
        if self.text.startswith(word, self.at) and (after.isspace() or after == "}"):
            self.at += len(word)
            self._blanks()
            return True
        return False

    def _close(self, final: bool = True) -> bool:
        self._blanks()
        if self._peek() == "}":
            self.at += 1
            return True
        if self._peek() == "":
            raise BadTemplate("unclosed action: } is missing")
        if final:
            raise BadTemplate(f"unexpected {self.text[self.at :]!r}")
        return False

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def _string(self) -> str:
        found = self._match(_QUOTED)
        if found is None:
            raise BadTemplate("unterminated quoted string")
        body = found[0][1:-1]
        marks = {"n": "\n", "t": "\t", "r": "\r"}
        return re.sub(r"\\(.)", lambda match: marks.get(match[1], match[1]), body, flags=re.DOTALL)

    def _path(self) -> _Path:
        self._blanks()
        begin = self.at
        root = self._peek() == "$"
        if self._peek() in ("$", "@"):
            self.at += 1
        steps: list[Step] = []
        while True:
            if self.text.startswith("..", self.at):
                self.at += 2
                steps.append(_everything)
                if (field := self._match(_FIELD)) is not None:
                    steps.append(_key(_plain(field[0])))
            elif self._peek() == ".":
                self.at += 1
                if self._peek() == "*":
                    self.at += 1
                    steps.append(_each)
                elif (field := self._match(_FIELD)) is not None:
                    steps.append(_key(_plain(field[0])))
            elif self._peek() == "[":
                self.at += 1
                steps.append(self._bracket())
            else:
                break
        if self.at == begin and (field := self._match(_FIELD)) is not None:  # {metadata.name} will do
            rest = self._path()
            return _Path((_key(_plain(field[0])), *rest.steps))
        if self.at == begin:
            raise BadTemplate(f"unrecognized character in action: {self.text[self.at :][:1]!r}")
        return _Path(tuple(steps), root)

    def _bracket(self) -> Step:
        self._blanks()
        if self.text.startswith("?(", self.at):
            self.at += 2
            step = self._filter()
        else:
            choices: list[Step] = []
            while True:
                self._blanks()
                choices.append(self._choice())
                self._blanks()
                if self._peek() != ",":
                    break
                self.at += 1
            step = choices[0] if len(choices) == 1 else _union(choices)
        self._blanks()
        if self._peek() != "]":
            raise BadTemplate("unterminated array: ] is missing")
        self.at += 1
        return step

    def _choice(self) -> Step:
        if self._peek() in ('"', "'") and self._peek():
            return _key(self._string())
        if self._peek() == "*":
            self.at += 1
            return _each
        if (part := self._match(_SLICE)) is not None:
            numbers = [int(number) if number else None for number in part.groups(default="")]
            return _slice(slice(*numbers))
        if (number := self._match(_NUMBER)) is not None and "." not in number[0]:
            return _index(int(number[0]))
        raise BadTemplate(f"invalid array index {self.text[self.at :].partition(']')[0]!r}")

    def _filter(self) -> Step:
        left = self._operand()
        self._blanks()
        operator = next((sign for sign in _OPERATORS if self.text.startswith(sign, self.at)), "")
        self.at += len(operator)
        right = self._operand() if operator else None
        self._blanks()
        if self._peek() != ")":
            raise BadTemplate("unterminated filter: ) is missing")
        self.at += 1

        def passes(value: Any, root: Any) -> Iterator[Any]:
            for item in value if isinstance(value, list) else ():
                if right is None:
                    if _values(left, item, root):
                        yield item
                    continue
                a, b = _values(left, item, root), _values(right, item, root)
                if a and b and _holds(operator, a[0], b[0]):
                    yield item

        return passes

    def _operand(self) -> Any:
        self._blanks()
        if self._peek() in ('"', "'") and self._peek():
            return [self._string()]
        if self._word_in_filter("true"):
            return [True]
        if self._word_in_filter("false"):
            return [False]
        if (number := self._match(_NUMBER)) is not None:
            return [float(number[0]) if "." in number[0] else int(number[0])]
        return self._path()

    def _word_in_filter(self, word: str) -> bool:
        found = re.compile(rf"{word}\b").match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found is not None


def _values(operand: Any, item: Any, root: Any) -> list[Any]:
    return operand.find(item, root) if isinstance(operand, _Path) else list(operand)


def _holds(operator: str, left: Any, right: Any) -> bool:
    try:
        return _OPERATORS[operator](left, right)
    except TypeError:
        return False


def _plain(field: str) -> str:
    return re.sub(r"\\(.)", r"\1", field)


def _key(name: str) -> Step:
    def step(value: Any, root: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(number: int) -> Step:
    def step(value: Any, root: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= number < len(value):
            yield value[number]

    return step


def _slice(part: slice) -> Step:
    return lambda value, root: value[part] if isinstance(value, list) and part.step != 0 else ()


def _union(choices: Sequence[Step]) -> Step:
    return lambda value, root: [found for choice in choices for found in choice(value, root)]


def _each(value: Any, root: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()


def _everything(value: Any, root: Any) -> Iterator[Any]:
    yield value
    for child in _each(value, root):
        if isinstance(child, dict | list):
            yield from _everything(child, root)
