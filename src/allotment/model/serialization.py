"""Serializes plain data as JSON or YAML in kubectl's layout.

YAML is written without a library: the data is a tree of dicts, lists and scalars, and importing PyYAML takes longer
than most commands. Strings that a parser could read as another type are quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

# Starts with a letter; no colon or hash where YAML gives them a meaning.
_WORDS = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+=-]*(?:[: ][A-Za-z0-9_./@+=-]+)*")
# 40Gi, 500m, 8.0.0, the dot of managed fields and uids: no YAML parser reads them as numbers or dates.
_AMOUNTS = re.compile(
    r"(?!0[box])[0-9]+(?:\.[0-9]+)?[A-Zac-z][A-Za-z]*|[0-9]+(?:\.[0-9]+){2,}|\.|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_RESERVED = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


def to_json(data: Any) -> str:
    """JSON, indented by four as kubectl does, without a trailing newline."""
    return json.dumps(data, indent=4, ensure_ascii=False)


def to_yaml(documents: Iterable[Any]) -> str:
    """YAML documents, separated by ``---``."""
    return "---\n".join("".join(f"{line}\n" for line in _block(document, 0)) for document in documents)


def _block(value: Any, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _entry(f"{pad}{_scalar(str(key))}:", item, indent)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            first, *rest = _block(item, indent + 2)
            yield f"{pad}- {first[indent + 2 :]}"
            yield from rest
    elif isinstance(value, str) and _is_literal_text(value):
        yield from _literal(value, pad, max(indent, 1))  # a block must be indented deeper than its parent
    else:
        yield pad + _scalar(value)


def _entry(head: str, item: Any, indent: int) -> Iterator[str]:
    if isinstance(item, str) and _is_literal_text(item.lstrip(" ")):
        first, *rest = _literal(item, "", indent + 2)
        yield f"{head} {first}"
        yield from rest
    elif isinstance(item, list | tuple) and item:
        yield head
        yield from _block(item, indent)  # kubectl does not indent lists
    elif isinstance(item, dict) and item:
        yield head
        yield from _block(item, indent + 2)
    else:
        yield f"{head} {_scalar(item)}"


def _is_literal_text(text: str) -> bool:
    """Whether a text has several lines that a literal block represents unchanged."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and bool(lines[0])
        and not lines[0].startswith(" ")
        and all(line.isprintable() and line == line.rstrip() for line in lines)
        and bool(text.strip("\n"))
    )


def _literal(text: str, pad: str, indent: int) -> Iterator[str]:
    body = text.rstrip("\n")
    end = len(text) - len(body)
    # Without its width, a parser would count the indentation of the first line as that of the block.
    yield pad + ("|2" if text.startswith(" ") else "|") + ("-" if end == 0 else "" if end == 1 else "+")
    for line in body.split("\n") + [""] * (end - 1 if end > 1 else 0):
        yield " " * indent + line if line else ""


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        number = json.dumps(value)
        # YAML 1.1 parsers read 1e-05 as a string.
        return number.replace("e", ".0e") if "e" in number and "." not in number else number
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    text = str(value)
    is_plain = _WORDS.fullmatch(text) is not None and text.lower() not in _RESERVED
    return text if is_plain or _AMOUNTS.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    if text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char == "\n":
        return "\\n"
    if char == "\t":
        return "\\t"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
