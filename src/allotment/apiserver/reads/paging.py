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
from allotment.apiserver.reads.selectors import Selection
from allotment.apiserver.request_options import ListOptions
from allotment.apiserver.storage.store import Compacted, Entry, Store
from allotment.model.trees import Tree

_VERSION: Final = "meta.k8s.io/v1"
#: Seconds that a read waits for a future revision, and the polling interval.
_PATIENCE, _STEP = 3.0, 0.05
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
        """The ListMeta."""
        meta: Tree = {"resourceVersion": str(self.revision)}
        if self.token:
            meta["continue"] = self.token
            if self.remaining:
                meta["remainingItemCount"] = self.remaining
        return meta


class _From(NamedTuple):
    """A decoded continue token. A ``revision`` of -1 is the current one."""

    revision: int
    after: tuple[str, str]


async def reached(store: Store, revision: int) -> None:
    """Wait until the store has reached a revision; raises 504 after a timeout."""
    waited = 0.0
    while store.revision < revision:
        if waited >= _PATIENCE:
            raise api_errors.revision_too_large(revision, store.revision)
        await asyncio.sleep(_STEP)
        waited += _STEP


def page(store: Store, bucket: str, namespace: str | None, options: ListOptions, wanted: Selection) -> Page:
    """The requested page. The store must have reached the requested revision already."""
    limit = options.limit
    if options.token:
        if options.revision:
            raise api_errors.bad_request("specifying resource version is not allowed when using continue")
        return _continued(store, bucket, namespace, options, wanted)
    revision: int | None = None
    if options.revision is not None:
        if options.match == "Exact" or (options.revision and limit and not options.match):
            revision = options.revision
        elif options.revision == 0 and not options.match:
            limit = 0  # served from the cache upstream, which knows no pages
    if wanted.name is not None and namespace is not None and revision is None:
        found = store.get(bucket, namespace, wanted.name)
        return Page((found,) if found is not None and wanted.admits(found.tree) else (), store.revision)
    try:
        entries = store.list(bucket, namespace, at=revision)
    except Compacted:
        raise api_errors.expired(_TOO_OLD) from None
    return _cut(entries, store.revision if revision is None else revision, limit, namespace, wanted)


def _continued(store: Store, bucket: str, namespace: str | None, options: ListOptions, wanted: Selection) -> Page:
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
    place = bisect_right(entries, start.after, key=_key)
    return _cut(entries[place:], revision, options.limit, namespace, wanted)


def _key(entry: Entry) -> tuple[str, str]:
    return entry.namespace, entry.name


def _cut(entries: Sequence[Entry], revision: int, limit: int, namespace: str | None, wanted: Selection) -> Page:
    if wanted.everything:
        if limit <= 0 or len(entries) <= limit:
            return Page(entries, revision)
        kept = entries[:limit]
        return Page(kept, revision, _encoded(revision, _key(kept[-1]), namespace), len(entries) - limit)
    admits = wanted.admits
    chosen: list[Entry] = []
    for entry in entries:
        if admits(entry.tree):
            if limit > 0 and len(chosen) == limit:
                return Page(chosen, revision, _encoded(revision, _key(chosen[-1]), namespace))
            chosen.append(entry)
    return Page(chosen, revision)


# --- tokens ----------------------------------------------------------------------------------------------------------


def _encoded(revision: int, after: tuple[str, str], namespace: str | None) -> str:
    start = f"/{after[1]}\0" if namespace is not None else f"{after[0]}/{after[1]}\0"
    token = msgspec.json.encode({"v": _VERSION, "rv": revision, "start": start})
    return urlsafe_b64encode(token).rstrip(b"=").decode()


def _decoded(token: str, namespace: str | None) -> _From:
    def wrong(why: str) -> Exception:
        return api_errors.bad_request(f"invalid continue token: continue key is not valid: {why}")

    try:
        body = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise wrong("illegal base64 data at input byte 0") from None
    try:
        said = go_json.decode(body)
    except ValueError as error:
        raise wrong(str(error)) from None
    if not isinstance(said, dict):
        raise wrong("json: cannot unmarshal into Go value of type storage.continueToken")
    if said.get("v") != _VERSION:
        raise wrong(f'server does not recognize this encoded version "{said.get("v") or ""}"')
    revision, start = said.get("rv"), said.get("start")
    if not isinstance(revision, int) or revision == 0:
        raise wrong(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not isinstance(start, str) or not start.endswith("\0"):
        raise wrong(f"encoded start key empty (version {_VERSION})")
    before, _, name = start[:-1].rpartition("/")
    return _From(revision, (namespace if namespace is not None else before, name))
