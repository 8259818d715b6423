"""The screens as JSON, by address: for the page itself, and for programs that read it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import anyio
import msgspec
from starlette.datastructures import QueryParams

from allotment.decoding import decodable
from allotment.errors import InputError
from allotment.model.meta import Value
from allotment.screens.device_map import device_map
from allotment.screens.header import encoded
from allotment.screens.history import history
from allotment.screens.hypothetical_changes import change_of
from allotment.screens.manifest_editor import EditorRequest, editor_answer, editor_choices
from allotment.screens.money import money
from allotment.screens.object_page import object_page
from allotment.screens.object_refs import DEVICE
from allotment.screens.objects import objects
from allotment.screens.pending import pending, pending_detail
from allotment.screens.try_change import TryRequest, try_change
from allotment.screens.what_if import WhatIfRequest, what_if
from allotment.watched.view import ClusterView
from allotment.web.compression import Content, compressed
from allotment.web.limited_answers import LimitedAnswers, unlimited
from allotment.web.problems import rejected

T = TypeVar("T")

#: Answers that are computed at the same time; others wait.
_MOST_AT_ONCE: Final = 4
#: Answers to questions that may take many seconds, computed at the same time; they never delay the others.
_MOST_SLOW: Final = 2
#: Answers that are kept for a view.
_MOST_SHARED: Final = 32


class ScreenRequest(NamedTuple):
    """A request for a screen. ``path``: the variable parts of the address. ``past``: earlier views of a lab."""

    query: QueryParams
    path: Mapping[str, str] = {}
    body: bytes = b""
    past: tuple[ClusterView, ...] = ()
    catalog: tuple[str, ...] = ()


Answer = Callable[[ClusterView, ScreenRequest], Value]


def _map(view: ClusterView, request: ScreenRequest) -> Value:
    since, at = _number(request.query, "since"), _number(request.query, "at")
    if at:
        found = [each for each in (*request.past, view) if each.revision == at]
        if not found:
            raise rejected(404, "not-found", "Not found", f"revision {at} is not kept", "/history lists those that are")
        view, since = found[0], 0
    return device_map(view, since, frozenset(request.query.getlist("node")))


def _pending(view: ClusterView, request: ScreenRequest) -> Value:
    return pending(view, _number(request.query, "limit"))


def _pending_detail(view: ClusterView, request: ScreenRequest) -> Value:
    return pending_detail(view, request.path["id"], request.query.get("pod", ""))


def _editor_choices(view: ClusterView, request: ScreenRequest) -> Value:
    return editor_choices(view)


def _editor_answer(view: ClusterView, request: ScreenRequest) -> Value:
    return editor_answer(view, decoded(request.body, EditorRequest))


def _objects(view: ClusterView, request: ScreenRequest) -> Value:
    return objects(view, request.query.get("q", ""))


def _object(view: ClusterView, request: ScreenRequest) -> Value:
    kind = request.path["kind"]
    try:
        return object_page(view, kind, *object_name(kind, request.path["name"]))
    except InputError as error:
        raise rejected(404, "not-found", "Not found", error.message, error.hint) from None


def object_name(kind: str, path: str) -> tuple[str, str]:
    """Return namespace and name from the encoded rest of an address. An encoded slash is part of a name; some proxies
    decode it.

    >>> object_name("pod", "ml/trainer"), object_name("workload", "ml/Job%2Ftrain"), object_name("workload", "ml/Job/t")
    (('ml', 'trainer'), ('ml', 'Job/train'), ('ml', 'Job/t'))
    >>> object_name("device", "rack/pool-1/gpu-0"), object_name("node", "a")
    (('rack/pool-1', 'gpu-0'), ('', 'a'))
    """
    first, *rest = (unquote(part) for part in path.split("/"))
    if not rest:
        return "", first
    if kind == DEVICE:
        return "/".join((first, *rest[:-1])), rest[-1]
    return first, "/".join(rest)


def _what_if(view: ClusterView, request: ScreenRequest) -> Value:
    changes = tuple(map(change_of, request.query.getlist("change")))
    return what_if(view, WhatIfRequest(changes=changes))


def _what_if_posted(view: ClusterView, request: ScreenRequest) -> Value:
    return what_if(view, decoded(request.body, WhatIfRequest))


def _money(view: ClusterView, request: ScreenRequest) -> Value:
    return money(view, catalog=request.catalog, with_plan=request.query.get("plan", "") == "true")


def _try(view: ClusterView, request: ScreenRequest) -> Value:
    return try_change(view, decoded(request.body, TryRequest))


def _history(view: ClusterView, request: ScreenRequest) -> Value:
    if view.place != "lab":
        raise rejected(404, "not-found", "Not found", "only a lab has a history")
    return history(view, request.past)


#: The screens by address; the page has the same addresses.
SCREENS: Final[Mapping[str, Answer]] = {
    "/": _map,
    "/map": _map,
    "/pending": _pending,
    "/pending/{id}": _pending_detail,
    "/ask": _editor_choices,
    "/objects": _objects,
    "/objects/{kind}/{name:path}": _object,
    "/what-if": _what_if,
    "/money": _money,
    "/history": _history,
}
#: What is posted, by address.
POSTED: Final[Mapping[str, Answer]] = {"/ask": _editor_answer, "/try": _try, "/what-if": _what_if_posted}
#: Answers that many pages request for the same view, and that are kept for it.
_SHARED: Final = frozenset({"/", "/map", "/pending"})
#: The answers that may take many seconds: what is posted, and what depends on these parameters of an address.
_SLOW: Final[Mapping[str, str]] = {"/what-if": "change", "/money": "plan"}


def decoded(body: bytes, type: type[T]) -> T:
    """Return the JSON body of a request. Raises InputError."""
    try:
        return msgspec.json.decode(body, type=decodable(type))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body is not a valid request: {error}") from None


def _number(query: QueryParams, name: str) -> int:
    text = query.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise InputError(f"expected a number, found {text[:40]!r}", argument=name)
    return int(text)


class Answers:
    """Computes answers in threads, a few at a time; what several pages request at once is computed once.

    ``stopping``: set when the server ends.
    """

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._limiter = anyio.CapacityLimiter(_MOST_AT_ONCE)
        self._slow = LimitedAnswers(_MOST_SLOW, stopping)
        self._shared: WeakKeyDictionary[ClusterView, dict[str, _SharedAnswer]] = WeakKeyDictionary()

    async def of(self, view: ClusterView, path: str, answer: Answer, request: ScreenRequest) -> Content:
        """Return an answer as JSON. Raises what it raises."""
        if request.body or _SLOW.get(path) in request.query:
            return await self._slow.of(lambda: compressed(encoded(answer(view, request))))
        if path not in _SHARED or "at" in request.query:
            return await self._computed(view, answer, request)
        shared = self._shared.setdefault(view, {})
        key = f"{path}?{request.query}"
        entry = shared.get(key)
        if entry is None:
            if len(shared) >= _MOST_SHARED:
                del shared[next(iter(shared))]
            entry = shared[key] = _SharedAnswer()
        async with entry.lock:
            if entry.content is None:
                entry.content = await self._computed(view, answer, request)
        return entry.content

    async def _computed(self, view: ClusterView, answer: Answer, request: ScreenRequest) -> Content:
        return await self.run(lambda: compressed(encoded(answer(view, request))))

    async def run(self, compute: Callable[[], T]) -> T:
        """Compute something in a thread."""
        return await unlimited(compute, self._limiter, self._stopping)


class _SharedAnswer:
    """An answer that is computed by the first request for it."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.content: Content | None = None
