"""The tutorial without a reader: does every step, and checks it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from allotment.cli.tutorial.actions import NotDone, execute
from allotment.cli.tutorial.session import Session
from allotment.cli.tutorial.step import Check, Met, Step, Unmet
from allotment.cli.tutorial.step_text import done, heading, paragraph, right

#: How long to wait for a check, in seconds; far above the normal time.
TIMEOUT_SECONDS: Final = 30.0


def go_through(session: Session, steps: Sequence[Step], timeout: float = TIMEOUT_SECONDS) -> bool:
    """Do the steps that are not completed. Returns whether every check holds; stops at the first that does not."""
    for number, step in enumerate(steps, 1):
        if step.name in session.folder.progress.done:
            continue
        heading(session.screen, step, number, len(steps))
        session.screen.line()
        session.begin(step)
        try:
            session.perform(step)
            sentence = _result(session, step, timeout)
        except NotDone as error:
            paragraph(session.screen, str(error), "Failed: ", "red")
            return False
        session.screen.line()
        done(session.screen, sentence)
        session.folder.complete(step.name)
    return True


def _result(session: Session, step: Step, timeout: float) -> str:
    """Return what happened in a step. Raises NotDone if its check does not hold in time."""
    if step.question is not None:
        answer = step.question.answer(session.watch.objects())
        session.screen.line()
        paragraph(session.screen, step.question.text)
        return right(step.question, answer)
    assert step.check is not None
    return _wait(session, step.check, timeout)


def _wait(session: Session, check: Check, timeout: float) -> str:
    deadline = time.monotonic() + timeout
    while isinstance(result := check(session.watch.objects()), Unmet):
        left = deadline - time.monotonic()
        if left <= 0:
            raise NotDone(_why(session, result) or f"the step has no result after {timeout:g} s")
        session.events.next(left)
    assert isinstance(result, Met)
    return result.sentence


def _why(session: Session, result: Unmet) -> str:
    if result.pending:
        execute(f"allot explain pod/{result.pending}")
        return f"pod {result.pending} is pending"
    return result.hint
