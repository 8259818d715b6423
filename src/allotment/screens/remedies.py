"""The remedies of a refusal, as buttons: what each changes, the command that makes it, and whether it can be tried."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from allotment.api.next_step import origin_of
from allotment.api.question import Question
from allotment.engine.refusal import SuggestedChange
from allotment.explanation.next_step import Origin, commands_for_changes, next_step
from allotment.explanation.pending_run import is_applicable
from allotment.explanation.report import Answer
from allotment.model.meta import Value
from allotment.screens.header import cluster_options
from allotment.watched.view import ClusterView


class Remedy(Value, frozen=True):
    """Changes that are made together. ``id``: 0 for the first remedy, 1 for the other one.

    ``node``: where the pod fits then. ``command``: the command line that shows what to wait for, and ``change_command``
    the one that makes the changes; both are empty unless they reach the cluster.
    """

    id: int
    texts: tuple[str, ...]
    node: str = ""
    command: str = ""
    change_command: str = ""
    is_tryable: bool = False


#: The commands of kubectl that change nothing.
_READING: Final = frozenset({"get", "describe"})


def remedies_of(view: ClusterView, answer: Answer) -> tuple[Remedy, ...]:
    """Return the remedies of an answer in their order."""
    return tuple(_remedy(view, answer, number, changes) for number, changes in enumerate(changes_of(answer)))


def _remedy(view: ClusterView, answer: Answer, number: int, changes: tuple[SuggestedChange, ...]) -> Remedy:
    options = cluster_options(view)
    command = _command(view, answer, changes, options) if options else ""
    is_reading = not _READING.isdisjoint(shlex.split(command)[len(options) + 1 :][:1])
    return Remedy(
        id=number,
        texts=tuple(change.text for change in changes),
        node=changes[-1].node,
        command=command if is_reading else "",
        change_command="" if is_reading else command,
        is_tryable=is_applicable(changes),
    )


def changes_of(answer: Answer) -> tuple[tuple[SuggestedChange, ...], ...]:
    """Return the changes of each remedy of an answer."""
    if answer.reasons is None:
        return ()
    headline = answer.reasons.headline
    return tuple(changes for changes in (headline.changes, headline.otherwise) if changes)


def _command(view: ClusterView, answer: Answer, changes: tuple[SuggestedChange, ...], options: tuple[str, ...]) -> str:
    """The commands that make changes, as `allot explain` prints them for the first remedy."""
    assert answer.reasons is not None
    headline = replace(answer.reasons.headline, changes=changes, otherwise=())
    changed = replace(answer, reasons=replace(answer.reasons, headline=headline))
    return commands_for_changes(changed, _origin(view, options))


def next_command(view: ClusterView, answer: Answer) -> str:
    """Return the next step of `allot explain`, for the cluster of the view and no other; empty if there is none."""
    if options := cluster_options(view):
        return next_step(answer, _origin(view, options))
    return "" if "kubectl " in answer.next else answer.next


def _origin(view: ClusterView, options: tuple[str, ...]) -> Origin:
    """Where the objects of a view are from, with the options that select its cluster."""
    origin = view.cached("screens.origin", lambda: origin_of(Question(view.cluster, None, view.inputs)))
    return origin._replace(options=(*options, *view.cluster.source.version_options), connection=options)


def in_one_sentence(changes: Sequence[SuggestedChange]) -> str:
    """Return changes as one phrase."""
    return ", and ".join(change.text for change in changes)
