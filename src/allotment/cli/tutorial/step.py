"""A step of the tutorial: its text, its files and commands, and the check that decides whether it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from allotment.cli.tutorial.lab_objects import LabObjects


class Met(NamedTuple):
    """The result of a check that holds. ``sentence``: what happened, and why."""

    sentence: str


class Unmet(NamedTuple):
    """The result of a check that does not hold yet.

    ``hint``: the likely mistake, and how to correct it. ``pending``: the pod whose pending state is to be explained;
    ``refusal`` identifies this pod and the scheduler's reason. All are empty while the step is not begun or in
    progress.
    """

    hint: str = ""
    pending: str = ""
    refusal: str = ""


Check: TypeAlias = Callable[[LabObjects], Met | Unmet]


class Command(NamedTuple):
    """A command line of ``allot`` or ``cat``, run in the tutorial's folder. ``code``: its expected exit code."""

    line: str
    code: int = 0


class FirstRemedy(NamedTuple):
    """A change of a file: the first change that ``allot explain`` proposes for a pending pod."""

    pod: str
    file: str


Action: TypeAlias = Command | FirstRemedy


class Question(NamedTuple):
    """A question about the output of a command. ``answer``: the right answer for these objects."""

    text: str
    answer: Callable[[LabObjects], str]
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step.

    ``name`` identifies it in the progress file. ``files``: packaged manifests that it uses, as
    they are at its start; ``applied``: whether their objects exist then. The reader is to run the ``commands``, to make
    the ``edit`` as ``task`` requires, and to run the commands ``afterwards``. A step has a ``check`` or a ``question``.
    """

    name: str
    title: str
    text: str
    commands: tuple[Command, ...]
    files: tuple[str, ...] = ()
    applied: bool = False
    task: str = ""
    edit: FirstRemedy | None = None
    afterwards: tuple[Command, ...] = ()
    check: Check | None = None
    question: Question | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that do the step."""
        return (*self.commands, *((self.edit,) if self.edit is not None else ()), *self.afterwards)
