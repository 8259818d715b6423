"""Values as text, in the hand of the file that they are written into.

Strings are quoted only where somebody could read something else in them: what is a number, a date, a boolean or null
to YAML 1.1 or 1.2 is quoted, and so is what the grammar would take apart.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from allotment.model.loading import scalars

# What could not stand unquoted anywhere, or would be another kind of value for some reader of YAML.
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
    """How a file is written: the indentation of fields and of lists below their keys, the quotes, the line ends.

    ``pretty`` is the indentation of JSON over several lines, None where it stands on one; ``comma`` and ``colon`` are
    as they stand in flow style. ``key_quote`` is what most keys stand in, if in any; ``bare``: strings may stand
    without quotes.
    """

    step: int = 2
    dash: int = 0
    quote: str = '"'
    newline: str = "\n"
    pretty: str | None = None
    comma: str = ", "
    colon: str = ": "
    key_quote: str = ""
    bare: bool = True


def is_plain(value: str, *, flow: bool = False) -> bool:
    """Whether a string can stand without quotes and be that string to everybody."""
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
    """A string in quotes: the given ones where that needs no more escapes than the other kind."""
    if _UNPRINTABLE.search(value) or value.count("'") > value.count('"') + value.count("\\"):
        return double_quoted(value)
    if value.count("'") == value.count('"') + value.count("\\"):
        return single_quoted(value) if quote == "'" else double_quoted(value)
    return single_quoted(value)


def single_quoted(value: str) -> str:
    """A printable string of one line in single quotes."""
    return "'" + value.replace("'", "''") + "'"


def double_quoted(value: str) -> str:
    """A string in double quotes."""
    return '"' + "".join(escaped(letter) for letter in value) + '"'


def escaped(letter: str) -> str:
    """A character within double quotes."""
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if not _UNPRINTABLE.match(letter):
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def fits_single_quotes(value: str) -> bool:
    """Whether single quotes can hold a string on one line."""
    return not _UNPRINTABLE.search(value)


# --- flow style and JSON ---------------------------------------------------------------------------------------------


def flow_text(value: Any, hand: TextStyle, *, flow: bool = True) -> str:
    """A value on one line; ``flow`` tells whether it stands within brackets."""
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{key_text(key, hand, flow=True)}: {flow_text(v, hand)}" for key, v in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(flow_text(item, hand) for item in value) + "]"
    if isinstance(value, str):
        return value if hand.bare and is_plain(value, flow=flow) else quoted(value, hand.quote)
    return json.dumps(value)


def key_text(key: str, hand: TextStyle, *, flow: bool = False) -> str:
    """A key of a mapping."""
    if hand.key_quote:
        return quoted(key, hand.key_quote)
    return key if is_plain(key, flow=flow) else quoted(key, hand.quote)


def json_text(value: Any, hand: TextStyle, indent: str = "") -> str:
    """A value as JSON, in a line that is indented by ``indent``."""
    surrogates = isinstance(value, str) and re.search("[\ud800-\udfff]", value) is not None
    if hand.pretty is None or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=surrogates, separators=(hand.comma, hand.colon))
    text = json.dumps(value, ensure_ascii=False, indent=hand.pretty, separators=(",", hand.colon))
    return text.replace("\n", hand.newline + indent)


# --- block style -----------------------------------------------------------------------------------------------------


def is_inline(value: Any) -> bool:
    """Whether block style, too, writes the value on one line."""
    if isinstance(value, str):
        return literal_block(value, 2) is None
    return not value or not isinstance(value, dict | list)


def literal_block(value: str, step: int) -> tuple[str, list[str]] | None:
    """A string of several lines as a literal block: its header, and its lines without indentation.

    None where there is no need, or where no literal can hold it (white space that nobody sees).
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


def block_lines(value: Any, hand: TextStyle) -> list[str]:
    """The lines of a mapping or list that is not empty, in block style, from column 0."""
    lines: list[str] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            name = key_text(key, hand)
            lines += _lines_below(f"{name}:", inner, hand, hand.dash if isinstance(inner, list) else hand.step)
        return lines
    for item in value:
        lines += item_lines(item, hand)
    return lines


def item_lines(item: Any, hand: TextStyle) -> list[str]:
    """The lines of an item of a list, from its dash on."""
    if isinstance(item, dict | list) and item:
        first, *others = block_lines(item, hand)
        return [f"- {first}", *indented(others, 2)]
    return _lines_below("-", item, hand, 2)


def _lines_below(head: str, value: Any, hand: TextStyle, step: int) -> list[str]:
    if isinstance(value, str) and (block := literal_block(value, step)):
        return [f"{head} {block[0]}", *indented(block[1], step)]
    if is_inline(value):
        return [f"{head} {flow_text(value, hand, flow=False)}"]
    return [head, *indented(block_lines(value, hand), step)]


def indented(lines: list[str], by: int) -> list[str]:
    """Lines moved to the right; empty ones stay empty."""
    return [" " * by + line if line else line for line in lines]
