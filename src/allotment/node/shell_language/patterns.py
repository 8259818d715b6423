"""Shell patterns (``*``, ``?``, ``[…]``) as regular expressions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from allotment.node.shell_language.regular_expressions import Expression, compiled

_CLASSES: Final = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "space": r"\s", "upper": "A-Z", "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~", "blank": r" \t", "xdigit": "0-9a-fA-F",
}  # fmt: skip
#: Marks a letter of a pattern that is quoted in the script and therefore matches only itself.
QUOTE: Final = "\x00"
_SPECIAL: Final = frozenset("*?[")
_MARKED: Final = re.compile(r"[*?\[\]\\!^-]")
#: Matches nothing.
_NOTHING: Final = r"[^\x00-\x{10FFFF}]"


def quoted(text: str) -> str:
    """The pattern that matches only this text."""
    return _MARKED.sub(lambda found: QUOTE + found.group(), text)


def unquoted(pattern: str) -> str:
    """The text of a pattern, without the marks."""
    return pattern.replace(QUOTE, "")


def is_pattern(text: str) -> bool:
    """Whether a text has a special letter that is not quoted."""
    return any(letter in _SPECIAL and text[place - 1 : place] != QUOTE for place, letter in enumerate(text))


def expression(pattern: str) -> Expression:
    """The compiled pattern.

    >>> bool(expression("a*[0-9]").fullmatch("abc7")), bool(expression("[!a]").fullmatch("a"))
    (True, False)
    """
    return compiled(_text(pattern), across_lines=True)


@lru_cache(512)
def _text(pattern: str, *, greedy: bool = True) -> str:
    found, place = "", 0
    while place < len(pattern):
        letter = pattern[place]
        place += 1
        if letter == QUOTE:
            found += re.escape(pattern[place : place + 1])
            place += 1
        elif letter == "*":
            found += ".*" if greedy else ".*?"
        elif letter == "?":
            found += "."
        elif letter == "[" and (end := _end(pattern, place)) is not None:
            found += _brackets(pattern[place:end])
            place = end + 1
        else:
            found += re.escape(letter)
    return found


def _end(pattern: str, place: int) -> int | None:
    place += int(pattern[place : place + 1] in ("!", "^"))
    place += int(pattern[place : place + 1] == "]")
    while place < len(pattern):
        if pattern.startswith("[:", place) and (end := pattern.find(":]", place)) > 0:
            place = end + 2
        elif pattern[place] == "]":
            return place
        else:
            place += 1
    return None


def _brackets(inside: str) -> str:
    inside = unquoted(inside)
    negated = inside[:1] in ("!", "^")
    inside = inside[int(negated) :]
    found, place = "", 0
    while place < len(inside):
        end = inside.find(":]", place)
        if inside.startswith("[:", place) and end > 0:
            found += _CLASSES.get(inside[place + 2 : end], "")
            place = end + 2
        else:
            found += inside[place] if inside[place] == "-" else re.escape(inside[place])
            place += 1
    if not found:
        return _NOTHING
    # A "-" at either end is a letter.
    if found.startswith("-"):
        found = f"\\{found}"
    try:
        re.compile(f"[{found}]")
    except re.error:
        return _NOTHING
    return f"[{'^' if negated else ''}{found}]"


def trimmed(value: str, operator: str, pattern: str) -> str:
    """The value of ``${name#pattern}``, ``##``, ``%`` and ``%%``.

    >>> trimmed("a.b.c", "#", "*."), trimmed("a.b.c", "%%", ".*")
    ('b.c', 'a')
    """
    greedy = len(operator) == 2
    body = f"(?:{_text(pattern, greedy=greedy)})"
    if operator.startswith("#"):
        found = compiled(f"^{body}", across_lines=True).search(value)
        return value[found.end() :] if found else value
    # The longer the text before it, the shorter the suffix.
    found = compiled(f"^(.*{'?' if greedy else ''}){body}$", across_lines=True).search(value)
    return value[: found.end(1)] if found else value


def replaced(value: str, operator: str, pattern: str, text: str) -> str:
    """The value of ``${name/pattern/text}`` and, for all matches, ``//``.

    >>> replaced("a-b-c", "//", "-", "+")
    'a+b+c'
    """
    if not pattern:
        return value
    return expression(pattern).sub(lambda _: text, value, 0 if operator == "//" else 1)
