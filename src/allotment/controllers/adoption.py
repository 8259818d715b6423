"""Controller references: the children that an owner controls, the orphans it adopts, and those it releases.

The controlling owner reference of an object names its owner. A controller adopts objects that match its selector and
have no controller, and releases its own objects that no longer match.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem, by_controller
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.controllers.label_selectors import selects
from allotment.controllers.pods import owner_reference
from allotment.model.trees import Tree

T = TypeVar("T")

_AT_ONCE = 64


class Children(Generic[T]):
    """The objects of one resource, indexed by the owner that controls them."""

    def __init__(self, cache: Cache[T], client: Client) -> None:
        self._cache = cache
        self._client = client
        self._of = cache.index("controller", by_controller)
        self._orphans = cache.index("orphan", _orphan)

    def count(self, uid: str) -> int:
        """The number of objects that an owner controls, from the index."""
        return self._of.count(uid)

    def known(self, uid: str) -> Sequence[CachedItem[T]]:
        """The objects whose controller reference names the owner."""
        return tuple(self._of[uid])

    def orphans(self, namespace: str) -> Iterable[CachedItem[T]]:
        """The objects of a namespace that have no controller."""
        return tuple(self._orphans[namespace])

    async def of(
        self, owner: CachedItem[Any], fits: Callable[[CachedItem[T]], bool] = lambda child: True
    ) -> list[CachedItem[T]]:
        """Return an owner's children; adopt matching orphans that ``fits`` accepts, and release children that do not
        match.
        """
        selector = owner.spec.get("selector")
        if selector is None:
            return list(self.known(owner.uid))
        if "matchLabels" not in selector and "matchExpressions" not in selector:
            selector = {"matchLabels": selector}  # a ReplicationController selects as a Service does
        owned = []
        for child in self.known(owner.uid):
            if selects(selector, child.labels):
                owned.append(child)
            elif not owner.deleting:
                await self._write(child, [r for r in child.metadata["ownerReferences"] if r["uid"] != owner.uid])
        if owner.deleting:
            return owned
        for child in self.orphans(owner.namespace):
            if not child.deleting and selects(selector, child.labels) and fits(child):
                references = child.metadata.get("ownerReferences") or []
                adopted = await self._write(child, [*references, owner_reference(owner.tree)])
                if adopted is not None:
                    owned.append(adopted)
        return owned

    async def _write(self, child: CachedItem[T], references: list[Tree]) -> CachedItem[T] | None:
        metadata = {**child.metadata, "ownerReferences": references}
        try:
            answer = await self._client.update(self._cache.resource, {**child.tree, "metadata": metadata})
        except StatusError as error:
            if error.code == 404:
                return None
            raise
        self._cache.record_write(answer)
        return self._cache.item(child.namespace, child.name)


def _orphan(item: CachedItem[Any]) -> tuple[str, ...]:
    return () if item.controller is not None else (item.namespace,)


async def call_all(calls: Iterable[Callable[[], Awaitable[object]]], *, slow_start: bool = False) -> int:
    """Run calls concurrently and return how many succeeded. Raises PartialFailure with the first failure.

    ``slow_start`` begins with one call and doubles the batch after each success, so that calls which cannot succeed (a
    quota is exhausted) are not repeated a thousand times.
    """
    waiting = list(calls)
    batch = 1 if slow_start else _AT_ONCE
    done = 0
    while waiting:
        now, waiting = waiting[:batch], waiting[batch:]
        answers = await asyncio.gather(*(call() for call in now), return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        done += len(now) - len(failures)
        if failures:
            raise PartialFailure(done, failures[0])
        batch = min(batch * 2, _AT_ONCE)
    return done


class PartialFailure(Exception):
    """Raised when some calls failed: the number that succeeded, and the first failure."""

    def __init__(self, done: int, failure: BaseException) -> None:
        super().__init__(str(failure))
        self.done = done
        self.failure = failure
