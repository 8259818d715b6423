"""Parser of the POSIX shell subset that manifests use.

It covers ``;``, ``&``, ``&&``, ``||``, pipes, ``while``, ``until``, ``for``, ``if``, braces, parentheses, quotes,
variables and ``$(…)``. Redirections are parsed and ignored: a simulated container has no files.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ShellSyntaxError(ValueError):
    """Raised for a shell syntax error; the text names the token."""


class Piece(NamedTuple):
    """A part of a word. ``kind``: text, variable or command. A ``quoted`` piece is not split at blanks."""

    kind: str
    text: str
    quoted: bool


Word = tuple[Piece, ...]


class Command(NamedTuple):
    """A simple command; assignments come first."""

    words: tuple[Word, ...]


class Pipeline(NamedTuple):
    """A pipeline: the output of each part is the input of the next."""

    parts: tuple[Node, ...]


class CommandList(NamedTuple):
    """A list of nodes, each with the operator before it (``;``, ``&&``, ``||``) and whether it runs in background."""

    parts: tuple[tuple[str, Node, bool], ...]


class WhileLoop(NamedTuple):
    """``while`` or ``until`` (``wanted`` is False)."""

    condition: Node
    body: Node
    wanted: bool


class ForLoop(NamedTuple):
    """A ``for`` loop over words."""

    name: str
    words: tuple[Word, ...]
    body: Node


class IfStatement(NamedTuple):
    """``if``: conditions with their bodies, and the ``else`` body."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


Node = Command | Pipeline | CommandList | WhileLoop | ForLoop | IfStatement

_OPERATORS: Final = (";;", "&&", "||", ";", "&", "|", "(", ")", "\n")
_ENDS: Final = frozenset({"done", "do", "then", "else", "elif", "fi", "}", ")"})
_DEEPEST: Final = 50


class _Token(NamedTuple):
    operator: str
    word: Word = ()

    @property
    def plain(self) -> str:
        """The text of a word without quotes and variables, as for reserved words; else empty."""
        if len(self.word) == 1 and self.word[0].kind == "text" and not self.word[0].quoted:
            return self.word[0].text
        return ""


def parse(text: str) -> Node:
    """Parse a script.

    Raises ShellSyntaxError.

    >>> parse("echo hello; sleep 5").parts[1][1].words[1][0].text
    '5'
    """
    reader = _Reader(_tokens(text))
    node = reader.chain()
    if reader.here:
        raise ShellSyntaxError(f"syntax error near unexpected token `{reader.here.operator or reader.here.plain}'")
    return node


class _Reader:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0

    @property
    def here(self) -> _Token | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def chain(self) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ShellSyntaxError("nested too deeply")
        parts: list[tuple[str, Node, bool]] = []
        joint = ";"
        while True:
            self._skip("\n", ";")
            token = self.here
            if token is None or token.operator in (")", ";;") or token.plain in _ENDS:
                break
            node = self._pipe()
            token = self.here
            operator = token.operator if token else ""
            parts.append((joint, node, operator == "&"))
            if operator not in ("&&", "||", ";", "&", "\n"):
                break
            self.place += 1
            joint = operator if operator in ("&&", "||") else ";"
        self.depth -= 1
        return CommandList(tuple(parts))

    def _skip(self, *operators: str) -> None:
        while self.here and not self.here.word and self.here.operator in operators:
            self.place += 1

    def _pipe(self) -> Node:
        parts = [self._command()]
        while self.here and self.here.operator == "|":
            self.place += 1
            self._skip("\n")
            parts.append(self._command())
        return parts[0] if len(parts) == 1 else Pipeline(tuple(parts))

    def _command(self) -> Node:
        token = self.here
        if token is None:
            raise ShellSyntaxError("syntax error: unexpected end of file")
        if token.operator == "(":
            return self._between(")")
        reserved = {"while": self._loop, "until": self._loop, "for": self._each, "if": self._choice}
        if token.plain in reserved:
            return reserved[token.plain]()
        if token.plain == "{":
            return self._between("}")
        words = self._words()
        if not words:
            raise ShellSyntaxError(f"syntax error near unexpected token `{token.operator.strip() or 'newline'}'")
        return Command(words)

    def _words(self) -> tuple[Word, ...]:
        words: list[Word] = []
        while (token := self.here) is not None and token.word:
            words.append(token.word)
            self.place += 1
        return tuple(words)

    def _between(self, end: str) -> Node:
        self.place += 1
        node = self.chain()
        self._expect(end)
        return node

    def _expect(self, *words: str) -> str:
        token = self.here
        found = (token.operator or token.plain) if token else ""
        if found not in words:
            raise ShellSyntaxError(f"syntax error: expected `{words[0]}', found `{found or 'end of file'}'")
        self.place += 1
        return found

    def _loop(self) -> Node:
        wanted = self._expect("while", "until") == "while"
        condition = self.chain()
        self._expect("do")
        body = self.chain()
        self._expect("done")
        return WhileLoop(condition, body, wanted)

    def _each(self) -> Node:
        self._expect("for")
        name = self.here.plain if self.here else ""
        self.place += 1
        words: tuple[Word, ...] = ()
        if self.here and self.here.plain == "in":
            self.place += 1
            words = self._words()
        self._skip(";", "\n")
        self._expect("do")
        body = self.chain()
        self._expect("done")
        return ForLoop(name, words, body)

    def _choice(self) -> Node:
        self._expect("if")
        branches: list[tuple[Node, Node]] = []
        otherwise: Node | None = None
        while True:
            condition = self.chain()
            self._expect("then")
            branches.append((condition, self.chain()))
            found = self._expect("fi", "elif", "else")
            if found == "else":
                otherwise = self.chain()
                self._expect("fi")
            if found != "elif":
                return IfStatement(tuple(branches), otherwise)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    place = 0
    while place < len(text):
        letter = text[place]
        if letter in " \t\r" or text.startswith("\\\n", place):
            place += 2 if letter == "\\" else 1
        elif letter == "#":
            place = text.find("\n", place) if "\n" in text[place:] else len(text)
        elif letter in "<>" or (
            letter.isdigit() and text[place + 1 : place + 2] in ("<", ">") and _starts(text, place)
        ):
            place = _past_redirection(text, place)
        elif operator := next((known for known in _OPERATORS if text.startswith(known, place)), ""):
            tokens.append(_Token(operator))
            place += len(operator)
        else:
            word, place = _word(text, place)
            tokens.append(_Token("", word))
    return tokens


