"""Formats values as YAML or JSON text in the style of the file that they are written to.

A string is quoted if a YAML 1.1 or 1.2 parser could read it as a number, a date, a boolean or null, or if the grammar
would split it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from allotment.model.loading import scalars

# Characters and patterns that must not occur in an unquoted string, or that some YAML parser reads as another type.
_INDICATORS: Final = frozenset(",[]{}#&*!|>'\"%@`")
_SPLITTING: Final = re.compile(
    r":(?:\s|\Z)|\s#|\A\s|\s\Z|[^ -~\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_FLOW_SPLITTING: Final = re.compile(r"[,\[\]{}]|:[,\[\]{}]")
_OTHER_KIND: Final = re.compile(
    r"[-+]?[.0-9][-+0-9_.,:eExXoObBa-fA-F]*|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?"
    r"|[-+]?\.(?:inf|nan)|y|n|yes|no|on|off|true|false|null|~|=|<<|",
    re.IGNORECASE,
)
_UNPRINTABLE: Final = re.compile("[^ -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_UNFIT_FOR_LINES: Final = re.compile(
    "[^\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|^ +$", re.MULTILINE
)
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


class TextStyle(NamedTuple):
    """The formatting of a file: the indentation of fields and of lists below their keys, quotes and line breaks.

    ``json_indent``: the indentation of multi-line JSON, or None if it is on one line. ``comma`` and ``colon``: the
    separators in flow style. ``key_quote``: the quote around most keys, or empty. ``allows_unquoted``: strings may be
    written without quotes.
    """

    field_indent: int = 2
    list_indent: int = 0
    quote: str = '"'
    newline: str = "\n"
    json_indent: str | None = None
    comma: str = ", "
    colon: str = ": "
    key_quote: str = ""
    allows_unquoted: bool = True


def is_plain(value: str, *, flow: bool = False) -> bool:
    """Whether every YAML parser reads the unquoted text as this string. ``flow``: within brackets."""
    if value[:1] in _INDICATORS or _OTHER_KIND.fullmatch(value) or not isinstance(_plain(value), str):
        return False
    if value[0] in "-?:" and (len(value) == 1 or value[1].isspace() or flow):
        return False
    if value.startswith(("---", "...")) or _SPLITTING.search(value):
        return False
    return not (flow and _FLOW_SPLITTING.search(value))


def _plain(value: str) -> Any:
    try:
        return scalars.plain_value(value)
    except scalars.ScalarError:
        return None


def quoted(value: str, quote: str = '"') -> str:
    """A quoted string, with the given quotes unless the other kind needs fewer escapes."""
    if _UNPRINTABLE.search(value) or value.count("'") > value.count('"') + value.count("\\"):
        return double_quoted(value)
    if value.count("'") == value.count('"') + value.count("\\"):
        return single_quoted(value) if quote == "'" else double_quoted(value)
    return single_quoted(value)


def single_quoted(value: str) -> str:
    """A printable one-line string in single quotes."""
    return "'" + value.replace("'", "''") + "'"


def double_quoted(value: str) -> str:
    """A string in double quotes."""
    return '"' + "".join(escaped(letter) for letter in value) + '"'


def escaped(letter: str) -> str:
    """A character as it is written within double quotes."""
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if not _UNPRINTABLE.match(letter):
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def fits_single_quotes(value: str) -> bool:
    """Whether a string can be written in single quotes on one line."""
    return not _UNPRINTABLE.search(value)


# --- flow style and JSON ---------------------------------------------------------------------------------------------


def flow_text(value: Any, style: TextStyle, *, flow: bool = True) -> str:
    """A value on one line; ``flow``: it is within brackets."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{key_text(key, style, flow=True)}: {flow_text(v, style)}" for key, v in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow_text(item, style) for item in value) + "]"
    if isinstance(value, str):
        return value if style.allows_unquoted and is_plain(value, flow=flow) else quoted(value, style.quote)
    return json.dumps(value)


def key_text(key: str, style: TextStyle, *, flow: bool = False) -> str:
    """A key of a mapping."""
    if style.key_quote:
        return quoted(key, style.key_quote)
    return key if is_plain(key, flow=flow) else quoted(key, style.quote)


def json_text(value: Any, style: TextStyle, indent: str = "") -> str:
    """A value as JSON, on a line that is indented by ``indent``."""
    surrogates = isinstance(value, str) and re.search("[\ud800-\udfff]", value) is not None
    if style.json_indent is None or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=surrogates, separators=(style.comma, style.colon))
    text = json.dumps(value, ensure_ascii=False, indent=style.json_indent, separators=(",", style.colon))
    return text.replace("\n", style.newline + indent)


# --- block style -----------------------------------------------------------------------------------------------------


def is_inline(value: Any) -> bool:
    """Whether block style writes the value on one line."""
    if isinstance(value, str):
        return literal_block(value, 2) is None
    return not value or not isinstance(value, dict | list)


def literal_block(value: str, step: int) -> tuple[str, list[str]] | None:
    """A multi-line string as a literal block: its header, and its lines without indentation.

    None if the string has one line, or if a literal block cannot represent it (invisible white space).
    """
    if "\n" not in value.rstrip("\n") or _UNFIT_FOR_LINES.search(value) or value.endswith("\n\n"):
        return None
    lines = value.split("\n")
    chomping = "-"
    if not lines[-1]:
        lines.pop()
        chomping = ""
    first = next(line for line in lines if line)
    return f"|{step if first.startswith(' ') else ''}{chomping}", lines


def block_lines(value: Any, style: TextStyle) -> list[str]:
    """The lines of a non-empty mapping or list in block style, starting at column 0."""
    lines: list[str] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            name = key_text(key, style)
            lines += _lines_below(
                f"{name}:", inner, style, style.list_indent if isinstance(inner, list) else style.field_indent
            )
        return lines
    for item in value:
        lines += item_lines(item, style)
    return lines


def item_lines(item: Any, style: TextStyle) -> list[str]:
    """The lines of a list item, including its dash."""
    if isinstance(item, dict | list) and item:
        first, *remaining_lines = block_lines(item, style)
        return [f"- {first}", *indented(remaining_lines, 2)]
    return _lines_below("-", item, style, 2)


def _lines_below(head: str, value: Any, style: TextStyle, step: int) -> list[str]:
    if isinstance(value, str) and (block := literal_block(value, step)):
        return [f"{head} {block[0]}", *indented(block[1], step)]
    if is_inline(value):
        return [f"{head} {flow_text(value, style, flow=False)}"]
    return [head, *indented(block_lines(value, style), step)]


def indented(lines: list[str], width: int) -> list[str]:
    """Indent lines by a number of spaces; empty lines stay empty."""
    return [" " * width + line if line else line for line in lines]
