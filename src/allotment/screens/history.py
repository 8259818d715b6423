"""The history of a lab: the revisions that are kept, each with the changes in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from allotment.model.core import Pod
from allotment.model.meta import Object, Value
from allotment.model.resource import ResourceClaim
from allotment.phrases import first_few
from allotment.screens.header import Screen, command, header
from allotment.watched.view import ClusterView, Identity, identity_of


class Revision(Value, frozen=True, omit_defaults=False):
    """A revision of the cluster. ``time``: RFC 3339. ``text``: what changed in it."""

    revision: int
    time: str
    text: str


class HistoryScreen(Screen, frozen=True):
    """The revisions that ``/map?at=REVISION`` can show, oldest first."""

    revisions: tuple[Revision, ...] = ()


def history(view: ClusterView, past: Iterable[ClusterView] = ()) -> HistoryScreen:
    """Return the revisions of earlier views, oldest first, and of the present one."""
    views = [*past, view]
    return HistoryScreen(cluster=header(view), command=command(view, "status"), revisions=tuple(_revisions(views)))


def _revisions(views: Sequence[ClusterView]) -> Iterator[Revision]:
    before: ClusterView | None = None
    for view in views:
        text = what_changed(before, view) if before is not None else "the beginning of what is kept"
        yield Revision(view.revision, view.seen_at, text)
        before = view


def what_changed(before: ClusterView, after: ClusterView) -> str:
    """Return the differences of a view from an earlier one as text."""
    return after.cached(("screens.changed", before.revision), lambda: _what_changed(before, after))


def _what_changed(before: ClusterView, after: ClusterView) -> str:
    old = {identity_of(value): value for value in before.inputs.cluster}
    new = {identity_of(value): value for value in after.inputs.cluster}
    parts = [
        *_named("created", (identity for identity in new if identity not in old)),
        *_named("deleted", (identity for identity in old if identity not in new)),
    ]
    placed: list[Identity] = []
    allocated: list[Identity] = []
    changed: list[Identity] = []
    for identity, value in new.items():
        earlier = old.get(identity)
        if earlier is None or earlier is value or earlier == value:
            continue
        (placed if _is_placed(earlier, value) else allocated if _is_allocated(earlier, value) else changed).append(
            identity
        )
    parts += [*_named("placed", placed), *_named("allocated", allocated), *_named("changed", changed)]
    return "; ".join(parts) or "nothing that matters to devices"


def _is_placed(before: Object, after: Object) -> bool:
    return (
        isinstance(before, Pod) and isinstance(after, Pod) and not before.spec.node_name and bool(after.spec.node_name)
    )


def _is_allocated(before: Object, after: Object) -> bool:
    if not (isinstance(before, ResourceClaim) and isinstance(after, ResourceClaim)):
        return False
    return before.status.allocation is None and after.status.allocation is not None


def _named(verb: str, found: Iterable[Identity]) -> list[str]:
    names = [f"{kind} {key}" for kind, key in found]
    return [f"{verb} {first_few(names)}"] if names else []
