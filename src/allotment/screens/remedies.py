"""The remedies of a refusal, as buttons: what each changes, the command that makes it, and whether it can be tried."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from allotment.api.next_step import origin_of
from allotment.api.question import Question
from allotment.engine.refusal import SuggestedChange
from allotment.explanation.next_step import commands_for_changes
from allotment.explanation.pending_run import is_applicable
from allotment.explanation.report import Answer
from allotment.model.meta import Value
from allotment.watched.view import ClusterView


class Remedy(Value, frozen=True):
    """Changes that are made together. ``id``: 0 for the first remedy, 1 for the other one.

    ``node``: where the pod fits then. ``command``: the command line that makes them; empty if none does.
    """

    id: int
    texts: tuple[str, ...]
    node: str = ""
    command: str = ""
    is_tryable: bool = False


def remedies_of(view: ClusterView, answer: Answer) -> tuple[Remedy, ...]:
    """Return the remedies of an answer in their order."""
    return tuple(
        Remedy(
            id=number,
            texts=tuple(change.text for change in changes),
            node=changes[-1].node,
            command=_command(view, answer, changes),
            is_tryable=is_applicable(changes),
        )
        for number, changes in enumerate(changes_of(answer))
    )


def changes_of(answer: Answer) -> tuple[tuple[SuggestedChange, ...], ...]:
    """Return the changes of each remedy of an answer."""
    if answer.reasons is None:
        return ()
    headline = answer.reasons.headline
    return tuple(changes for changes in (headline.changes, headline.otherwise) if changes)


def _command(view: ClusterView, answer: Answer, changes: tuple[SuggestedChange, ...]) -> str:
    """The commands that make changes, as `allot explain` prints them for the first remedy."""
    assert answer.reasons is not None
    origin = view.cached("screens.origin", lambda: origin_of(Question(view.cluster, None, view.inputs)))
    headline = replace(answer.reasons.headline, changes=changes, otherwise=())
    return commands_for_changes(replace(answer, reasons=replace(answer.reasons, headline=headline)), origin)


def in_one_sentence(changes: Sequence[SuggestedChange]) -> str:
    """Return changes as one phrase."""
    return ", and ".join(change.text for change in changes)
