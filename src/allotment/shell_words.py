r"""Command lines to copy, also with names that no cluster accepts but a snapshot may contain.

`shlex.join` leaves control characters in the quotes. Pasted into a terminal, they end the paste and run the rest; and a
text that changes its direction shows another command than it runs. They are written as escapes, which bash, zsh and ksh
read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def shell_line(words: Iterable[str]) -> str:
    r"""Return words as a command line of printable characters.

    >>> print(shell_line(["allot", "explain", "pod/a b"]))
    allot explain 'pod/a b'
    >>> print(shell_line(["echo", "it's\n\x1b[201~\u202e"]))
    echo $'it\'s\x0a\x1b[201~\u202e'
    """
    return " ".join(shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'" for word in words)


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
