"""Errors in what a user gives: an argument, a file, a manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from allotment.model.problems import InputProblem

#: Maximum number of problems in a message; the rest is counted.
_SHOWN: Final = 10


class InputError(Exception):
    """Raised for an argument or an input that cannot be used. ``str(error)`` is the message with the hint.

    ``problem``: the error, without the argument. ``hint``: what to do, may be empty. ``argument``: the argument of the
    Python function, if the problem is the value of one.
    """

    def __init__(self, problem: str, hint: str = "", *, argument: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.argument = argument

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    @property
    def message(self) -> str:
        """The argument and the problem, without the hint."""
        return f"{self.argument}: {self.problem}" if self.argument else self.problem

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints."""
        return {"problems": [{"code": "bad-input", "message": self.message, "hint": self.hint}]}


class InvalidManifests(InputError):
    """Raised for manifests that cannot be read, or that the API server would reject.

    ``problems``: all of them, by position. ``source``: returns the text of a file, to show the line.
    """

    def __init__(self, problems: Iterable[InputProblem], source: Callable[[str], str | None]) -> None:
        self.problems = sorted(problems, key=lambda problem: (problem.position, problem.message))
        self.source = source
        lines = [str(problem) for problem in self.problems[:_SHOWN]]
        more = len(self.problems) - len(lines)
        super().__init__("\n".join([*lines, *([f"and {more} more"] if more else [])]))

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints."""
        return {"problems": [_data(problem) for problem in self.problems]}


def _data(problem: InputProblem) -> dict[str, Any]:
    position = problem.position
    data = {
        "code": problem.code,
        "file": position.file,
        "line": position.line,
        "column": position.column,
        "path": problem.path,
        "message": problem.message,
        "hint": problem.hint,
        "suggestion": problem.suggestion,
    }
    return {key: value for key, value in data.items() if value != ""}