def _starts(text: str, place: int) -> bool:
    return place == 0 or text[place - 1] in " \t\n;&|("


def _past_redirection(text: str, place: int) -> int:
    while place < len(text) and text[place] in "0123456789<>&":
        place += 1
    while text[place : place + 1] in (" ", "\t"):
        place += 1
    return place if text[place : place + 1] in ("", "\n", ";", "&", "|", "(", ")") else _word(text, place)[1]


def _word(text: str, place: int) -> tuple[Word, int]:
    pieces: list[Piece] = []
    plain = ""
    quote = False  # whether an empty quote makes an empty word
    while place < len(text) and text[place] not in " \t\r\n;&|()<>":
        letter = text[place]
        if letter == "\\":
            plain += text[place + 1 : place + 2]
            place += 2
        elif letter == "'":
            end = text.find("'", place + 1)
            if end < 0:
                raise ShellSyntaxError("unterminated quoted string")
            pieces += [Piece("text", plain, False)] if plain else []
            pieces.append(Piece("text", text[place + 1 : end], True))
            plain, place, quote = "", end + 1, True
        elif letter == '"':
            pieces += [Piece("text", plain, False)] if plain else []
            inner, place = _double(text, place + 1)
            pieces.extend(inner or [Piece("text", "", True)])
            plain, quote = "", True
        elif letter == "$" and (found := _dollar(text, place, quoted=False)) is not None:
            pieces += [Piece("text", plain, False)] if plain else []
            pieces.append(found[0])
            plain, place = "", found[1]
        else:
            plain += letter
            place += 1
    if plain or not (pieces or quote):
        pieces.append(Piece("text", plain, False))
    return tuple(pieces), place


def _double(text: str, place: int) -> tuple[list[Piece], int]:
    pieces: list[Piece] = []
    plain = ""
    while place < len(text):
        letter = text[place]
        if letter == '"':
            return [*pieces, Piece("text", plain, True)] if plain else pieces, place + 1
        if letter == "\\" and text[place + 1 : place + 2] in ('"', "\\", "$", "`"):
            plain += text[place + 1]
            place += 2
        elif letter == "$" and (found := _dollar(text, place, quoted=True)) is not None:
            pieces += [Piece("text", plain, True)] if plain else []
            pieces.append(found[0])
            plain, place = "", found[1]
        else:
            plain += letter
            place += 1
    raise ShellSyntaxError("unterminated quoted string")


def _dollar(text: str, place: int, *, quoted: bool) -> tuple[Piece, int] | None:
    """Parse the variable or command substitution at a ``$``; returns it and the index after it."""
    following = text[place + 1 : place + 2]
    if following == "(":
        depth, end = 1, place + 2
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if depth:
            raise ShellSyntaxError("unterminated `$('")
        return Piece("command", text[place + 2 : end - 1], quoted), end
    if following == "{":
        end = text.find("}", place)
        if end < 0:
            raise ShellSyntaxError("unterminated `${'")
        return Piece("variable", text[place + 2 : end], quoted), end + 1
    if following and following in "?$!#@*0123456789":
        return Piece("variable", following, quoted), place + 2
    end = place + 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return (Piece("variable", text[place + 1 : end], quoted), end) if end > place + 1 else None
