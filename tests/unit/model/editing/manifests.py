"""Random documents in random hands, with comments, and random edits of them: what the properties are tried on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from allotment.model.editing.edits import Edit, InsertItem, Lift, Nest, Remove, RenameKey, ReplaceText, SetValue
from allotment.model.editing.formatting import double_quoted, is_plain, single_quoted
from allotment.model.loading.marks import Path

KEYS = ("name", "spec", "on", "gpu.nvidia.com/type", "8.0", "a b", "x#y", "values", "é", "source", "exactly", "count")
STRINGS = (
    "",
    "a",
    "on",
    "8.0",
    "0123",
    "2024-01-01",
    "null",
    "- x",
    "a: b",
    "a #b",
    "it's",
    'say "x"',
    "back\\slash",
    " lead",
    "trail ",
    "one\ntwo\n",
    "one\n  two\n\nthree",
    "é😀",
    'device.attributes["x"].y == "z" && true',
    "a, b",
    "{x}",
    "tab\t",
    "# no comment",
    "1:30",
    "~",
    "\x01",
    "--- x",
    "one two three four five six",
)
SCALARS: tuple[Any, ...] = (*STRINGS, None, True, False, 0, 1, -7, 8.5, 10**12)


def tree(random: Random, depth: int = 3) -> dict[str, Any]:
    """A mapping."""
    keys = random.sample(KEYS, random.randint(1, 4))
    return {key: value(random, depth - 1) for key in keys}


def value(random: Random, depth: int) -> Any:
    """A value of any kind."""
    kind = random.random()
    if depth <= 0 or kind < 0.4:
        return random.choice(SCALARS)
    if kind < 0.45:
        return random.choice(({}, []))
    if kind < 0.75:
        return tree(random, depth)
    return [value(random, depth - 1) for _ in range(random.randint(1, 3))]


# --- as text ---------------------------------------------------------------------------------------------------------


class Scribe:
    """Somebody who writes trees down, each in a way of their own; every comment is another one."""

    def __init__(self, random: Random, comments: float = 0.3) -> None:
        self.random = random
        self.step = random.choice((2, 2, 4))
        self.dash = random.choice((0, 0, self.step, 2))
        self.comments = comments
        self.count = 0

    def document(self, tree: dict[str, Any]) -> str:
        """A document of YAML or JSON."""
        if self.random.random() < 0.15:
            return json.dumps(tree, indent=self.random.choice((None, 2, 4, "\t")), ensure_ascii=self._maybe()) + "\n"
        lines = [*self._above(0), *self._fields(tree, 0), *self._above(0)]
        return "\n".join(lines) + "\n"

    def _maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def _remark(self) -> str:
        self.count += 1
        return f"# remark {self.count}"

    def _above(self, column: int) -> list[str]:
        lines: list[str] = []
        while self._maybe(self.comments * 0.6):
            lines.append("" if self._maybe(0.3) else " " * column + self._remark())
        return lines

    def _behind(self) -> str:
        return f"{self.random.choice((' ', '   '))}{self._remark()}" if self._maybe(self.comments * 0.6) else ""

    def _fields(self, tree: dict[str, Any], column: int) -> Iterator[str]:
        for number, (key, inner) in enumerate(tree.items()):
            if number:
                yield from self._above(column)
            name = key if is_plain(key) and self._maybe(0.9) else self._quoted(key)
            yield from self._below(" " * column + name + ":", inner, column, key=True)

    def _below(self, head: str, inner: Any, column: int, *, key: bool) -> Iterator[str]:
        if isinstance(inner, dict | list) and inner and self._maybe(0.8):
            if isinstance(inner, dict):
                deeper = column + self.step
                if not key:
                    deeper = column + 2
                    first, *others = self._fields(inner, deeper)
                    yield head + " " + first.lstrip(" ")
                    yield from others
                    return
                yield head + self._behind()
                yield from self._above(deeper)
                yield from self._fields(inner, deeper)
            else:
                deeper = column + (self.dash if key else 2)
                if not key:
                    first, *others = self._items(inner, deeper)
                    yield head + " " + first.lstrip(" ")
                    yield from others
                    return
                yield head + self._behind()
                yield from self._above(deeper)
                yield from self._items(inner, deeper)
            return
        if isinstance(inner, str) and self._maybe(0.4) and (block := self._block(inner, column)):
            yield f"{head} {block[0]}{self._behind()}"
            yield from block[1]
            return
        yield f"{head} {self._flow(inner, block=True)}{self._behind()}"

    def _items(self, items: list[Any], column: int) -> Iterator[str]:
        for number, item in enumerate(items):
            if number:
                yield from self._above(column)
            yield from self._below(" " * column + "-", item, column, key=False)

    def _block(self, text: str, column: int) -> tuple[str, list[str]] | None:
        stripped = text.rstrip("\n")
        if (
            not stripped
            or stripped[0] == " "
            or not text.replace("\n", "").isprintable()
            or len(text) - len(stripped) > 1
        ):
            return None
        folded = "\n" not in stripped and self._maybe()
        chomping = "" if text.endswith("\n") else "-"
        indent = column + self.random.choice((1, 2, 2, 4))
        lines = stripped.split("\n")
        if folded and "  " not in stripped and not stripped.endswith(" "):
            lines = stripped.split(" ")
        return (">" if folded else "|") + chomping, [" " * indent + line if line else "" for line in lines]

    def _quoted(self, text: str) -> str:
        if text.isprintable() and self._maybe():
            return single_quoted(text)
        return double_quoted(text)

    def _flow(self, inner: Any, *, block: bool = False) -> str:
        if isinstance(inner, dict):
            fields = [
                f"{self._quoted(key) if not is_plain(key, flow=True) else key}: {self._flow(v)}"
                for key, v in inner.items()
            ]
            return "{" + self.random.choice((", ", ",")).join(fields) + "}"
        if isinstance(inner, list):
            return "[" + ", ".join(self._flow(item) for item in inner) + "]"
        if isinstance(inner, str):
            return inner if is_plain(inner, flow=not block) and self._maybe(0.7) else self._quoted(inner)
        if inner is None:
            return "" if block and self._maybe(0.4) else self.random.choice(("null", "~"))
        return json.dumps(inner)


# --- edits -----------------------------------------------------------------------------------------------------------


def places(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of a tree with its path."""
    yield path, tree
    if isinstance(tree, dict):
        for key, inner in tree.items():
            yield from places(inner, (*path, key))
    elif isinstance(tree, list):
        for number, inner in enumerate(tree):
            yield from places(inner, (*path, number))


