"""Paginated lists with continue tokens.

A token contains the revision of the first page and the last key, so all pages show the same revision. If the history no
longer contains that revision, the client gets 410 with a token to continue at the current one.
"""

from __future__ import annotations

import asyncio
import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from allotment.apiserver import api_errors, go_json
from allotment.apiserver.reads.computed import EntryReader
from allotment.apiserver.reads.selectors import ObjectSelection
from allotment.apiserver.request_options import ListOptions
from allotment.apiserver.storage.store import Compacted, Entry, Store
from allotment.model.trees import Tree

_VERSION: Final = "meta.k8s.io/v1"
#: Seconds that a read waits for a future revision, and the polling interval.
_REVISION_TIMEOUT, _POLL_INTERVAL = 3.0, 0.05
_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
_TOKEN_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class Page(NamedTuple):
    """List entries at one revision. ``remaining`` is known only without selectors."""

    entries: Sequence[Entry]
    revision: int
    token: str = ""
    remaining: int | None = None

    @property
    def meta(self) -> Tree:
        """The list metadata with resourceVersion, continue and remainingItemCount."""
        meta: Tree = {"resourceVersion": str(self.revision)}
        if self.token:
            meta["continue"] = self.token
            if self.remaining:
                meta["remainingItemCount"] = self.remaining
        return meta


class _ContinueToken(NamedTuple):
    """A decoded continue token. A ``revision`` of -1 is the current one."""

    revision: int
    after: tuple[str, str]


async def wait_for_revision(store: Store, revision: int) -> None:
    """Wait until the store has wait_for_revision a revision; raises 504 after a timeout."""
    waited = 0.0
    while store.revision < revision:
        if waited >= _REVISION_TIMEOUT:
            raise api_errors.revision_too_large(revision, store.revision)
        await asyncio.sleep(_POLL_INTERVAL)
        waited += _POLL_INTERVAL


def page(
    store: EntryReader, bucket: str, namespace: str | None, options: ListOptions, selection: ObjectSelection
) -> Page:
    """The requested page. The store must have wait_for_revision the requested revision already."""
    limit = options.limit
    if options.token:
        if options.revision:
            raise api_errors.bad_request("specifying resource version is not allowed when using continue")
        return _continued(store, bucket, namespace, options, selection)
    revision: int | None = None
    if options.revision is not None:
        if options.match == "Exact" or (options.revision and limit and not options.match):
            revision = options.revision
        elif options.revision == 0 and not options.match:
            limit = 0  # served from the cache upstream, which knows no pages
    if selection.name is not None and namespace is not None and revision is None:
        entry = store.get(bucket, namespace, selection.name)
        return Page((entry,) if entry is not None and selection.matches(entry.tree) else (), store.revision)
    try:
        entries = store.list(bucket, namespace, at=revision)
    except Compacted:
        raise api_errors.expired(_TOO_OLD) from None
    return _limited(entries, store.revision if revision is None else revision, limit, namespace, selection)


def _continued(
    store: EntryReader, bucket: str, namespace: str | None, options: ListOptions, selection: ObjectSelection
) -> Page:
    start = _decoded(options.token, namespace)
    if start.revision < 0:
        entries, revision = store.list(bucket, namespace), store.revision
    else:
        revision = start.revision
        if revision > store.revision:
            raise api_errors.revision_too_large(revision, store.revision)
        try:
            entries = store.list(bucket, namespace, at=revision)
        except Compacted:
            token = _encoded(-1, start.after, namespace)
            raise api_errors.expired(_TOKEN_TOO_OLD, {"continue": token}) from None
    position = bisect_right(entries, start.after, key=_key)
    return _limited(entries[position:], revision, options.limit, namespace, selection)


def _key(entry: Entry) -> tuple[str, str]:
    return entry.namespace, entry.name


def _limited(
    entries: Sequence[Entry], revision: int, limit: int, namespace: str | None, selection: ObjectSelection
) -> Page:
    if selection.matches_all:
        if limit <= 0 or len(entries) <= limit:
            return Page(entries, revision)
        page_entries = entries[:limit]
        return Page(page_entries, revision, _encoded(revision, _key(page_entries[-1]), namespace), len(entries) - limit)
    matches = selection.matches
    chosen: list[Entry] = []
    for entry in entries:
        if matches(entry.tree):
            if limit > 0 and len(chosen) == limit:
                return Page(chosen, revision, _encoded(revision, _key(chosen[-1]), namespace))
            chosen.append(entry)
    return Page(chosen, revision)


# --- tokens ----------------------------------------------------------------------------------------------------------


def _encoded(revision: int, after: tuple[str, str], namespace: str | None) -> str:
    start = f"/{after[1]}\0" if namespace is not None else f"{after[0]}/{after[1]}\0"
    token = msgspec.json.encode({"v": _VERSION, "rv": revision, "start": start})
    return urlsafe_b64encode(token).rstrip(b"=").decode()


def _decoded(token: str, namespace: str | None) -> _ContinueToken:
    def invalid_token(reason: str) -> Exception:
        return api_errors.bad_request(f"invalid continue token: continue key is not valid: {reason}")

    try:
        body = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise invalid_token("illegal base64 data at input byte 0") from None
    try:
        fields = go_json.decode(body)
    except ValueError as error:
        raise invalid_token(str(error)) from None
    if not isinstance(fields, dict):
        raise invalid_token("json: cannot unmarshal into Go value of type storage.continueToken")
    if fields.get("v") != _VERSION:
        raise invalid_token(f'server does not recognize this encoded version "{fields.get("v") or ""}"')
    revision, start = fields.get("rv"), fields.get("start")
    if not isinstance(revision, int) or revision == 0:
        raise invalid_token(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not isinstance(start, str) or not start.endswith("\0"):
        raise invalid_token(f"encoded start key empty (version {_VERSION})")
    token_namespace, _, name = start[:-1].rpartition("/")
    return _ContinueToken(revision, (namespace if namespace is not None else token_namespace, name))
