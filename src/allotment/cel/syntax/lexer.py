"""The CEL lexer.

One regular expression covers the lexical grammar of CEL. Its alternatives are ordered so that the first match is the
longest one: triple quotes before single ones, floats before integers. For an invalid quoted literal the pattern falls
back to a shorter token (an empty string, an identifier), as a longest-match lexer does. Repetitions are possessive or
have mutually exclusive alternatives, so an invalid literal costs one scan forward and one back. (Triple quotes cannot
be possessive: ``re`` of Python 3.11.2, which Debian 12 ships, treats a lookahead inside one as a mismatch.)

A character that starts no token ends the token list with an ``ERROR`` token: only the first syntax error of a text must
have upstream's position.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Token kinds; the kind of an operator or keyword is its text.
INT = "INT"
UINT = "UINT"
FLOAT = "FLOAT"
STRING = "STRING"
BYTES = "BYTES"
IDENT = "IDENT"
ESCAPED = "ESCAPED"
EOF = "EOF"
ERROR = "ERROR"

_KEYWORDS = frozenset({"in", "true", "false", "null"})

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"""

_QUOTED = "|".join(
    (
        rf'"""(?:[^\\"]++|"(?!"")|{_ESCAPE})*"""',
        rf"'''(?:[^\\']++|'(?!'')|{_ESCAPE})*'''",
        rf'"(?:[^\\"\n\r]++|{_ESCAPE})*+"',
        rf"'(?:[^\\'\n\r]++|{_ESCAPE})*+'",
        r'[rR]"""(?:[^"]++|"(?!""))*"""',
        r"[rR]'''(?:[^']++|'(?!''))*'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    )
)

_TOKEN = re.compile(
    rf"""
    (?P<SPACE>[\t\ \r\n\f]+|//[^\n]*)
    |(?P<STRING>{_QUOTED})
    |(?P<BYTES>[bB](?:{_QUOTED}))
    |(?P<IDENT>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    |(?P<INT>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<OP>==|!=|<=|>=|&&|\|\||[\[\]{{}}().,\-!?:+*/%<>])
    |(?P<ESCAPED>`[A-Za-z0-9_./\ -]+`)
    """,
    re.VERBOSE | re.ASCII,
)


class Token(NamedTuple):
    """A token: its kind (for an operator or keyword its text), its text and its code point offset."""

    kind: str
    text: str
    pos: int


def tokenize(source: str) -> list[Token]:
    """All tokens, ending with ``EOF``, or with ``ERROR`` at the first invalid character.

    >>> [t.kind for t in tokenize("a.b == 1u")]
    ['IDENT', '.', 'IDENT', '==', 'UINT', 'EOF']
    """
    tokens: list[Token] = []
    append = tokens.append
    match = _TOKEN.match
    pos = 0
    end = len(source)
    new = tuple.__new__
    while pos < end:
        match_ = match(source, pos)
        if match_ is None:
            append(Token(ERROR, source[pos], pos))
            return tokens
        kind = match_.lastgroup
        stop = match_.end()
        if kind != "SPACE":
            text = source[pos:stop]
            if kind == "OP" or (kind == "IDENT" and text in _KEYWORDS):
                kind = text
            append(new(Token, (kind, text, pos)))
        pos = stop
    append(Token(EOF, "<EOF>", end))
    return tokens
