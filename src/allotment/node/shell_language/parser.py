"""The parser of shell scripts."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from allotment.node.shell_language.lexer import DEEPEST, REDIRECTIONS, Lexer, Token, closing
from allotment.node.shell_language.syntax import (
    AndOr,
    ArithmeticCommand,
    CaseStatement,
    CommandList,
    Conditional,
    ForLoop,
    Function,
    IfStatement,
    Node,
    NotSimulated,
    Pipeline,
    Redirected,
    Redirection,
    ShellSyntaxError,
    Simple,
    Subshell,
    Text,
    WhileLoop,
    Word,
    plain,
)

_ENDS: Final = frozenset({"done", "do", "then", "else", "elif", "fi", "}", "esac"})
_COMPOUND: Final = frozenset({"while", "until", "for", "if", "case", "{", "[["})
_NOT_SIMULATED: Final = frozenset({"select", "coproc"})


@lru_cache(256)
def parse(text: str) -> Node:
    """Parse a script.

    Raises ShellSyntaxError, and NotSimulated for parts of bash that are not supported.

    >>> parse("echo hello; sleep 5").parts[1][0].parts[0][1].words[1][0].text
    '5'
    """
    parser = _Parser(text, 0, 0)
    node = parser.list_()
    if parser.token != Token():
        raise parser.unexpected()
    return node


class _Parser:
    def __init__(self, text: str, place: int, depth: int) -> None:
        self.depth = depth
        self.text = text
        self.lexer = Lexer(text, place, self._inside, depth)
        self.start = place
        self.token = Token()
        self.advance()

    def _inside(self, text: str, place: int, depth: int) -> tuple[Node, int]:
        parser = _Parser(text, place, max(depth, self.depth) + 1)
        node = parser.list_()
        if parser.token.operator != ")":
            raise ShellSyntaxError("unterminated `$('")
        return node, parser.lexer.place

    def advance(self) -> Token:
        """Read the next token; returns the current one."""
        current, self.start = self.token, self.lexer.place
        self.token = self.lexer.token()
        return current

    @property
    def plain(self) -> str:
        return plain(self.token.word) if self.token.word is not None else ""

    def unexpected(self) -> ShellSyntaxError:
        token = self.token
        if token == Token():
            return ShellSyntaxError("syntax error: unexpected end of file")
        shown = "newline" if token.operator == "\n" else token.operator or self.plain or "word"
        return ShellSyntaxError(f"syntax error near unexpected token `{shown}'")

    def _skip(self, *operators: str) -> None:
        while self.token.operator in operators:
            self.advance()

    def _expect(self, *words: str) -> str:
        found = self.token.operator or self.plain
        if found not in words:
            raise self.unexpected()
        self.advance()
        return found

    # --- lists ----------------------------------------------------------------------------------------------------

    def list_(self) -> Node:
        """Parse commands up to the end, ``)``, or a reserved word that ends a list."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise ShellSyntaxError("nested too deeply")
        parts: list[tuple[Node, bool]] = []
        while True:
            self._skip("\n")
            if self.token == Token() or self.token.operator in (")", ";;", ";&", ";;&") or self.plain in _ENDS:
                break
            node = self._and_or()
            operator = self.token.operator
            parts.append((node, operator == "&"))
            if operator not in (";", "&", "\n"):
                break
            self.advance()
        self.depth -= 1
        return CommandList(tuple(parts))

    def _filled(self) -> Node:
        """A list with at least one command, as compound commands require."""
        node = self.list_()
        if isinstance(node, CommandList) and not node.parts:
            raise self.unexpected()
        return node

    def _and_or(self) -> Node:
        parts = [("", self._pipeline())]
        while self.token.operator in ("&&", "||"):
            operator = self.advance().operator
            self._skip("\n")
            parts.append((operator, self._pipeline()))
        return AndOr(tuple(parts))

    def _pipeline(self) -> Node:
        negated = False
        while self.plain == "!":
            negated = not negated
            self.advance()
        parts = [self._command()]
        while self.token.operator == "|":
            self.advance()
            self._skip("\n")
            parts.append(self._command())
        return parts[0] if len(parts) == 1 and not negated else Pipeline(tuple(parts), negated)

    # --- commands -------------------------------------------------------------------------------------------------

    def _command(self) -> Node:
        word = self.plain
        compounds = {
            "while": self._loop, "until": self._loop, "for": self._for, "if": self._if, "case": self._case,
            "{": self._group, "[[": self._conditional, "function": self._function,
        }  # fmt: skip
        if self.token.operator == "(":
            node = self._parentheses()
        elif word in compounds:
            node = compounds[word]()
        elif word in _NOT_SIMULATED:
            raise NotSimulated(word)
        elif word in _ENDS:
            raise self.unexpected()
        else:
            return self._simple()
        if isinstance(node, Function):
            return node
        redirections: list[Redirection] = []
        while self.token.operator in REDIRECTIONS:
            redirections.append(self._redirection())
        return Redirected(node, tuple(redirections)) if redirections else node

    def _simple(self) -> Node:
        assignments: list[tuple[str, Word, bool]] = []
        words: list[Word] = []
        redirections: list[Redirection] = []
        while True:
            if self.token.operator in REDIRECTIONS:
                redirections.append(self._redirection())
            elif self.token.word is not None:
                word = self.token.word
                if not words and (found := assignment(word)) is not None:
                    assignments.append(found)
                else:
                    words.append(word)
                self.advance()
                if self.token.operator == "(" and not words and assignments and not assignments[-1][1]:
                    raise NotSimulated("arrays")
                if self.token.operator == "(" and len(words) == 1 and not assignments and plain(words[0]):
                    return self._function_body(plain(words[0]))
            else:
                break
        if not (assignments or words or redirections):
            raise self.unexpected()
        return Simple(tuple(assignments), tuple(words), tuple(redirections))

    def _redirection(self) -> Redirection:
        token = self.advance()
        operator = token.operator
        target = self.token.word
        if target is None:
            raise self.unexpected()
        number = token.number if token.number >= 0 else int(operator[0] != "<")
        if operator in ("<<", "<<-"):
            # Registered before the next token is read: that may be the end of the line.
            document = self.lexer.here_document(target, tabs=operator == "<<-")
            self.advance()
            return Redirection(number, "<<", (document,))
        self.advance()
        return Redirection(number, operator, target)

    def _function(self) -> Node:
        self.advance()
        name = self.plain
        if not name:
            raise self.unexpected()
        self.advance()
        if self.token.operator == "(":
            return self._function_body(name)
        return self._body_of(name)

    def _function_body(self, name: str) -> Node:
        self._expect("(")
        self._expect(")")
        return self._body_of(name)

    def _body_of(self, name: str) -> Node:
        self._skip("\n")
        if not (self.token.operator == "(" or self.plain in _COMPOUND):
            raise self.unexpected()
        body = self._command()
        return Function(name, body)

    def _parentheses(self) -> Node:
        # The lexer has read one "(": an arithmetic command if another follows directly and "))" ends it.
        text, place = self.text, self.lexer.place
        if text.startswith("(", place) and (end := closing(text, place + 1)) is not None:
            expression = Lexer(text[place + 1 : end], 0, self._inside, self.depth).quoted_until("")
            self.lexer.place = end + 2
            self.advance()
            return ArithmeticCommand(tuple(expression))
        self.advance()
        body = self._filled()
        self._expect(")")
        return Subshell(body)

    def _group(self) -> Node:
        self.advance()
        body = self._filled()
        self._expect("}")
        return body

    def _loop(self) -> Node:
        wanted = self._expect("while", "until") == "while"
        condition = self._filled()
        self._expect("do")
        body = self._filled()
        self._expect("done")
        return WhileLoop(condition, body, wanted)

    def _for(self) -> Node:
        self.advance()
        if self.token.operator == "(":
            raise NotSimulated("for ((…))")
        name = self.plain
        if not is_name(name):
            raise self.unexpected()
        self.advance()
        self._skip("\n")
        words: list[Word] | None = None
        if self.plain == "in":
            self.advance()
            words = []
            while self.token.word is not None:
                words.append(self.token.word)
                self.advance()
        self._skip(";", "\n")
        self._expect("do")
        body = self._filled()
        self._expect("done")
        return ForLoop(name, None if words is None else tuple(words), body)

    def _if(self) -> Node:
        self._expect("if")
        branches: list[tuple[Node, Node]] = []
        otherwise: Node | None = None
        while True:
            condition = self._filled()
            self._expect("then")
            branches.append((condition, self._filled()))
            found = self._expect("fi", "elif", "else")
            if found == "else":
                otherwise = self._filled()
                self._expect("fi")
            if found != "elif":
                return IfStatement(tuple(branches), otherwise)

    def _case(self) -> Node:
        self.advance()
        word = self.token.word
        if word is None:
            raise self.unexpected()
        self.advance()
        self._skip("\n")
        self._expect("in")
        self._skip("\n")
        branches: list[tuple[tuple[Word, ...], Node, bool]] = []
        while self.plain != "esac":
            if self.token.operator == "(":
                self.advance()
            patterns: list[Word] = []
            while self.token.word is not None:
                patterns.append(self.token.word)
                self.advance()
                if self.token.operator != "|":
                    break
                self.advance()
            if not patterns:
                raise self.unexpected()
            self._expect(")")
            body = self.list_()
            ending = self.token.operator
            branches.append((tuple(patterns), body, ending == ";&"))
            if ending == ";;&":
                raise NotSimulated(";;&")
            if ending not in (";;", ";&"):
                break
            self.advance()
            self._skip("\n")
        self._expect("esac")
        return CaseStatement(word, tuple(branches))

    def _conditional(self) -> Node:
        parts: list[str | Word] = []
        self.advance()
        while self.plain != "]]":
            if self.token == Token():
                raise self.unexpected()
            if self.plain == "=~":
                # A regular expression may contain what are operators elsewhere.
                parts.append(self.token.word or ())
                parts.append(self._expression_word())
                continue
            token = self.advance()
            if token.word is None and token.operator not in ("&&", "||", "(", ")", "<", ">", "\n"):
                raise ShellSyntaxError(f"syntax error near unexpected token `{token.operator}'")
            if token.operator != "\n":
                parts.append(token.operator if token.word is None else token.word)
        self.advance()
        return Conditional(tuple(parts))

    def _expression_word(self) -> Word:
        text, place = self.text, self.lexer.place
        while text[place : place + 1] in (" ", "\t"):
            place += 1
        self.lexer.place = place
        word = self.lexer.word(frozenset(" \t\n"))
        self.advance()
        return word


def assignment(word: Word) -> tuple[str, Word, bool] | None:
    """``name=value`` or ``name+=value`` as name, value and whether it is appended; None for another word."""
    first = word[0]
    if not isinstance(first, Text) or first.quoted or "=" not in first.text:
        return None
    name, _, rest = first.text.partition("=")
    added = name.endswith("+")
    name = name.removesuffix("+")
    if not is_name(name):
        return None
    return name, (*((Text(rest),) if rest else ()), *word[1:]), added


def is_name(text: str) -> bool:
    """Whether a text is the name of a variable.

    >>> is_name("_a1"), is_name("1a"), is_name("")
    (True, False, False)
    """
    return bool(text) and not text[0].isdigit() and text.isascii() and text.replace("_", "a").isalnum()
