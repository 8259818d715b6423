"""Regular expressions of ``grep``, ``sed``, ``expr`` and ``[[ =~ ]]``, and shell patterns, in linear time.

They come from manifests: an engine that backtracks could block the whole process.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from allotment.cel.regex import CapturingRegex, RegexError, capturing
from allotment.cel.regex import Match as Match
from allotment.node.shell_language.syntax import NotSimulated

Expression = CapturingRegex


@lru_cache(512)
def compiled(expression: str, *, ignore_case: bool = False, across_lines: bool = False) -> Expression:
    """Compile an extended regular expression. Raises NotSimulated for one that is not supported."""
    try:
        return capturing(expression, ignore_case=ignore_case, across_lines=across_lines)
    except RegexError:
        raise NotSimulated(f"the regular expression {expression}"[:200]) from None


_BASIC: Final = frozenset("+?|(){}")


def extended(basic: str) -> str:
    r"""A basic regular expression as an extended one.

    >>> print(extended(r"a+\(b\)\{2\}"), extended("*a"))
    a\+(b){2} \*a
    """
    found, place, inside = "", 0, False
    while place < len(basic):
        letter = basic[place]
        place += 1
        if inside:
            inside = letter != "]" or found.endswith(("[", "[^"))
            found += letter
        elif letter == "\\" and place < len(basic):
            following = basic[place]
            place += 1
            found += following if following in _BASIC else f"\\{following}"
        elif letter == "[":
            inside = True
            found += letter
        elif letter in _BASIC or (letter == "*" and found in ("", "^")):
            found += f"\\{letter}"
        else:
            found += letter
    return found
