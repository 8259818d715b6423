"""Source text to tokens.

One regular expression does the whole lexical grammar of CEL. Alternatives stand in the order that makes the
first match the longest one: triple quotes before single ones, floats before integers. Where a quoted form is broken the
pattern falls back to what is left (an empty string, an identifier), as a longest-match lexer would. Repetitions are
possessive, or their alternatives exclude one another, so that a broken literal costs one scan forth and one back. (With
triple quotes they cannot be possessive: re of Python 3.11.2, Debian 12's, takes a lookahead within one for a mismatch.)

A character that starts no token ends the token list with an ``ERROR`` token: everything after it is irrelevant, because
only the first syntax error of a text is promised to have upstream's position.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Kinds of tokens that carry text; operators and keywords are their own kind.
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
    """A token: its kind (an operator or keyword is its own kind), text and code point offset."""

    kind: str
    text: str
    pos: int


def tokenize(source: str) -> list[Token]:
    """All tokens, ending with ``EOF``, or with ``ERROR`` where the text stops making sense.

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
