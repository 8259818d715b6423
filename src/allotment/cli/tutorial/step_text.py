"""Prints a step: its title, its text, its commands, and the result of its check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.cli.output.console import Screen, folded
from allotment.cli.tutorial.step import Command, Question, Step

#: The maximum width of the text.
WIDTH: Final = 80


def heading(screen: Screen, step: Step, number: int, count: int) -> None:
    """Print the title and the text of a step."""
    screen.line()
    screen.line(screen.paint(f"Step {number} of {count}: {step.title}", "bold"))
    screen.line()
    paragraph(screen, step.text)


def assignment(screen: Screen, step: Step) -> None:
    """Print what the reader is to do."""
    _commands(screen, step.commands)
    if step.task:
        paragraph(screen, step.task)
        _commands(screen, step.afterwards)


def _commands(screen: Screen, commands: Sequence[Command]) -> None:
    screen.line()
    for command in commands:
        screen.line(f"  {screen.paint(command.line, 'cyan')}")
    screen.line()


def right(question: Question, answer: str) -> str:
    """Return the sentence that follows a right answer."""
    return f"{answer}, because {question.because}."


def done(screen: Screen, sentence: str) -> None:
    """Print what happened in a step whose check holds."""
    paragraph(screen, sentence, "Done: ", "green")


def paragraph(screen: Screen, text: str, label: str = "", colour: str = "bold") -> None:
    """Print a text in lines that fit the screen. ``label``: its first word, in a colour."""
    first, *more = folded(f"{label}{text}", min(screen.width or WIDTH, WIDTH)) or [""]
    screen.line(screen.paint(label.rstrip(), colour) + first[len(label.rstrip()) :] if label else first)
    for line in more:
        screen.line(line.strip() if not label else line)
