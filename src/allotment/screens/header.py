"""The head of every view: the cluster, how current its state is, and the command that gives the same answer."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from allotment.model.meta import Value
from allotment.shell_words import shell_line
from allotment.watched.view import ClusterView, Place

#: U+202A to U+202E and U+2066 to U+2069 in UTF-8.
_DIRECTION: Final = re.compile(b"\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])")


class ClusterHeader(Value, frozen=True, omit_defaults=False):
    """The cluster of a view. ``kube``: its release; the other fields are those of `ClusterView`.

    ``notes``: what to know about reading the cluster, as sentences.
    """

    name: str
    place: Place
    kube: str
    revision: int
    seen_at: str
    connected: bool
    error: str
    is_read_only: bool
    unread: dict[str, str]
    notes: tuple[str, ...]


class Screen(Value, frozen=True):
    """Base of all views. ``command``: the command line that gives the same answer; empty if none does."""

    cluster: ClusterHeader
    command: str


def header(view: ClusterView) -> ClusterHeader:
    """Return the head of a view."""
    return ClusterHeader(
        name=view.name,
        place=view.place,
        kube=view.inputs.features.kube,
        revision=view.revision,
        seen_at=view.seen_at,
        connected=view.connected,
        error=view.error,
        is_read_only=view.is_read_only,
        unread=dict(view.unread),
        notes=view.inputs.notes,
    )


def command(view: ClusterView, *words: str) -> str:
    """Return a command line for the cluster of a view: ``allot free --cluster dump.yaml``; empty without a cluster,
    because the command would answer for that of the current context."""
    if view.place == "none":
        return ""
    return shell_line(("allot", *words, *view.origin.options, *view.cluster.source.version_options))


def cluster_options(view: ClusterView) -> tuple[str, ...]:
    """Return the options of allot and kubectl that select the cluster of a view, whatever the current context is; none
    if a command would change another cluster: a snapshot, described hardware and a release are not in a kubeconfig."""
    named, context = view.origin.connection, view.origin.context
    if view.place not in ("lab", "cluster") or not context:
        return ()
    return named if "--context" in named else ("--context", context, *named)


def encoded(value: Value) -> bytes:
    """Return a view as JSON, which is faster than to encode its ``to_dict()``.

    Characters that change the direction of the text after them are replaced, as on a terminal: objects can contain
    arbitrary strings, which sentences quote.
    """
    return _DIRECTION.sub("\N{REPLACEMENT CHARACTER}".encode(), msgspec.json.encode(value, enc_hook=str))
