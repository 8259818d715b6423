"""The tutorial with a reader, who runs the commands here or in another terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from allotment.cli.tutorial.actions import COMMANDS, PROMPT, NotDone, execute, show
from allotment.cli.tutorial.events import EndOfInput, Entered, Settled
from allotment.cli.tutorial.session import Session
from allotment.cli.tutorial.step import Met, Question, Step, Unmet
from allotment.cli.tutorial.step_text import assignment, done, heading, paragraph, right

#: Objects change in groups: a mistake is reported when nothing has changed for this long.
SETTLE_SECONDS: Final = 1.0
_KEYS: Final = "Enter: do this step for me   s: show the solution   q: quit"


class Quit(Exception):
    """Raised if the reader ends the tutorial before its last step."""


def go_through(session: Session, steps: Sequence[Step], settle: float = SETTLE_SECONDS) -> None:
    """Go through the steps that are not completed. Raises Quit.

    ``settle``: the seconds without a change after which a mistake is reported.
    """
    for number, step in enumerate(steps, 1):
        if step.name in session.folder.progress.done:
            continue
        session.begin(step)
        heading(session.screen, step, number, len(steps))
        assignment(session.screen, step)
        if step.question is not None:
            paragraph(session.screen, step.question.text, colour="bold")
        keys = f"{'Type the answer.   ' if step.question is not None else ''}{_KEYS}"
        session.screen.line(session.screen.paint(keys, "dim"))
        sentence = _Attempt(session, step, settle).wait()
        session.screen.line()
        done(session.screen, sentence)
        session.folder.complete(step.name)


class _Attempt:
    """The reader does a step: from its text until its check holds."""

    def __init__(self, session: Session, step: Step, settle: float) -> None:
        self._session = session
        self._step = step
        self._settle = settle
        # A pod that is pending at the start of the step is what the step is about.
        self._reported = self._check() if step.applied else Unmet()
        self._prompted = False

    def wait(self) -> str:
        """Return what happened when the step is done. Raises Quit."""
        result = self._check()
        while isinstance(result, Unmet):
            self._prompt()
            event = self._session.events.next(None if result == self._reported else self._settle)
            if isinstance(event, EndOfInput):
                raise Quit
            if isinstance(event, Entered):
                self._prompted = False
                if (answered := self._entered(event.line)) is not None:
                    return answered
            elif isinstance(event, Settled):
                self._report(result)
            result = self._check()
        self._clear()
        return result.sentence

    def _check(self) -> Met | Unmet:
        return Unmet() if self._step.check is None else self._step.check(self._session.watch.objects())

    # --- what the reader enters --------------------------------------------------------------------------------------

    def _entered(self, line: str) -> str | None:
        """Act on a line. Returns the sentence that ends the step, if it does."""
        question = self._step.question
        if line in ("q", "quit", "exit"):
            raise Quit
        if not line:
            return self._do()
        if line in ("s", "solution"):
            self._show_solution()
        elif line.startswith(("allot ", "cat ")):
            self._run(line)
        elif question is not None:
            if line.casefold() == self._answer(question).casefold():
                return right(question, self._answer(question))
            paragraph(self._session.screen, f"{line} is not right. {self._look()}", "Not yet: ", "yellow")
        else:
            paragraph(self._session.screen, f"expected Enter, s, q or a command of allot, found {line!r}")
        return None

    def _show_solution(self) -> None:
        screen = self._session.screen
        try:
            for action in self._step.actions:
                show(action, screen)
        except NotDone as error:
            paragraph(screen, str(error))
        if self._step.question is not None:
            paragraph(screen, right(self._step.question, self._answer(self._step.question)))

    def _do(self) -> str | None:
        try:
            self._session.perform(self._step)
        except NotDone as error:
            paragraph(self._session.screen, str(error), "Failed: ", "red")
            return None
        question = self._step.question
        return None if question is None else right(question, self._answer(question))

    def _run(self, line: str) -> None:
        screen = self._session.screen
        try:
            program, *words = shlex.split(line)
            if program == "cat" or (words and words[0] in COMMANDS):
                execute(line)
            else:
                paragraph(screen, f"run this in another terminal: {line}")
        except ValueError as error:  # a quotation mark that is not closed
            paragraph(screen, f"{line}: {str(error).lower()}")
        except OSError as error:
            paragraph(screen, f"{error.filename}: {(error.strerror or str(error)).lower()}")

    def _answer(self, question: Question | None) -> str:
        return "" if question is None else question.answer(self._session.watch.objects())

    def _look(self) -> str:
        return f"{self._step.commands[0].line} shows it; Enter runs it."

    # --- the screen --------------------------------------------------------------------------------------------------

    def _report(self, result: Unmet) -> None:
        """Explain what is not as meant; once for each state."""
        self._reported = result
        self._clear()
        if result.pending:
            label = f"pod {result.pending} is pending. allot explain pod/{result.pending} shows why:"
            paragraph(self._session.screen, label, "Not yet: ", "yellow")
            execute(f"allot explain pod/{result.pending}")
        elif result.hint:
            paragraph(self._session.screen, result.hint, "Not yet: ", "yellow")

    def _prompt(self) -> None:
        if not self._prompted:
            self._session.events.discard_empty_lines()
            self._session.screen.out.write(PROMPT)
            self._session.screen.out.flush()
            self._prompted = True

    def _clear(self) -> None:
        if self._prompted:
            self._session.screen.out.write("\r\x1b[K")
            self._prompted = False
