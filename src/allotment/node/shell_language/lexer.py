"""The tokens of a shell script: operators, words with their quotes and expansions, and here-documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from allotment.node.shell_language.syntax import (
    Arithmetic,
    HereDocument,
    Node,
    NotSimulated,
    Parameter,
    Piece,
    ShellSyntaxError,
    Substitution,
    Text,
    Word,
)

_OPERATORS: Final = (
    "<<<", "<<-", "&>>", ";;&", ";&", ";;", "&&", "||", "<<", ">>", "<&", ">&", "<>", ">|", "&>", ";", "&", "|", "(",
    ")", "<", ">", "\n",
)  # fmt: skip
REDIRECTIONS: Final = frozenset({"<<<", "<<-", "&>>", "<<", ">>", "<&", ">&", "<>", ">|", "&>", "<", ">"})
_ENDS_WORD: Final = frozenset(" \t\r\n;&|()<>")
_SPECIAL: Final = "?$!#@*-0123456789"
_PARAMETER_OPERATORS: Final = (":-", ":=", ":?", ":+", "##", "%%", "//", "#", "%", "/", "-", "=", "?", "+", ":")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "\\": "\\", "'": "'", '"': '"'}


class Token(NamedTuple):
    """An operator, or a word. ``number``: the file descriptor before a redirection, -1 for none. Neither: the end."""

    operator: str = ""
    word: Word | None = None
    number: int = -1


#: Parses a command list from a place in the text up to ``)``, at a depth; returns it and the place after that.
ParseInside = Callable[[str, int, int], tuple[Node, int]]
#: How deeply commands and expansions may be nested.
DEEPEST: Final = 50


class Lexer:
    """Reads tokens from ``place`` on. ``inside`` parses the commands of a substitution."""

    def __init__(self, text: str, place: int, inside: ParseInside, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise ShellSyntaxError("nested too deeply")
        self.depth = depth
        self.text = text
        self.place = place
        self._inside = inside
        #: Here-documents whose text starts at the next line, with whether leading tabs are removed.
        self._documents: list[tuple[Word, bool, HereDocument]] = []

    def token(self) -> Token:
        """Read the next token. Raises ShellSyntaxError."""
        text = self.text
        while self.place < len(text):
            letter = text[self.place]
            if letter in " \t\r":
                self.place += 1
            elif text.startswith("\\\n", self.place):
                self.place += 2
            elif letter == "#":
                end = text.find("\n", self.place)
                self.place = len(text) if end < 0 else end
            else:
                return self._token(letter)
        if self._documents:
            self._read_documents()
        return Token()

    def _token(self, letter: str) -> Token:
        text, number = self.text, -1
        if letter.isascii() and letter.isdigit():
            end = self.place
            while text[end : end + 1].isdigit():
                end += 1
            if text[end : end + 1] in ("<", ">") and end - self.place < 3:
                number, self.place = int(text[self.place : end]), end
        if text.startswith(("<(", ">("), self.place):
            raise NotSimulated("process substitution")
        operator = next((known for known in _OPERATORS if text.startswith(known, self.place)), "")
        if not operator:
            return Token(word=self.word())
        self.place += len(operator)
        if operator == "\n" and self._documents:
            self._read_documents()
        return Token(operator, number=number)

    # --- here-documents -------------------------------------------------------------------------------------------

    def here_document(self, delimiter: Word, *, tabs: bool) -> HereDocument:
        """Register a here-document, which is filled when the line ends."""
        document = HereDocument()
        self._documents.append((delimiter, tabs, document))
        return document

    def _read_documents(self) -> None:
        for delimiter, tabs, document in self._documents:
            name = "".join(piece.text for piece in delimiter if isinstance(piece, Text))
            lines: list[str] = []
            while self.place < len(self.text):
                end = self.text.find("\n", self.place)
                end = len(self.text) if end < 0 else end
                line, self.place = self.text[self.place : end], end + 1
                line = line.lstrip("\t") if tabs else line
                if line == name:
                    break
                lines.append(f"{line}\n")
            body = "".join(lines)
            quoted = any(isinstance(piece, Text) and piece.quoted for piece in delimiter)
            document.word = (Text(body, True),) if quoted else tuple(self._again(body).quoted_until(""))
        self._documents.clear()

    def _again(self, text: str) -> Lexer:
        return Lexer(text, 0, self._inside, self.depth)

    # --- words ----------------------------------------------------------------------------------------------------

    def word(self, ends: frozenset[str] = _ENDS_WORD) -> Word:
        """Read a word up to a letter of ``ends``."""
        text, pieces, literal, empty_quote = self.text, list[Piece](), "", False

        def keep() -> None:
            nonlocal literal
            if literal:
                pieces.append(Text(literal))
            literal = ""

        while self.place < len(text) and text[self.place] not in ends:
            letter = text[self.place]
            if letter == "\\":
                keep()
                if text[self.place + 1 : self.place + 2] != "\n":
                    pieces.append(Text(text[self.place + 1 : self.place + 2], True))
                self.place += 2
            elif letter == "'":
                keep()
                pieces.append(self._single_quoted())
            elif letter == '"':
                keep()
                self.place += 1
                inner = self.quoted_until('"')
                pieces += inner or [Text("", True)]
                empty_quote = True
            elif letter in "$`" and (piece := self._expansion(quoted=False)) is not None:
                keep()
                pieces.append(piece)
            else:
                literal += letter
                self.place += 1
        if literal or not (pieces or empty_quote):
            pieces.append(Text(literal))
        return tuple(pieces)

    def _single_quoted(self) -> Text:
        end = self.text.find("'", self.place + 1)
        if end < 0:
            raise ShellSyntaxError("unterminated quoted string")
        found, self.place = self.text[self.place + 1 : end], end + 1
        return Text(found, True)

    def _escaped(self) -> Text:
        """``$'…'`` of bash."""
        text, found = self.text, ""
        self.place += 2
        while self.place < len(text):
            letter = text[self.place]
            self.place += 1
            if letter == "'":
                return Text(found, True)
            if letter == "\\":
                following = text[self.place : self.place + 1]
                found += _ESCAPES.get(following, f"\\{following}")
                self.place += 1
            else:
                found += letter
        raise ShellSyntaxError("unterminated quoted string")

    def quoted_until(self, end: str) -> list[Piece]:
        """Read the pieces of a quoted text up to ``end``, which is consumed; empty: up to the end of the text."""
        text, pieces, literal = self.text, list[Piece](), ""
        while self.place < len(text):
            letter = text[self.place]
            if letter == end:
                self.place += 1
                break
            if letter == "\\" and text[self.place + 1 : self.place + 2] in ('"', "\\", "$", "`", "\n"):
                following = text[self.place + 1]
                literal += "" if following == "\n" else (f"\\{following}" if following == '"' != end else following)
                self.place += 2
            elif letter in "$`" and (piece := self._expansion(quoted=True)) is not None:
                pieces += [Text(literal, True)] if literal else []
                pieces.append(piece)
                literal = ""
            else:
                literal += letter
                self.place += 1
        else:
            if end:
                raise ShellSyntaxError("unterminated quoted string")
        return [*pieces, Text(literal, True)] if literal else pieces

    def _expansion(self, *, quoted: bool) -> Piece | None:
        """Read the expansion at a ``$`` or backquote; None if it is an ordinary letter."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise ShellSyntaxError("nested too deeply")
        try:
            return self._expanded(quoted=quoted)
        finally:
            self.depth -= 1

    def _expanded(self, *, quoted: bool) -> Piece | None:
        text, place = self.text, self.place
        if text[place] == "`":
            return self._backquoted(quoted=quoted)
        following = text[place + 1 : place + 2]
        if text.startswith("$((", place) and (found := self._arithmetic(place + 3, quoted=quoted)) is not None:
            return found
        if following == "(":
            body, self.place = self._inside(text, place + 2, self.depth)
            return Substitution(body, quoted)
        if following == "{":
            self.place = place + 2
            return self._braced(quoted=quoted)
        if following == "'" and not quoted:
            return self._escaped()
        if following and following in _SPECIAL:
            self.place = place + 2
            return Parameter(following, quoted=quoted)
        name = _name(text, place + 1)
        if not name:
            return None
        self.place = place + 1 + len(name)
        return Parameter(name, quoted=quoted)

    def _backquoted(self, *, quoted: bool) -> Substitution:
        text, inner, place = self.text, "", self.place + 1
        while place < len(text) and text[place] != "`":
            if text[place] == "\\" and text[place + 1 : place + 2] in ("`", "\\", "$"):
                place += 1
            inner += text[place]
            place += 1
        if place >= len(text):
            raise ShellSyntaxError("EOF in backquote substitution")
        self.place = place + 1
        body, end = self._inside(f"{inner}\n)", 0, self.depth)
        if end != len(inner) + 2:
            raise ShellSyntaxError("syntax error: unexpected `)'")
        return Substitution(body, quoted)

    def _arithmetic(self, start: int, *, quoted: bool) -> Arithmetic | None:
        """``$((…))``; None if it is a substitution that starts with a subshell."""
        end = closing(self.text, start)
        if end is None:
            return None
        self.place = end + 2
        return Arithmetic(tuple(self._again(self.text[start:end]).quoted_until("")), quoted)

    def _braced(self, *, quoted: bool) -> Parameter:
        text = self.text
        length = text.startswith("#", self.place) and text[self.place + 1 : self.place + 2] not in ("}", "")
        self.place += int(length)
        if text.startswith("!", self.place) and _name(text, self.place + 1):
            raise NotSimulated("${!…}")
        name = _name(text, self.place)
        if not name and text[self.place : self.place + 1] in tuple(_SPECIAL):
            name = text[self.place]
            while name.isdigit() and text[self.place + len(name) : self.place + len(name) + 1].isdigit():
                name += text[self.place + len(name)]
        self.place += len(name)
        if text.startswith("[", self.place):
            raise NotSimulated("arrays")
        operator = next((known for known in _PARAMETER_OPERATORS if text.startswith(known, self.place)), "")
        self.place += len(operator)
        if not name or (not operator and not text.startswith("}", self.place)):
            raise ShellSyntaxError("Bad substitution")
        ends = frozenset("}/") if operator in ("/", "//") else frozenset("}")
        # A pattern stays one inside double quotes.
        pattern = operator[:1] in ("#", "%", "/")
        word = self._operand(ends, quoted=quoted and not pattern) if operator else ()
        replacement: Word = ()
        if operator in ("/", "//") and text.startswith("/", self.place):
            self.place += 1
            replacement = self._operand(frozenset("}"), quoted=quoted)
        if not text.startswith("}", self.place):
            raise ShellSyntaxError("unterminated `${'")
        self.place += 1
        return Parameter(name, operator, word, quoted, length, replacement)

    def _operand(self, ends: frozenset[str], *, quoted: bool) -> Word:
        if self.text[self.place : self.place + 1] in ends:
            return ()
        found = self.word(ends)
        if not quoted:
            return found
        return tuple(piece if isinstance(piece, HereDocument) else replace(piece, quoted=True) for piece in found)


def closing(text: str, start: int) -> int | None:
    """The place of the ``))`` that ends an arithmetic expression; None if there is none."""
    depth, place = 0, start
    while place < len(text):
        if text[place] == "(":
            depth += 1
        elif text[place] == ")":
            if depth == 0:
                return place if text.startswith("))", place) else None
            depth -= 1
        place += 1
    return None


def _name(text: str, place: int) -> str:
    end = place
    while end < len(text) and (text[end] == "_" or (text[end].isascii() and text[end].isalnum())):
        end += 1
    return "" if text[place : place + 1].isdigit() else text[place:end]
