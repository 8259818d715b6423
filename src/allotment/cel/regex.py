"""Regular expressions in RE2 syntax, as Go's ``regexp`` accepts and words them. The only module that knows RE2.

RE2 is linear in the text, which hostile selectors require. Its own syntax differs from Go's in a few corners, which are
refused here, and its error texts are translated to Go's. The library is imported when the first pattern is compiled.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final


class RegexError(ValueError):
    """Raised for a pattern that Go refuses; the text is Go's, starting with ``error parsing regexp:``."""


#: Answers remembered per pattern, and the longest text that is: a fleet has few products and drivers.
_REMEMBERED: Final = 1024
_LONGEST_REMEMBERED: Final = 64


class Regex:
    """A compiled pattern."""

    __slots__ = ("_compiled", "_known", "pattern")

    def __init__(self, pattern: str, compiled: Any) -> None:
        self.pattern = pattern
        self._compiled = compiled
        self._known: dict[str, bool] = {}

    def matches(self, text: str) -> bool:
        """Whether the pattern occurs anywhere in the text."""
        known = self._known.get(text)
        if known is None:
            known = self._compiled.search(text) is not None
            if len(text) <= _LONGEST_REMEMBERED and len(self._known) < _REMEMBERED:
                self._known[text] = known
        return known

    def find(self, text: str) -> str:
        """The leftmost match, empty when there is none."""
        found = self._compiled.search(text)
        return "" if found is None else found.group()

    def find_all(self, text: str, most: int) -> list[str]:
        """Matches from left to right, all of them when ``most`` is negative; as in Go, an empty match that touches
        the match before it does not count."""
        found: list[str] = []
        previous_end = -1
        for match in self._compiled.finditer(text):
            if len(found) == most:
                break
            start, end = match.span()
            if start == end and end == previous_end:
                continue
            previous_end = end
            found.append(match.group())
        return found


_NESTED_REPEAT: Final = 1000
_REFUSED: Final = re.compile(r"\\(?:\\|Q.*?(?:\\E|$)|(C))", re.DOTALL)
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
    """The compiled pattern; RegexError when it is none."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    for refused in _REFUSED.finditer(pattern):
        if refused.group(1):
            raise RegexError(r"error parsing regexp: invalid escape sequence: `\C`")
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise RegexError(_go_text(pattern, error)) from None
    except UnicodeEncodeError:
        raise RegexError(f"error parsing regexp: invalid UTF-8: `{pattern}`") from None
    too_often = _nested_repeats(pattern)
    if too_often is not None:
        raise RegexError(f"error parsing regexp: invalid repeat count: `{too_often}`")
    return Regex(pattern, compiled)


def _go_text(pattern: str, error: Exception) -> str:
    said = error.args[0] if error.args else b""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if text.startswith("trailing \\"):
        return "error parsing regexp: trailing backslash at end of expression: ``"
    for ours, gos in _MESSAGES:
        if text.startswith(ours):
            _, _, culprit = text.partition(": ")
            if gos == "invalid or unsupported Perl syntax" and culprit.startswith(("(?<", "(?P<")):
                # RE2 stops where Go goes on to read a name.
                start = pattern.find(culprit)
                end = pattern.find(">", start) + 1
                return f"error parsing regexp: invalid named capture: `{pattern[start : end or None]}`"
            return f"error parsing regexp: {gos}: `{culprit}`"
    return f"error parsing regexp: expression too large: `{pattern}`"


_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|\{(\d+)(,(\d*))?\}|.", re.DOTALL)


def _nested_repeats(pattern: str) -> str | None:
    """The repetition that Go refuses because counts inside one another multiply beyond 1000."""
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
            if last > _NESTED_REPEAT:
                return text
            groups[-1] = max(groups[-1], last)
        elif text not in ("*", "+", "?"):
            last = 1
    return None
