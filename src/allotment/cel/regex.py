"""Regular expressions with the syntax and error texts of Go's ``regexp``. The only module that uses RE2.

RE2 takes linear time, which hostile selectors require. The few constructs that RE2 accepts and Go does not are rejected
here, and RE2's error texts are translated to Go's. The library is imported when the first pattern is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol


class RegexError(ValueError):
    """Raised for a pattern that Go rejects; the text is Go's, starting with ``error parsing regexp:``."""


#: Cached results per pattern, and the longest text of one: a fleet has few products and drivers.
_MAX_CACHED_TEXTS: Final = 1024
_MAX_CACHED_LENGTH: Final = 64


class Regex:
    """A compiled pattern."""

    __slots__ = ("_compiled", "_cache", "pattern")

    def __init__(self, pattern: str, compiled: Any) -> None:
        self.pattern = pattern
        self._compiled = compiled
        self._cache: dict[str, bool] = {}

    def matches(self, text: str) -> bool:
        """Whether the pattern occurs anywhere in the text."""
        is_match = self._cache.get(text)
        if is_match is None:
            is_match = self._compiled.search(text) is not None
            if len(text) <= _MAX_CACHED_LENGTH and len(self._cache) < _MAX_CACHED_TEXTS:
                self._cache[text] = is_match
        return is_match

    def find(self, text: str) -> str:
        """The leftmost match, or an empty string."""
        found = self._compiled.search(text)
        return "" if found is None else found.group()

    def find_all(self, text: str, limit: int) -> list[str]:
        """Matches from left to right, all if ``limit`` is negative; as in Go, an empty match that touches
        the match before it does not count."""
        found: list[str] = []
        previous_end = -1
        for match in self._compiled.finditer(text):
            if len(found) == limit:
                break
            start, end = match.span()
            if start == end and end == previous_end:
                continue
            previous_end = end
            found.append(match.group())
        return found


class Match(Protocol):
    """A match; group 0 is the whole."""

    def group(self, number: int = 0, /) -> str | None:
        """The text of a group; None if it did not take part."""
        ...

    def start(self, number: int = 0, /) -> int:
        """The index at which a group starts."""
        ...

    def end(self, number: int = 0, /) -> int:
        """The index after a group."""
        ...


class CapturingRegex(Protocol):
    """A compiled pattern with groups."""

    groups: int

    def search(self, text: str, /) -> Match | None:
        """The first match in a text."""
        ...

    def fullmatch(self, text: str, /) -> Match | None:
        """The match of the whole text."""
        ...

    def sub(self, replacement: Callable[[Match], str], text: str, /, count: int = 0) -> str:
        """The text with up to ``count`` matches replaced; 0 for all."""
        ...


#: Memory in bytes that a pattern with groups may take.
_MAX_MEMORY: Final = 2**20


def capturing(pattern: str, *, ignore_case: bool, across_lines: bool) -> CapturingRegex:
    """Compiles a pattern with groups, for text other than CEL. ``across_lines``: ``.`` also matches the end of a line.

    Raises RegexError, with the text of RE2.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.dot_nl = across_lines
    options.max_mem = _MAX_MEMORY
    try:
        compiled: CapturingRegex = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise RegexError(str(error)) from None
    return compiled


_MAX_REPEAT: Final = 1000
_ONE_BYTE_ESCAPE: Final = re.compile(r"\\(?:\\|Q.*?(?:\\E|$)|(C))", re.DOTALL)
_MESSAGES: Final = (
    ("missing ]", "missing closing ]"),
    ("missing )", "missing closing )"),
    ("unexpected )", "unexpected )"),
    ("invalid escape sequence", "invalid escape sequence"),
    ("invalid character class range", "invalid character class range"),
    ("invalid character class", "invalid character class"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("invalid named capture group", "invalid named capture"),
    ("invalid UTF-8", "invalid UTF-8"),
)


@lru_cache(maxsize=1024)
def compile(pattern: str) -> Regex:
    """Compiles a pattern. Raises RegexError."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    for escape in _ONE_BYTE_ESCAPE.finditer(pattern):
        if escape.group(1):
            raise RegexError(r"error parsing regexp: invalid escape sequence: `\C`")
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise RegexError(_go_text(pattern, error)) from None
    except UnicodeEncodeError:
        raise RegexError(f"error parsing regexp: invalid UTF-8: `{pattern}`") from None
    repeat = _nested_repeats(pattern)
    if repeat is not None:
        raise RegexError(f"error parsing regexp: invalid repeat count: `{repeat}`")
    return Regex(pattern, compiled)


def _go_text(pattern: str, error: Exception) -> str:
    raw = error.args[0] if error.args else b""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    if text.startswith("trailing \\"):
        return "error parsing regexp: trailing backslash at end of expression: ``"
    for re2_text, go_text in _MESSAGES:
        if text.startswith(re2_text):
            _, _, culprit = text.partition(": ")
            if go_text == "invalid or unsupported Perl syntax" and culprit.startswith(("(?<", "(?P<")):
                # RE2 stops at the group's start; Go reads on to the end of its name.
                start = pattern.find(culprit)
                end = pattern.find(">", start) + 1
                return f"error parsing regexp: invalid named capture: `{pattern[start : end or None]}`"
            return f"error parsing regexp: {go_text}: `{culprit}`"
    return f"error parsing regexp: expression too large: `{pattern}`"


_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|\{(\d+)(,(\d*))?\}|.", re.DOTALL)


def _nested_repeats(pattern: str) -> str | None:
    """The repetition that Go rejects because the product of nested counts exceeds 1000, or None."""
    if "{" not in pattern:
        return None
    # Each open group: the largest product of counts inside it so far.
    groups = [1]
    last = 1
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if text == "(":
            groups.append(1)
            last = 1
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] = max(groups[-1], last)
        elif token.group(1) is not None:
            low = int(token.group(1))
            high = int(token.group(3)) if token.group(3) else low
            last *= max(low, high)
            if last > _MAX_REPEAT:
                return text
            groups[-1] = max(groups[-1], last)
        elif text not in ("*", "+", "?"):
            last = 1
    return None
