"""Parses YAML text into trees of plain values, from libyaml's events.

It uses events instead of nodes, and an explicit stack instead of recursion, so that hostile nesting results in one
error. Aliases share the value that they refer to; the number of values that they expand to is limited, and a value
that contains itself is an error. A second pass over the same text computes positions on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from allotment.model.loading import scalars
from allotment.model.loading.marks import (
    MAX_DEPTH,
    MAX_PROBLEMS,
    DocumentError,
    DuplicateKey,
    EntryMark,
    Path,
    ValueMark,
    join_path,
)
from allotment.time_limits import check_time

# libyaml if the wheel contains it (ten times faster), else PyYAML's own parser.
Parser: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Characters that YAML does not allow in a text, not even in quotes.
_FORBIDDEN: Final = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEADER: Final = re.compile(r"(?:[&!]\S*\s+)*[|>]([-+0-9]*)")
_MAX_EXPANSION: Final = 1_000_000
_MISSING: Final = object()


class ParsedDocument(NamedTuple):
    """One document: its value, its marks if requested, and its duplicate keys."""

    tree: Any
    mark: ValueMark | None
    duplicates: list[DuplicateKey]


class _Frame:
    """A mapping or sequence that is still open."""

    __slots__ = (
        "anchor", "container", "entries", "items", "key", "key_mark", "key_stop", "lines", "mark", "merges", "size",
        "stop",
    )  # fmt: skip

    def __init__(self, container: dict[str, Any] | list[Any], anchor: str | None, size: int) -> None:
        self.container = container
        self.anchor = anchor
        self.size = size
        self.key: Any = _MISSING
        self.key_mark: Any = None
        self.key_stop = 0
        self.stop = 0
        self.merges: list[Any] | None = None
        self.lines: dict[str, int] = {}
        self.mark: Any = None
        self.entries: dict[str, EntryMark] = {}
        self.items: list[ValueMark] = []


def parse(
    text: str, first_line: int = 1, with_marks: bool = False, *, last_wins: bool = False
) -> Iterator[ParsedDocument]:
    """Yield every document of ``text``. Raises ``DocumentError`` at the first syntax error.

    ``first_line``: the line of the file on which ``text`` starts, for line numbers in hints. ``last_wins``: of a
    repeated key the last value counts, as in API servers; otherwise the first one, to which marks belong.
    """
    control = _FORBIDDEN.search(text)
    if control:
        code = ord(control[0])
        raise DocumentError(
            "bad-text", f"control character U+{code:04X} in the text", *_line_and_column(text, control.start())
        )
    parser = Parser(text)
    try:
        parser.get_event()  # the stream starts
        while not isinstance(parser.peek_event(), yaml.StreamEndEvent):
            parser.get_event()  # the document starts
            yield _Composer(parser, text if with_marks else None, last_wins).compose()
            parser.get_event()  # the document ends
    except yaml.reader.ReaderError as error:
        line, column = _line_and_column(text, error.position)
        raise DocumentError("bad-yaml", f"invalid YAML: {error.reason}", line, column) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        description = ", ".join(part for part in (error.context, error.problem) if part)
        hint = ""
        if error.context_mark and error.problem_mark and error.context_mark.line < error.problem_mark.line:
            hint = f"started on line {first_line + error.context_mark.line}"
        elif mark and text[mark.index : mark.index + 1] == "\t":
            hint = "found a tab: indent YAML with spaces"
        position = (mark.line, mark.column) if mark else (0, 0)
        raise DocumentError("bad-yaml", f"invalid YAML: {description}", *position, hint) from None
    finally:
        parser.dispose()


class _Composer:
    """Builds the tree of one document from events, and its marks if ``text`` is given."""

    def __init__(self, parser: Any, text: str | None, last_wins: bool) -> None:
        self.parser = parser
        self.text = text
        self.last_wins = last_wins
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int, ValueMark | None]] = {}
        self.count = 0
        self.expanded = 0
        self.duplicates: list[DuplicateKey] = []

    def compose(self) -> ParsedDocument:
        get_event = self.parser.get_event
        stack = self.stack
        while True:
            check_time()
            event = get_event()
            kind = type(event)
            mark: ValueMark | None = None
            if kind is yaml.ScalarEvent:
                self.count += 1
                value = self.scalar(event)
                if self.text is not None:
                    start = event.start_mark
                    mark = ValueMark(start.line, start.column, False, None, None, start.index, _stop(self.text, event))
                if event.anchor is not None:
                    self.anchors[event.anchor] = (value, 1, mark)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                if len(stack) >= MAX_DEPTH:
                    raise _document_error(event, "too-deep", f"nested deeper than {MAX_DEPTH} levels")
                self.count += 1
                frame = _Frame({} if kind is yaml.MappingStartEvent else [], event.anchor, self.count)
                frame.mark = event
                if event.anchor is not None:
                    self.anchors[event.anchor] = (_MISSING, 0, None)
                stack.append(frame)
                continue
            elif kind is yaml.AliasEvent:
                value, mark = self.alias(event)
                if mark is not None:
                    mark = mark._replace(alias=(event.start_mark.index, event.end_mark.index))
            else:
                frame = stack.pop()
                value = self.close(frame)
                if self.text is not None:
                    start = frame.mark.start_mark
                    mapping = type(value) is dict
                    block = not frame.mark.flow_style
                    mark = ValueMark(
                        start.line, start.column, block,
                        frame.entries if mapping else None, None if mapping else frame.items,
                        start.index, frame.stop if block else event.end_mark.index,
                    )  # fmt: skip
                if frame.anchor is not None:
                    self.anchors[frame.anchor] = (value, self.count - frame.size + 1, mark)
                event = frame.mark
            if not stack:
                return ParsedDocument(value, mark, self.duplicates)
            self.put(stack[-1], value, mark, event)

    def put(self, frame: _Frame, value: Any, mark: ValueMark | None, event: Any) -> None:
        container = frame.container
        if mark is not None:
            frame.stop = mark.stop if mark.alias is None else mark.alias[1]
        if type(container) is list:
            container.append(value)
            if mark is not None:
                frame.items.append(mark)
            return
        key = frame.key
        if key is _MISSING:
            frame.key = self.key(value, event)
            frame.key_mark = event.start_mark
            frame.key_stop = frame.stop
            return
        frame.key = _MISSING
        if key is None:  # a merge
            self.merge(frame, value, event)
            return
        if key in container:
            self.duplicate(frame, key)
            if self.last_wins:
                container[key] = value
        else:
            container[key] = value
            frame.lines[key] = frame.key_mark.line
        if mark is not None:
            start = frame.key_mark
            frame.entries[key] = EntryMark(start.line, start.column, mark, start.index, frame.key_stop)

    def key(self, value: Any, event: Any) -> str | None:
        if type(value) is str:
            return None if value == "<<" and _is_plain(event) else value
        if type(value) is dict or type(value) is list:
            raise _document_error(
                event, "bad-yaml", "not valid in Kubernetes: a key must be a string, not a list or mapping"
            )
        try:
            return scalars.key_string(value)
        except scalars.ScalarError as error:
            raise _document_error(event, "bad-yaml", f"not valid in Kubernetes: {error}") from None

    def scalar(self, event: Any) -> Any:
        tag = event.tag
        if tag is None:
            return self.resolve_scalar(scalars.plain_value, event) if event.implicit[0] else event.value
        if tag == "!":
            return event.value
        return self.resolve_scalar(lambda text: scalars.tagged_value(tag, text), event)

    def resolve_scalar(self, resolve: Any, event: Any) -> Any:
        try:
            return resolve(event.value)
        except scalars.ScalarError as error:
            raise _document_error(event, "bad-yaml", f"not valid in Kubernetes: {error}") from None

    def alias(self, event: Any) -> tuple[Any, ValueMark | None]:
        anchored = self.anchors.get(event.anchor)
        if anchored is None:
            raise _document_error(
                event, "bad-yaml", f"no anchor &{event.anchor} is defined before alias *{event.anchor}"
            )
        value, size, mark = anchored
        if value is _MISSING:
            raise _document_error(event, "cyclic-anchor", f"anchor &{event.anchor} contains itself")
        self.count += size
        self.expanded += size
        if self.expanded > _MAX_EXPANSION:
            raise _document_error(event, "alias-bomb", f"aliases expand to more than {_MAX_EXPANSION:,} values")
        return value, mark

    def merge(self, frame: _Frame, value: Any, event: Any) -> None:
        sources = value if type(value) is list else [value]
        if not all(type(source) is dict for source in sources):
            raise _document_error(event, "bad-yaml", "map merge requires map or sequence of maps as the value")
        if frame.merges is None:
            frame.merges = []
        frame.merges.extend(sources)

    def close(self, frame: _Frame) -> Any:
        if frame.merges:
            container = frame.container
            assert type(container) is dict
            for source in frame.merges:
                self.expanded += len(source)
                if self.expanded > _MAX_EXPANSION:
                    raise _document_error(
                        frame.mark, "alias-bomb", f"merges expand to more than {_MAX_EXPANSION:,} values"
                    )
                for key, value in source.items():
                    container.setdefault(key, value)
        return frame.container

    def duplicate(self, frame: _Frame, key: str) -> None:
        if len(self.duplicates) < MAX_PROBLEMS:
            steps: Path = tuple(_step(outer) for outer in self.stack[:-1])
            mark = frame.key_mark
            path = join_path((*steps, key))
            self.duplicates.append(DuplicateKey(path, mark.line, mark.column, frame.lines[key]))


def _step(frame: _Frame) -> str | int:
    """The path step of the value being parsed in an open container: an index, a key, ``<<``, or ``?`` for a key."""
    if type(frame.container) is list:
        return len(frame.container)
    if frame.key is _MISSING:
        return "?"
    return "<<" if frame.key is None else str(frame.key)


def _stop(text: str, event: Any) -> int:
    """The end offset of a scalar without its last line break. The parser includes blank lines below a block scalar."""
    start: int = event.start_mark.index
    stop: int = event.end_mark.index
    if event.style not in ("|", ">"):
        return stop
    header = _HEADER.match(text, start)
    keeps = header is not None and "+" in header[1]
    while (line := text.rfind("\n", start, stop)) >= 0 and not text[line:stop].strip(" \t\r\n"):
        stop = line - 1 if text[line - 1] == "\r" else line
        if keeps:
            break
    return stop


def _is_plain(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and bool(event.implicit[0])


def _document_error(event: Any, code: str, message: str) -> DocumentError:
    return DocumentError(code, message, event.start_mark.line, event.start_mark.column)


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n"), offset - (before.rfind("\n") + 1)