def edit(random: Random, tree: dict[str, Any]) -> Edit:
    """Some edit that fits a tree."""
    fitting = [one for path, inner in places(tree) for one in _edits(random, path, inner)]
    kind = random.choice(sorted({type(one).__name__ for one in fitting}))
    return random.choice([one for one in fitting if type(one).__name__ == kind])


def _edits(random: Random, path: Path, inner: Any) -> Iterator[Edit]:
    if path:
        yield SetValue(path, value(random, random.randint(0, 2)))
        yield Remove(path)
        if isinstance(path[-1], str):
            yield RenameKey(path, f"new {random.choice(KEYS)}")
            if isinstance(inner, dict):
                yield Lift(path)
    if isinstance(inner, dict):
        new = value(random, random.randint(0, 2))
        after = random.choice((None, *inner))
        yield SetValue((*path, "new"), new, after, random.random() < 0.2)
        if inner:
            keys = random.sample(sorted(inner), random.randint(1, len(inner)))
            yield Nest(path, tuple(keys), "under")
    elif isinstance(inner, list):
        yield InsertItem(path, random.randint(0, len(inner)), value(random, random.randint(0, 2)))
    elif isinstance(inner, str):
        start = random.randint(0, len(inner))
        stop = random.randint(start, len(inner))
        yield ReplaceText(path, start, stop, random.choice(("", "x", " y ", "'", '"', "\n", ": ", " #", "é", "a\n  b")))
