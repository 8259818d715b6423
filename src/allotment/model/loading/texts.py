"""One text, as a file or standard input gives it, to its documents and problems.

A text holds YAML documents between ``---`` lines, JSON values one after another, or a mix. Each document is read by
itself, so that one broken document does not hide the problems of the others. Lists (``List``, ``ResourceClaimList``)
become their items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from allotment.model.loading import jsons, yamls
from allotment.model.loading.documents import Document, Origin
from allotment.model.loading.marks import Duplicate, Fault, Mark
from allotment.model.problems import Position, Problem
from allotment.model.quoting import quote

_SEPARATOR: Final = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
# A chunk that holds directives belongs to the document whose ``---`` line follows it.
_DIRECTIVES: Final = re.compile(r"(?:\s*(?:#[^\n]*)?\n)*%")
_BLANK: Final = re.compile(r"(?:---)?(?:\s|#[^\n]*(?:\n|\Z))*\Z")


class Loaded(NamedTuple):
    """What was read: the documents in order, and everything that could not be read."""

    documents: list[Document]
    problems: list[Problem]


def load_text(source: str | bytes, file: str = "<text>") -> Loaded:
    """The documents of a YAML or JSON text; ``file`` is the name that positions carry.

    >>> load_text("kind: Pod\\nmetadata: {name: a}\\n", "pod.yaml").documents
    [<Document 0 of pod.yaml: Pod a>]
    """
    loaded = Loaded([], [])
    if isinstance(source, bytes):
        try:
            text = source.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            loaded.problems.append(_undecodable(source, error, file))
            return loaded
    else:
        text = source.removeprefix("\ufeff")
    for chunk, first_line in chunks(text):
        try:
            for tree, origin, duplicates in _read(chunk, file, first_line):
                if duplicates:
                    loaded.problems.extend(_duplicate(duplicate, origin) for duplicate in _in_order(duplicates))
                else:
                    _add(loaded, tree, origin)
        except Fault as fault:
            position = Position(file, first_line + fault.line, fault.column + 1)
            loaded.problems.append(Problem(code=fault.code, message=fault.message, position=position, hint=fault.hint))
    return loaded


def chunks(text: str) -> Iterator[tuple[str, int]]:
    """The text cut at its ``---`` lines, each chunk with the number of its first line."""
    starts = [match.start() for match in _SEPARATOR.finditer(text)]
    if not starts:
        yield text, 1
        return
    line = 1
    begin = 0
    for end in [*starts, len(text)]:
        chunk = text[begin:end]
        if end != len(text) and _DIRECTIVES.match(chunk):
            continue
        if not _BLANK.match(chunk):
            yield chunk, line
        line += chunk.count("\n")
        begin = end


def _read(chunk: str, file: str, first_line: int) -> Iterator[tuple[Any, Origin, list[Duplicate]]]:
    start = jsons.start(chunk)
    if start is not None:
        try:
            values = list(jsons.read(chunk, start))
        except Fault as fault:
            # Flow-style YAML opens like JSON. Where YAML fails too, the file's name tells what was meant.
            if fault.code != "bad-json" or file.endswith(".json"):
                raise
        else:
            for value, offset, duplicates in values:
                yield value, Origin(file, first_line, partial(_json_mark, chunk, offset)), duplicates
            return
    for index, (tree, _, duplicates) in enumerate(yamls.read(chunk, first_line)):
        yield tree, Origin(file, first_line, partial(_yaml_mark, chunk, index)), duplicates


def _json_mark(chunk: str, offset: int) -> Mark:
    return jsons.marks(chunk, offset)[0]


def _yaml_mark(chunk: str, nth: int) -> Mark:
    for index, document in enumerate(yamls.read(chunk, with_marks=True)):
        if index == nth:
            assert document.mark is not None
            return document.mark
    raise AssertionError("the text has fewer documents than when it was read first")


def _add(loaded: Loaded, tree: Any, origin: Origin) -> None:
    if tree is None:
        return
    if not isinstance(tree, dict):
        found = "a list" if isinstance(tree, list) else "a single value"
        problem = _problem("not-an-object", f"expected an object, found {found}", origin)
        loaded.problems.append(problem)
        return
    items = tree.get("items")
    kind = tree.get("kind")
    if not (isinstance(kind, str) and kind.endswith("List") and (isinstance(items, list) or items is None)):
        loaded.documents.append(Document(tree, origin, len(loaded.documents)))
        return
    for index, item in enumerate(items or ()):
        if not isinstance(item, dict):
            document = Document(tree, origin, 0)
            position = document.position(("items", index))
            message = f"items[{index}]: expected an object, found {'null' if item is None else _name_of(item)}"
            loaded.problems.append(Problem(code="not-an-object", message=message, position=position))
            continue
        # Items of a typed list may leave out what the list says already.
        if kind != "List" and not ("kind" in item and "apiVersion" in item):
            item = {"apiVersion": tree.get("apiVersion"), "kind": kind.removesuffix("List"), **item}
        loaded.documents.append(Document(item, origin, len(loaded.documents), ("items", index)))


def _in_order(duplicates: list[Duplicate]) -> list[Duplicate]:
    return sorted(duplicates, key=lambda duplicate: (duplicate.line, duplicate.column))


def _name_of(value: Any) -> str:
    return {list: "a list", str: "a string", bool: "a boolean"}.get(type(value), "a number")


def _duplicate(duplicate: Duplicate, origin: Origin) -> Problem:
    return Problem(
        code="duplicate-field",
        message=f"duplicate field {quote(duplicate.path)}",
        position=origin.position(duplicate.line, duplicate.column),
        path=duplicate.path,
        hint=f"first given on line {origin.first_line + duplicate.first_line}",
    )


def _problem(code: str, message: str, origin: Origin) -> Problem:
    mark = origin.mark()
    return Problem(code=code, message=message, position=origin.position(mark.line, mark.column))


def _undecodable(data: bytes, error: UnicodeDecodeError, file: str) -> Problem:
    before = data[: error.start]
    line = before.count(b"\n")
    column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace"))
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    return Problem(
        code="bad-text",
        message=f"not UTF-8: byte 0x{data[error.start]:02X}" + (" (this looks like UTF-16)" if wide else ""),
        position=Position(file, line + 1, column + 1),
        hint="save the file as UTF-8",
    )
