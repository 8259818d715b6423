"""Whose objects are whose: a controller's own, those it may adopt, those it must let go.

An object belongs to whom its controlling owner reference names. A controller adopts what its selector selects and
nobody controls, and lets go of what its selector selects no longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import Item, by_controller
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.controllers.label_selectors import selects
from allotment.controllers.pods import owner_reference
from allotment.model.trees import Tree

T = TypeVar("T")

_AT_ONCE = 64


class Children(Generic[T]):
    """The objects of one resource as their owners see them."""

    def __init__(self, cache: Cache[T], client: Client) -> None:
        self._cache = cache
        self._client = client
        self._of = cache.index("controller", by_controller)
        self._orphans = cache.index("orphan", _orphan)

    def count(self, uid: str) -> int:
        """How many an owner has, without looking at them."""
        return self._of.count(uid)

    def known(self, uid: str) -> Sequence[Item[T]]:
        """What names the owner as its controller."""
        return tuple(self._of[uid])

    def orphans(self, namespace: str) -> Iterable[Item[T]]:
        """What nobody controls."""
        return tuple(self._orphans[namespace])

    async def of(self, owner: Item[Any], fits: Callable[[Item[T]], bool] = lambda child: True) -> list[Item[T]]:
        """What belongs to an owner with a label selector, adopting what ``fits``, letting go where that must be."""
        selector = owner.spec.get("selector")
        if selector is None:
            return list(self.known(owner.uid))
        if "matchLabels" not in selector and "matchExpressions" not in selector:
            selector = {"matchLabels": selector}  # a ReplicationController selects as a Service does
        mine = []
        for child in self.known(owner.uid):
            if selects(selector, child.labels):
                mine.append(child)
            elif not owner.deleting:
                await self._write(child, [r for r in child.metadata["ownerReferences"] if r["uid"] != owner.uid])
        if owner.deleting:
            return mine
        for child in self.orphans(owner.namespace):
            if not child.deleting and selects(selector, child.labels) and fits(child):
                references = child.metadata.get("ownerReferences") or []
                adopted = await self._write(child, [*references, owner_reference(owner.tree)])
                if adopted is not None:
                    mine.append(adopted)
        return mine

    async def _write(self, child: Item[T], references: list[Tree]) -> Item[T] | None:
        metadata = {**child.metadata, "ownerReferences": references}
        try:
            answer = await self._client.update(self._cache.resource, {**child.tree, "metadata": metadata})
        except StatusError as error:
            if error.code == 404:
                return None
            raise
        self._cache.noted(answer)
        return self._cache.item(child.namespace, child.name)


def _orphan(item: Item[Any]) -> tuple[str, ...]:
    return () if item.controller is not None else (item.namespace,)


async def all_of(calls: Iterable[Callable[[], Awaitable[object]]], *, careful: bool = False) -> int:
    """Make calls side by side; how many went well, and then raises what the first failure was.

    ``careful`` starts with one and doubles, so that what cannot work (a quota is full) is not tried a thousand times.
    """
    waiting = list(calls)
    batch = 1 if careful else _AT_ONCE
    done = 0
    while waiting:
        now, waiting = waiting[:batch], waiting[batch:]
        answers = await asyncio.gather(*(call() for call in now), return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        done += len(now) - len(failures)
        if failures:
            raise Partly(done, failures[0])
        batch = min(batch * 2, _AT_ONCE)
    return done


class Partly(Exception):
    """Raised when some calls failed: how many went well before, and the first failure."""

    def __init__(self, done: int, failure: BaseException) -> None:
        super().__init__(str(failure))
        self.done = done
        self.failure = failure
