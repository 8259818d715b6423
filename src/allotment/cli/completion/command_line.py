"""Parses an incomplete command line (its values, and what the last word completes), and defines candidates.

argparse parses complete lines only. Words are interpreted here as it does: a word with ``-`` is an option, an
option with ``nargs="+"`` takes what follows, a command's own parser takes the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from allotment.cli.parser import Parser

_MANY = ("*", "+")


class Line(NamedTuple):
    """``word`` is to be completed: as a value of ``action``, or without one as an option of ``command``."""

    parser: Parser
    command: str
    word: str
    action: argparse.Action | None
    #: The values of options and arguments by ``dest``; empty for options without a value.
    given: dict[str, list[str]]

    def last(self, dest: str) -> str:
        """Return the last value of an option, or an empty string."""
        return next(reversed(self.given.get(dest, ())), "")


def read_line(parser: Parser, words: Sequence[str]) -> Line | None:
    """Parse words, the last of which is to be completed; return None if no completion is possible."""
    *before, word = words or ("",)
    reader = _Reader(parser)
    for previous in before:
        reader.take(previous)
    return reader.line(word)


class _Reader:
    def __init__(self, parser: Parser) -> None:
        self._commands: list[str] = []
        self._given: dict[str, list[str]] = {}
        self._option: argparse.Action | None = None  # the last option, while it accepts values
        self._only_arguments = False  # after ``--``
        self._lost = False
        self._enter(parser)

    def _enter(self, parser: Parser) -> None:
        self._parser = parser
        self._options = {name: action for action in parser._actions for name in action.option_strings}
        self._arguments = [action for action in parser._actions if not action.option_strings]

    def take(self, word: str) -> None:
        """Process a complete word."""
        if self._is_option(word):
            self._take_option(word)
        elif self._option is not None:
            self._give(self._option, word)
            self._option = self._option if self._option.nargs in _MANY else None
        elif not self._arguments:
            self._lost = True
        elif isinstance(commands := self._arguments[0], argparse._SubParsersAction):
            self._lost = word not in commands.choices
            if not self._lost:
                self._commands.append(word)
                self._enter(commands.choices[word])
        else:
            self._give(self._arguments[0], word)
            if self._arguments[0].nargs not in _MANY:
                del self._arguments[0]

    def line(self, word: str) -> Line | None:
        """Return the state before the last word."""
        if self._lost:
            return None
        action = self._option or next(iter(self._arguments), None)
        if word.startswith("-") and not self._only_arguments:
            name, equals, value = word.partition("=")
            action = self._options.get(name) if equals else None
            if equals and action is None:
                return None
            word = value if equals else word
        return Line(self._parser, " ".join(self._commands), word, action, self._given)

    def _is_option(self, word: str) -> bool:
        return word.startswith("-") and word != "-" and not self._only_arguments  # ``-``: standard input

    def _take_option(self, word: str) -> None:
        self._option = None
        if word == "--":
            self._only_arguments = True
            return
        name, equals, value = word.partition("=")
        if word not in self._options and name not in self._options and not word.startswith("--"):
            name, value = word[:2], word[2:]  # -nshop
        action = self._options.get(word) or self._options.get(name)
        if action is None:
            return
        self._given.setdefault(action.dest, [])
        if action.nargs == 0:
            return
        if equals or value:
            self._give(action, value)
        else:
            self._option = action

    def _give(self, action: argparse.Action, word: str) -> None:
        self._given.setdefault(action.dest, []).append(word)


class Candidate(NamedTuple):
    """A completed word, and its description, which may be empty."""

    value: str
    description: str = ""
