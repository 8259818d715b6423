"""Errors for users as lines of text: where, what was expected and found, what to do next.

All user errors of the lower layers are listed here; ``describe`` returns ``None`` for any other error, which is a bug.
An error with a position in a file is an ``InputProblem``, shown with its source line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allotment.cli.output.code_frame import frame
from allotment.cli.output.console import folded
from allotment.errors import InputError, InvalidManifests
from allotment.model.problems import WHOLE_FILE, InputProblem
from allotment.phrases import counted

#: Maximum number of problems to print; the rest is counted.
MOST_SHOWN = 50
#: The default width.
FRAME_WIDTH = 100
#: Options that are not named as the argument of the Python API is.
_OPTIONS: Mapping[str, str] = {
    "kube": "kube-version", "gates": "feature-gates", "objects": "filename", "tolerations": "toleration",
    "drivers": "driver", "workload": "for", "containers": "container", "device_class": "class",
}  # fmt: skip


class Failure(Exception):
    """Raised by kubectl-compatible commands, with kubectl's message."""

    def __init__(self, words: str, hint: str = "") -> None:
        super().__init__(words)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Description:
    """An error as lines of text, and as JSON data."""

    lines: tuple[str, ...]
    data: dict[str, Any]


def describe(error: Exception, width: int | None = None) -> Description | None:
    """Describe a user error, folded to ``width`` columns; return ``None`` for an internal error."""
    if isinstance(error, InvalidManifests):
        lines = tuple(_findings(error, width))
        return Description(lines, error.to_dict())
    if isinstance(error, InputError):
        return _single(described_problem(error), error.hint, width)
    if isinstance(error, Failure):
        hint = (f"  {error.hint}",) if error.hint else ()
        problem = {"code": "refused", "message": str(error), "hint": error.hint}
        return Description((*str(error).splitlines(), *hint), {"problems": [problem]})
    from allotment.extras import MissingExtraError

    if isinstance(error, MissingExtraError):
        return _single(str(error), "", width)
    if isinstance(error, OSError) and isinstance(error.filename, str):
        return _single(f"{error.filename}: {(error.strerror or str(error)).lower()}", "", width)
    return None


def described_problem(error: InputError) -> str:
    """Return the problem of an argument with the option that sets it, without the hint."""
    if not error.argument:
        return error.problem
    return f"--{_OPTIONS.get(error.argument, error.argument.replace('_', '-'))}: {error.problem}"


def _single(problem: str, hint: str, width: int | None) -> Description:
    lines = folded(f"allot: error: {problem}", width) + (folded(hint, width, "  ") if hint else [])
    return Description(tuple(lines), {"problems": [{"code": "bad-input", "message": problem, "hint": hint}]})


def _findings(error: InvalidManifests, width: int | None) -> Iterator[str]:
    shown = error.problems[:MOST_SHOWN]
    for problem in shown:
        yield from finding(problem, error.source(problem.position.file), width)
    more = len(error.problems) - len(shown)
    if more:
        yield f"and {more} more"
    count = len(error.problems)
    files = len({problem.position.file for problem in error.problems})
    where = "" if files == 1 else f" in {counted(files, 'file')}"
    yield f"Found {counted(count, 'error')}{where}."


def finding(problem: InputProblem, source: str | None, width: int | None = None) -> Iterator[str]:
    """Return a problem as lines: position, code and message, the source line, the hint."""
    first, *rest = problem.message.splitlines() or [""]
    whole = problem.code in WHOLE_FILE
    place = problem.position.file if whole else str(problem.position)
    yield from folded(f"{place}: {problem.code}: {first}", width)
    if rest:
        # A compiler's message has its own frame, with more than the first line of the expression.
        yield from compiler_frame(rest, width or FRAME_WIDTH)
    elif not whole:
        lines = source.splitlines() if source is not None else []
        framed = frame(lines, problem.position.line, problem.position.column, None, width or FRAME_WIDTH)
        yield from framed.lines if framed else ()
    if problem.hint:
        yield from folded(problem.hint, width, "  ")


def compiler_frame(lines: Sequence[str], width: int) -> Iterator[str]:
    """Return an expression with dots up to a caret below it; a long expression is truncated around the caret."""
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        caret = max(line.rstrip().find("^"), below.rstrip().find("^") if set(below[3:]) <= {".", "^", " "} else -1)
        start = max(caret - (width - 24), 0) if len(line) > width - 6 and line.startswith(" | ") else 0
        text = line if not start else " | " + line[start + 3 :]
        yield f"{'   ' if text.startswith(' ') else '    '}{text[: width - 6]}".rstrip()
