"""The head of every view: the cluster, how current its state is, and the command that gives the same answer."""

from __future__ import annotations

import msgspec

from allotment.model.meta import Value
from allotment.shell_words import shell_line
from allotment.watched.view import ClusterView, Place


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
    """Base of all views. ``command``: the command line that gives the same answer."""

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
    """Return a command line for the cluster of a view: ``allot free --cluster dump.yaml``."""
    return shell_line(("allot", *words, *view.origin.options, *view.cluster.source.version_options))


def encoded(value: Value) -> bytes:
    """Return a view as JSON, which is faster than to encode its ``to_dict()``."""
    return msgspec.json.encode(value, enc_hook=str)
