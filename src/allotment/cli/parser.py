"""argparse, in our words: what was wanted and what was found, and what to do next, in two lines.

Two defaults of a parser say what people type who know other tools: ``instead`` has a sentence for options that it has
not, ``instead_of_commands`` what was probably meant by a word that is no command (``{}`` is the word).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NoReturn

from allotment.cli import kubectl_plugin

EXIT_BAD_INPUT: Final = 2

_CHOICE: Final = re.compile(r"argument (?P<name>\S+): invalid choice: '(?P<found>.*)' \(choose from (?P<choices>.*)\)")
_VALUE: Final = re.compile(r"argument (?P<name>\S+): invalid (?P<type>\w+) value: (?P<found>.*)")
_MISSING: Final = re.compile(r"argument (?P<name>\S+): expected (one|at least one) argument")
_NEGATIVE: Final = re.compile(r"-[.\d]")
_TYPES: Final = {"int": "a whole number", "float": "a number"}


class Help(argparse.RawDescriptionHelpFormatter):
    """argparse's help, with room for the longest command: it forgets that commands are indented."""

    def add_argument(self, action: argparse.Action) -> None:
        """Measure an action's words."""
        super().add_argument(action)
        if list(self._iter_indented_subactions(action)):
            self._action_max_length += self._indent_increment


class Parser(argparse.ArgumentParser):
    """argparse, with suggestions for misspelt words."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Help keeps the lines of descriptions, unless another ``formatter_class`` is named."""
        super().__init__(*arguments, **{"formatter_class": Help, **options})

    def format_help(self) -> str:
        """Help, for the name under which this was called."""
        text = super().format_help()
        return kubectl_plugin.renamed(text) if kubectl_plugin.is_plugin() else text

    def describe(self) -> None:
        """Have the help of each command begin with what the list of commands says of it, if with nothing else."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for listed in action._choices_actions:
                    command: Parser = action.choices[listed.dest]
                    summary = listed.help or ""
                    command.description = command.description or f"{summary[:1].upper()}{summary[1:]}."
                    command.describe()

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, and what to do in the next."""
        hint = f"see {self.prog} --help"
        if found := _CHOICE.fullmatch(message):
            message, hint = self._no_choice(found["name"], found["found"], found["choices"], hint)
        elif found := _VALUE.fullmatch(message):
            wanted = _TYPES.get(found["type"], found["type"])
            message = f"{_last(found['name'])}: wanted {wanted}, found {found['found']}"
        elif found := _MISSING.fullmatch(message):
            message = f"{_last(found['name'])}: {self._not_wanted(found['name'].split('/'))}"
        self.refuse(message, hint)

    def unknown(self, words: Sequence[str]) -> NoReturn:
        """Say that words mean nothing here, and what may have been meant."""
        hints = [hint for word in words if word.startswith("-") if (hint := self._instead(word.partition("=")[0]))]
        self.refuse(f"unrecognized arguments: {' '.join(words)}", "; ".join(hints) or f"see {self.prog} --help")

    def refuse(self, message: str, hint: str) -> NoReturn:
        """End with bad input."""
        from allotment.cli.output.console import folded, width_of

        width = width_of(sys.stderr)
        for line in (*folded(f"allot: error: {message}", width), *folded(hint, width, "  ")):
            sys.stderr.write(f"{line}\n")
        raise SystemExit(EXIT_BAD_INPUT)

    def of_words(self, words: Sequence[str]) -> Parser:
        """The parser of the command that words name: of ``catalog list aws`` that of ``list``."""
        for word in words:
            commands = self._commands()
            if word in commands:
                return commands[word].of_words(words[list(words).index(word) + 1 :])
        return self

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """argparse's; what was given is kept for whoever must say what was found."""
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._given, namespace)

    def _not_wanted(self, option: Sequence[str]) -> str:
        """What stands behind an option that wants a value: argparse takes what begins with ``-`` for an option."""
        behind = [after for one, after in pairwise(self._given) if one in option and _NEGATIVE.match(after)]
        return f"wanted nothing below zero, found {behind[0]}" if behind else "wanted a value after it, found none"

    def _commands(self) -> dict[str, Parser]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def _no_choice(self, name: str, found: str, choices: str, hint: str) -> tuple[str, str]:
        from allotment.fleet.errors import nearest

        known = choices.replace("'", "").split(", ")
        close = nearest(found, known)
        if name.startswith("-"):
            return f"{_last(name)}: wanted one of {', '.join(known)}, found {found!r}", close or hint
        if name != "COMMAND":
            return f"{name}: wanted one of {', '.join(known)}, found {found!r}", close or hint
        otherwise: Any = self.get_default("instead_of_commands")
        if not close and otherwise:
            close = f"did you mean {otherwise.format(found)}?"
        return f"unknown command {found!r}: wanted one of {', '.join(known)}", close or hint

    def _instead(self, option: str) -> str:
        from allotment.fleet.errors import nearest

        said: dict[str, str] = self.get_default("instead") or {}
        own = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        return said.get(option) or (nearest(option, own) if option.startswith("--") else "")


def _last(name: str) -> str:
    """Of ``-o/--output`` the long name."""
    return name.rpartition("/")[2]
