"""The table of steps is complete and fits a terminal."""

from __future__ import annotations

from importlib import resources

from allotment.cli.tutorial.step import Command
from allotment.cli.tutorial.steps import STEPS


def test_each_step_has_one_check_or_question() -> None:
    for step in STEPS:
        assert (step.check is None) != (step.question is None), step.name
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_commands_fit_80_columns() -> None:
    for step in STEPS:
        for action in (*step.commands, *step.actions):
            if isinstance(action, Command):
                assert len(f"  {action.line}") <= 80, action.line


def test_each_packaged_manifest_belongs_to_a_step() -> None:
    folder = resources.files("allotment.cli.tutorial").joinpath("manifests")
    packaged = {item.name for item in folder.iterdir()}
    assert packaged == {name for step in STEPS for name in step.files}
