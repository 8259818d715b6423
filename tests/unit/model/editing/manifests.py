"""Random documents in random styles, with comments, and random edits of them, for property tests."""

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
    """A random mapping of at most ``depth`` levels."""
    keys = random.sample(KEYS, random.randint(1, 4))
    return {key: value(random, depth - 1) for key in keys}


def value(random: Random, depth: int) -> Any:
    """A random value of any type."""
    kind = random.random()
    if depth <= 0 or kind < 0.4:
        return random.choice(SCALARS)
    if kind < 0.45:
        return random.choice(({}, []))
    if kind < 0.75:
        return tree(random, depth)
    return [value(random, depth - 1) for _ in range(random.randint(1, 3))]


# --- as text ---------------------------------------------------------------------------------------------------------


class ManifestWriter:
    """Writes trees as text in a random style; every comment is unique."""

    def __init__(self, random: Random, comments: float = 0.3) -> None:
        self.random = random
        self.field_indent = random.choice((2, 2, 4))
        self.list_indent = random.choice((0, 0, self.field_indent, 2))
        self.comments = comments
        self.count = 0

    def document(self, tree: dict[str, Any]) -> str:
        """A tree as YAML or JSON text."""
        if self.random.random() < 0.15:
            return json.dumps(tree, indent=self.random.choice((None, 2, 4, "\t")), ensure_ascii=self._chance()) + "\n"
        lines = [*self._comments_above(0), *self._fields(tree, 0), *self._comments_above(0)]
        return "\n".join(lines) + "\n"

    def _chance(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def _comment(self) -> str:
        self.count += 1
        return f"# remark {self.count}"

    def _comments_above(self, column: int) -> list[str]:
        lines: list[str] = []
        while self._chance(self.comments * 0.6):
            lines.append("" if self._chance(0.3) else " " * column + self._comment())
        return lines

    def _trailing_comment(self) -> str:
        return f"{self.random.choice((' ', '   '))}{self._comment()}" if self._chance(self.comments * 0.6) else ""

    def _fields(self, tree: dict[str, Any], column: int) -> Iterator[str]:
        for number, (key, inner) in enumerate(tree.items()):
            if number:
                yield from self._comments_above(column)
            name = key if is_plain(key) and self._chance(0.9) else self._quoted(key)
            yield from self._value(" " * column + name + ":", inner, column, key=True)

    def _value(self, head: str, inner: Any, column: int, *, key: bool) -> Iterator[str]:
        if isinstance(inner, dict | list) and inner and self._chance(0.8):
            if isinstance(inner, dict):
                deeper = column + self.field_indent
                if not key:
                    deeper = column + 2
                    first, *others = self._fields(inner, deeper)
                    yield head + " " + first.lstrip(" ")
                    yield from others
                    return
                yield head + self._trailing_comment()
                yield from self._comments_above(deeper)
                yield from self._fields(inner, deeper)
            else:
                deeper = column + (self.list_indent if key else 2)
                if not key:
                    first, *others = self._items(inner, deeper)
                    yield head + " " + first.lstrip(" ")
                    yield from others
                    return
                yield head + self._trailing_comment()
                yield from self._comments_above(deeper)
                yield from self._items(inner, deeper)
            return
        if isinstance(inner, str) and self._chance(0.4) and (block := self._block(inner, column)):
            yield f"{head} {block[0]}{self._trailing_comment()}"
            yield from block[1]
            return
        yield f"{head} {self._flow(inner, block=True)}{self._trailing_comment()}"

    def _items(self, items: list[Any], column: int) -> Iterator[str]:
        for number, item in enumerate(items):
            if number:
                yield from self._comments_above(column)
            yield from self._value(" " * column + "-", item, column, key=False)

    def _block(self, text: str, column: int) -> tuple[str, list[str]] | None:
        stripped = text.rstrip("\n")
        if (
            not stripped
            or stripped[0] == " "
            or not text.replace("\n", "").isprintable()
            or len(text) - len(stripped) > 1
        ):
            return None
        folded = "\n" not in stripped and self._chance()
        chomping = "" if text.endswith("\n") else "-"
        indent = column + self.random.choice((1, 2, 2, 4))
        lines = stripped.split("\n")
        if folded and "  " not in stripped and not stripped.endswith(" "):
            lines = stripped.split(" ")
        return (">" if folded else "|") + chomping, [" " * indent + line if line else "" for line in lines]

    def _quoted(self, text: str) -> str:
        if text.isprintable() and self._chance():
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
            return inner if is_plain(inner, flow=not block) and self._chance(0.7) else self._quoted(inner)
        if inner is None:
            return "" if block and self._chance(0.4) else self.random.choice(("null", "~"))
        return json.dumps(inner)


# --- edits -----------------------------------------------------------------------------------------------------------


def values_with_paths(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value of a tree with its path."""
    yield path, tree
    if isinstance(tree, dict):
        for key, inner in tree.items():
            yield from values_with_paths(inner, (*path, key))
    elif isinstance(tree, list):
        for number, inner in enumerate(tree):
            yield from values_with_paths(inner, (*path, number))


def edit(random: Random, tree: dict[str, Any]) -> Edit:
    """A random edit that fits a tree."""
    candidates = [candidate for path, inner in values_with_paths(tree) for candidate in _edits(random, path, inner)]
    kind = random.choice(sorted({type(candidate).__name__ for candidate in candidates}))
    return random.choice([candidate for candidate in candidates if type(candidate).__name__ == kind])


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
