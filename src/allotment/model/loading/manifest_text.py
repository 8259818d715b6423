"""Splits the text of a file or of standard input into documents and collects its problems.

A text contains YAML documents separated by ``---`` lines, a sequence of JSON values, or both. Each document is parsed
separately, so that a syntax error in one does not hide the problems of the others. Lists (``List``,
``ResourceClaimList``) are replaced by their items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from allotment.model.loading import json_parser, yaml_parser
from allotment.model.loading.documents import Document, Origin
from allotment.model.loading.marks import DocumentError, DuplicateKey, ValueMark
from allotment.model.problems import InputProblem, Position
from allotment.model.quoting import quote

_SEPARATOR: Final = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
# A chunk that holds directives belongs to the document whose ``---`` line follows it.
_DIRECTIVES: Final = re.compile(r"(?:\s*(?:#[^\n]*)?\n)*%")
_BLANK: Final = re.compile(r"(?:---)?(?:\s|#[^\n]*(?:\n|\Z))*\Z")


class LoadResult(NamedTuple):
    """The documents of a text in order, and the problems of the parts that could not be parsed."""

    documents: list[Document]
    problems: list[InputProblem]


def is_manifest_text(source: str) -> bool:
    """Return whether a string is a manifest, with lines or braces, rather than a path."""
    return "\n" in source or source.lstrip().startswith("{")


def load_text(source: str | bytes, file: str = "<text>") -> LoadResult:
    """The documents of a YAML or JSON text; ``file``: the file name in positions.

    >>> load_text("kind: Pod\\nmetadata: {name: a}\\n", "pod.yaml").documents
    [<Document 0 of pod.yaml: Pod a>]
    """
    loaded = LoadResult([], [])
    if isinstance(source, bytes):
        try:
            return load_text(source.decode("utf-8"), file)
        except UnicodeDecodeError as error:
            loaded.problems.append(_encoding_problem(source, error, file))
            return loaded
    text = source.removeprefix("\ufeff")
    for chunk in chunks(text):
        first_line = chunk.first_line
        try:
            for tree, origin, duplicates in _parse_chunk(chunk, file, source):
                if duplicates:
                    loaded.problems.extend(
                        _duplicate_problem(duplicate, origin) for duplicate in _sorted_duplicates(duplicates)
                    )
                else:
                    _add_documents(loaded, tree, origin)
        except DocumentError as error:
            position = Position(file, first_line + error.line, error.column + 1)
            loaded.problems.append(
                InputProblem(code=error.code, message=error.message, position=position, hint=error.hint)
            )
    return loaded


def load_tree(tree: Mapping[str, Any], name: str) -> LoadResult:
    """Return the objects of a tree that has no text; positions contain only its name."""
    loaded = LoadResult([], [])
    _add_documents(loaded, dict(tree), Origin.without_text(name))
    return loaded


class Chunk(NamedTuple):
    """A part of a text that is parsed separately, the number of its first line, and its offset after a BOM."""

    text: str
    first_line: int
    offset: int


def chunks(text: str) -> Iterator[Chunk]:
    """Split a text at its ``---`` lines."""
    starts = [match.start() for match in _SEPARATOR.finditer(text)]
    if not starts:
        yield Chunk(text, 1, 0)
        return
    line = 1
    start = 0
    for end in [*starts, len(text)]:
        chunk = text[start:end]
        if end != len(text) and _DIRECTIVES.match(chunk):
            continue
        if not _BLANK.match(chunk):
            yield Chunk(chunk, line, start)
        line += chunk.count("\n")
        start = end


def _parse_chunk(chunk: Chunk, file: str, source: str) -> Iterator[tuple[Any, Origin, list[DuplicateKey]]]:
    text = chunk.text
    offset = chunk.offset + source.startswith("\ufeff")
    start = json_parser.json_start(text)
    if start is not None:
        try:
            values = list(json_parser.parse(text, start))
        except DocumentError as error:
            # YAML in flow style starts like JSON. If it is neither, the error depends on the file's suffix.
            if error.code != "bad-json" or file.endswith(".json"):
                raise
        else:
            for value, position, duplicates in values:
                marks = partial(_json_mark, position)
                yield value, Origin(file, chunk.first_line, marks, source, text, offset, json=True), duplicates
            return
    for index, (tree, _, duplicates) in enumerate(yaml_parser.parse(text, chunk.first_line)):
        yield tree, Origin(file, chunk.first_line, partial(_yaml_mark, index), source, text, offset), duplicates


def _json_mark(offset: int, text: str) -> ValueMark:
    return json_parser.marks(text, offset)[0]


def _yaml_mark(wanted_index: int, text: str) -> ValueMark:
    for index, document in enumerate(yaml_parser.parse(text, with_marks=True)):
        if index == wanted_index:
            assert document.mark is not None
            return document.mark
    raise DocumentError("bad-yaml", "the text has fewer documents than when it was first read", 0, 0)


def _add_documents(loaded: LoadResult, tree: Any, origin: Origin) -> None:
    if tree is None:
        return
    if not isinstance(tree, dict):
        description = "a list" if isinstance(tree, list) else "a single value"
        problem = _problem("not-an-object", f"expected an object, found {description}", origin)
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
            message = f"items[{index}]: expected an object, found {'null' if item is None else _type_name(item)}"
            loaded.problems.append(InputProblem(code="not-an-object", message=message, position=position))
            continue
        # Items of a typed list may omit apiVersion and kind.
        if kind != "List" and not ("kind" in item and "apiVersion" in item):
            item = {"apiVersion": tree.get("apiVersion"), "kind": kind.removesuffix("List"), **item}
        loaded.documents.append(Document(item, origin, len(loaded.documents), ("items", index)))


def _sorted_duplicates(duplicates: list[DuplicateKey]) -> list[DuplicateKey]:
    return sorted(duplicates, key=lambda duplicate: (duplicate.line, duplicate.column))


def _type_name(value: Any) -> str:
    return {list: "a list", str: "a string", bool: "a boolean"}.get(type(value), "a number")


def _duplicate_problem(duplicate: DuplicateKey, origin: Origin) -> InputProblem:
    return InputProblem(
        code="duplicate-field",
        message=f"duplicate field {quote(duplicate.path)}",
        position=origin.position(duplicate.line, duplicate.column),
        path=duplicate.path,
        hint=f"first set on line {origin.first_line + duplicate.first_line}",
    )


def _problem(code: str, message: str, origin: Origin) -> InputProblem:
    mark = origin.mark()
    return InputProblem(code=code, message=message, position=origin.position(mark.line, mark.column))


def _encoding_problem(data: bytes, error: UnicodeDecodeError, file: str) -> InputProblem:
    before = data[: error.start]
    line = before.count(b"\n")
    column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace"))
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    return InputProblem(
        code="bad-text",
        message=f"not UTF-8: byte 0x{data[error.start]:02X}" + (" (this looks like UTF-16)" if wide else ""),
        position=Position(file, line + 1, column + 1),
        hint="save the file as UTF-8",
    )
