"""The next step after a refusal: where the objects of a question are from, and what helps with its manifests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from allotment.api.named_objects import object_name
from allotment.api.question import Question
from allotment.errors import InputError
from allotment.explanation import Explanation
from allotment.explanation.next_step import Origin, no_file_command, with_next_steps
from allotment.model.meta import Object

if TYPE_CHECKING:
    from allotment.api.checks.attempt import CheckAttempt


def add_next_steps(
    explanation: Explanation, question: Question, objects: Mapping[str, Object] | None = None
) -> Explanation:
    """Return the explanation with the next step of each refusal. ``objects``: see `origin_of`."""
    return explanation if explanation.fits else with_next_steps(explanation, origin_of(question, objects))


def origin_of(question: Question, objects: Mapping[str, Object] | None = None) -> Origin:
    """Return where the objects of a question are from. ``objects``: all of them by kind and name, if that is known."""
    inputs, cluster = question.inputs, question.cluster.origin
    if objects is None:
        objects = {object_name(value): value for value in (*inputs.cluster, *inputs.queried)}
    return Origin(
        objects=objects,
        files=question.files,
        in_files=frozenset(map(object_name, inputs.queried)),
        place=cluster.place,
        options=question.options,
        connection=cluster.connection,
        for_files=_command_for_files(question) if question.files else no_file_command,
        is_repeatable=question.is_repeatable,
    )


def _command_for_files(question: Question) -> Callable[[str], str]:
    attempts: list[CheckAttempt | None] = []

    def command(name: str) -> str:
        if not attempts:
            attempts.append(_attempt(question))
        return attempts[0].command(name) if attempts[0] is not None else ""

    return command


def _attempt(question: Question) -> CheckAttempt | None:
    """Return `allot check` of the manifests, or None if they or the configuration cannot be read."""
    # The rules of `allot check` are loaded only if they are needed.
    from allotment.api.checks.attempt import CheckAttempt

    try:
        return CheckAttempt.of(question)
    except InputError:
        return None
