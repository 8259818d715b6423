"""An argparse parser whose errors have two lines: what was expected and found, and what to do next.

Two parser defaults hold suggestions for users of other tools: ``instead`` maps unknown options to a hint,
``instead_of_commands`` is a template for the command to suggest for an unknown one (``{}`` is that word).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NoReturn

from allotment.cli import kubectl_plugin
from allotment.cli.arguments.first_examples import described

EXIT_BAD_INPUT: Final = 2

_CHOICE: Final = re.compile(r"argument (?P<name>\S+): invalid choice: '(?P<found>.*)' \(choose from (?P<choices>.*)\)")
_VALUE: Final = re.compile(r"argument (?P<name>\S+): invalid (?P<type>\w+) value: (?P<found>.*)")
_MISSING: Final = re.compile(r"argument (?P<name>\S+): expected (one|at least one) argument")
_NEGATIVE: Final = re.compile(r"-[.\d]")
_TYPES: Final = {"int": "a whole number", "float": "a number"}


class Help(argparse.RawDescriptionHelpFormatter):
    """Help that includes the indentation of commands in the column width, which argparse omits."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if list(self._iter_indented_subactions(action)):
            self._action_max_length += self._indent_increment


class Parser(argparse.ArgumentParser):
    """An argument parser that suggests corrections of misspelt words."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Create a parser; by default its help keeps the line breaks of descriptions."""
        super().__init__(*arguments, **{"formatter_class": Help, **options})

    def format_help(self) -> str:
        """Return the help, with ``kubectl allot`` as the program if run as kubectl's plugin."""
        text = super().format_help()
        return kubectl_plugin.renamed(text) if kubectl_plugin.is_plugin() else text

    def add_descriptions(self) -> None:
        """Use the summary of each command without a description as its description, with an example."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for listed in action._choices_actions:
                    command: Parser = action.choices[listed.dest]
                    summary = listed.help or ""
                    description = command.description or f"{summary[:1].upper()}{summary[1:]}."
                    command.description = described(command.prog.removeprefix(f"{kubectl_plugin.name()} "), description)
                    command.add_descriptions()

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and what to do, and exit."""
        hint = f"see {self.prog} --help"
        if found := _CHOICE.fullmatch(message):
            message, hint = self._no_choice(found["name"], found["found"], found["choices"], hint)
        elif found := _VALUE.fullmatch(message):
            expected = _TYPES.get(found["type"], found["type"])
            message = f"{_long_name(found['name'])}: expected {expected}, found {found['found']}"
        elif found := _MISSING.fullmatch(message):
            message = f"{_long_name(found['name'])}: {self._missing_value(found['name'].split('/'))}"
        self.exit_with_error(message, hint)

    def unknown(self, words: Sequence[str]) -> NoReturn:
        """Report unrecognized arguments, with suggestions, and exit."""
        hints = [hint for word in words if word.startswith("-") if (hint := self._instead(word.partition("=")[0]))]
        self.exit_with_error(
            f"unrecognized arguments: {' '.join(words)}", "; ".join(hints) or f"see {self.prog} --help"
        )

    def exit_with_error(self, message: str, hint: str) -> NoReturn:
        """Print an error and a hint, and exit with ``EXIT_BAD_INPUT``."""
        from allotment.cli.output.console import folded, width_of

        width = width_of(sys.stderr)
        for line in (*folded(f"allot: error: {message}", width), *folded(hint, width, "  ")):
            sys.stderr.write(f"{line}\n")
        raise SystemExit(EXIT_BAD_INPUT)

    def command_parser(self, words: Sequence[str]) -> Parser:
        """Return the parser of the command in a list of words: for ``catalog list aws`` that of ``list``."""
        for word in words:
            commands = self._commands()
            if word in commands:
                return commands[word].command_parser(words[list(words).index(word) + 1 :])
        return self

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, and keep the arguments for error messages."""
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._given, namespace)

    def _missing_value(self, option: Sequence[str]) -> str:
        """Return the error for an option without a value; argparse takes a negative value for an option."""
        negative = [after for word, after in pairwise(self._given) if word in option and _NEGATIVE.match(after)]
        return f"expected a value >= 0, found {negative[0]}" if negative else "expected a value"

    def _commands(self) -> dict[str, Parser]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def _no_choice(self, name: str, found: str, choices: str, hint: str) -> tuple[str, str]:
        from allotment.fleet.errors import suggestion

        known = choices.replace("'", "").split(", ")
        close = suggestion(found, known)
        if name.startswith("-"):
            return f"{_long_name(name)}: expected one of {', '.join(known)}, found {found!r}", close or hint
        if name != "COMMAND":
            return f"{name}: expected one of {', '.join(known)}, found {found!r}", close or hint
        otherwise: Any = self.get_default("instead_of_commands")
        if not close and otherwise:
            close = f"did you mean {otherwise.format(found)}?"
        return f"unknown command {found!r}: expected one of {', '.join(known)}", close or hint

    def _instead(self, option: str) -> str:
        from allotment.fleet.errors import suggestion

        hints: dict[str, str] = self.get_default("instead") or {}
        own = [
            name
            for action in self._actions
            if action.help != argparse.SUPPRESS
            for name in action.option_strings
            if name.startswith("--")
        ]
        return hints.get(option) or (suggestion(option, own) if option.startswith("--") else "")


def _long_name(name: str) -> str:
    """Return the long name: ``--output`` for ``-o/--output``."""
    return name.rpartition("/")[2]
