"""Runs the commands of a step in this process, and makes the change that ``allot explain`` proposes."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
from pathlib import Path
from typing import Final, NamedTuple

from allotment.cli.next_step import only_commands
from allotment.cli.output.console import Screen, folded
from allotment.cli.output.diffs import show_diff
from allotment.cli.tutorial.lab_objects import NAMESPACE
from allotment.cli.tutorial.step import Action, FirstRemedy
from allotment.explanation import Explanation
from allotment.model.editing.edits import EditError, SetValue
from allotment.model.editing.rewriting import rewrite
from allotment.model.loading import load_text
from allotment.model.loading.marks import split_path
from allotment.model.trees import to_value

#: What precedes a command, in place of the shell's prompt.
PROMPT: Final = "> "
#: The commands that can be entered at the prompt; the others run a lab, or do not end.
COMMANDS: Final = frozenset({
    "apply", "check", "claim", "delete", "describe", "explain", "fleet", "free", "get", "logs", "rule", "vocabulary",
    "wait",
})  # fmt: skip
#: The exit codes of ``allot explain`` with an answer: the pod fits, or not.
_DECIDED: Final = (0, 1)


class NotDone(Exception):
    """Raised if an action has not the expected result; the text states what happened."""


class EditedFile(NamedTuple):
    """The text of a file before and after a change, and the text of the change."""

    before: str
    after: str
    change: str


def perform(action: Action, screen: Screen) -> None:
    """Print and run an action in the current folder. Raises NotDone."""
    if isinstance(action, FirstRemedy):
        edited = _show_edit(action, screen)
        Path(action.file).write_text(edited.after, "utf-8")
        return
    screen.line(f"{PROMPT}{screen.paint(action.line, 'bold')}")
    screen.out.flush()
    code = execute(action.line)
    if code != action.code:
        raise NotDone(f"{action.line}: exit code {code}, expected {action.code}")


def show(action: Action, screen: Screen) -> None:
    """Print an action without running it. Raises NotDone."""
    if isinstance(action, FirstRemedy):
        _show_edit(action, screen)
    else:
        screen.line(f"  {screen.paint(action.line, 'cyan')}")


def execute(line: str) -> int:
    """Run ``allot`` or ``cat`` and return the exit code. ``KUBECONFIG`` names the lab."""
    from allotment.cli.main import main

    program, *words = shlex.split(line)
    if program == "cat":
        for name in words:
            sys.stdout.write(Path(name).read_text("utf-8"))
        return 0
    try:
        with only_commands(is_accepted):
            return main(words)
    except SystemExit as end:  # from the parser
        return end.code if isinstance(end.code, int) else 1


def is_accepted(line: str) -> bool:
    """Whether the prompt accepts a command line, which it does not pass to a shell."""
    words = shlex.split(line)
    return words[:1] == ["allot"] and words[1] in COMMANDS and not {"|", "&&", ">"} & set(words)


def first_remedy(remedy: FirstRemedy) -> EditedFile:
    """Return the file after the first change that ``allot explain`` proposes for the pod. Raises NotDone."""
    out = io.StringIO()
    line = f"allot explain pod/{remedy.pod} -o json"
    with contextlib.redirect_stdout(out):
        code = execute(line)
    if code not in _DECIDED:
        raise NotDone(f"{line}: exit code {code}")
    explanation = to_value(json.loads(out.getvalue()), Explanation)
    try:
        before = Path(remedy.file).read_text("utf-8")
    except OSError as error:
        raise NotDone(f"{remedy.file}: {(error.strerror or str(error)).lower()}") from None
    documents = {f"{document.kind} {NAMESPACE}/{document.name}": document for document in load_text(before).documents}
    for change in (
        change for answer in explanation.answers if answer.reasons for change in answer.reasons.headline.changes
    ):
        if change.object in documents:
            edit = SetValue(split_path(change.path), change.becomes)
            try:
                after = rewrite(before, remedy.file, [(documents[change.object], edit)])
            except EditError as error:
                raise NotDone(f"{remedy.file} cannot be changed: {error}") from None
            return EditedFile(before, after, change.text)
    raise NotDone(f"allot explain pod/{remedy.pod} proposes no change of {remedy.file}")


def _show_edit(remedy: FirstRemedy, screen: Screen) -> EditedFile:
    edited = first_remedy(remedy)
    for line in folded(f"in {remedy.file}: {edited.change}", screen.width and screen.width - len("# ")):
        screen.line(f"# {line}")
    show_diff(screen, {remedy.file: edited.before}, {remedy.file: edited.after})
    return edited
