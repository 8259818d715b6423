"""The help of ``allot`` itself, and the example in the help of every command."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator

import pytest

from allotment.cli.main import command_line
from allotment.cli.overview import FIRST_STEPS, GOALS, GROUPS, first_steps, overview
from tests.unit.cli.conftest import Allot


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def all_commands(parser: argparse.ArgumentParser, before: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """All commands, also those of commands, by their words."""
    for name, command in commands(parser).items():
        yield f"{before}{name}", command
        yield from all_commands(command, f"{before}{name} ")


def is_accepted(line: str) -> bool:
    """Whether the arguments of a command line are valid."""
    try:
        words = shlex.split(line)
        command_line(words[0]).parse_args(words)
    except SystemExit:
        return False
    return True


def test_every_command_is_in_one_group() -> None:
    grouped = [name for _, names in GROUPS for name in names]
    assert sorted(grouped) == sorted(commands(command_line()))


def test_goals_come_first_and_their_commands_are_accepted(allot: Allot) -> None:
    out = allot("--help").out
    for goal, words in GOALS:
        assert is_accepted(words), words
        assert out.index(goal) < out.index("All commands")


def test_without_arguments_the_first_steps_are_printed(allot: Allot) -> None:
    out = allot().out
    assert len(out.splitlines()) == 11
    for _, steps in FIRST_STEPS:
        for words, purpose in steps:
            assert is_accepted(words), words
            assert purpose in out
    assert out.endswith("allot --help lists all commands.\n")


def test_the_first_steps_of_the_plugin_fit_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-allot"])
    lines = first_steps().splitlines()
    assert lines[3].startswith("  kubectl allot explain POD  ")
    assert max(map(len, lines)) <= 80


def test_the_overview_is_one_screen() -> None:
    assert max(map(len, overview().splitlines())) <= 80
    assert len(overview().splitlines()) <= 42


def test_the_overview_of_the_plugin_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-allot"])
    lines = overview().splitlines()
    assert "  see which devices are free       kubectl allot free" in lines
    assert max(map(len, lines)) <= 80


def test_every_command_has_an_example_that_is_accepted() -> None:
    for words, command in all_commands(command_line()):
        examples = re.findall(rf"^  allot ({words}\b.*?)(?:  .*)?$", command.description or "", re.MULTILINE)
        assert examples, words
        example = examples[0].partition(" | ")[0]
        if not example.endswith("\\"):  # it continues in the next line
            assert is_accepted(example), example
