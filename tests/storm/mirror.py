"""Copies of a lab's objects that are kept by watches, through restarts, and compared with lists.

A watch that resumes must deliver every change once, in order. An event that a client has got is acknowledged: the
write behind it must survive. A claim that is allocated has a finalizer at every revision, and is not deleted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, NamedTuple

from aiohttp import ClientError, ClientPayloadError, ClientSession, ClientTimeout

from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree

_SECONDS: Final = 30.0


class MirroredObject(NamedTuple):
    """An object in a mirror."""

    uid: str
    revision: int


class Mirror:
    """The objects of one resource, as of ``revision``. ``errors``: invariants that events broke."""

    def __init__(self, bucket: str, path: str, on_event: Callable[[], None]) -> None:
        self.bucket = bucket
        self.path = path
        self.revision = 0
        self.objects: dict[str, MirroredObject] = {}
        self.errors: list[str] = []
        self.events = 0
        self._on_event = on_event
        self._following = asyncio.Event()
        self._awaited: tuple[int, asyncio.Future[dict[str, MirroredObject]]] | None = None

    async def follow(self, client: ClientSession) -> None:
        """Follow the lab until it is gone; the next call resumes."""
        try:
            while True:
                if not self.revision:
                    await self._list(client)
                parameters = {"watch": "true", "resourceVersion": str(self.revision), "timeoutSeconds": "600"}
                async with client.get(self.path, params=parameters, timeout=ClientTimeout(total=None)) as answer:
                    self._following.set()
                    async for event in _events(answer.content.iter_any()):
                        self.apply(event)
                        self._on_event()
        except (ClientError, ClientPayloadError, TimeoutError, ConnectionError):
            return
        finally:
            self._following.clear()

    async def _list(self, client: ClientSession) -> None:
        async with client.get(self.path) as answer:
            listed = await answer.json()
        self.objects = {item["metadata"]["name"]: _mirrored_object(item) for item in listed["items"]}
        self.revision = int(listed["metadata"]["resourceVersion"])

    def apply(self, event: Tree) -> None:
        """Apply an event of the watch, and report what contradicts the earlier ones."""
        kind, found = event["type"], event["object"]
        if kind == "ERROR":
            if found.get("code") != 410:
                self._error(f"the watch ended with {found.get('message')}")
            self.revision = 0  # the history is shorter than the interruption: list again
            return
        name, now = found["metadata"]["name"], _mirrored_object(found)
        before = self.objects.get(name)
        if now.revision <= self.revision:
            self._error(f"{name} has revision {now.revision}, after {self.revision}")
        if (kind == "ADDED") != (before is None):
            self._error(f"{name} was {kind.lower()}, and it {'did not exist' if before is None else 'existed'}")
        elif before is not None and before.uid != now.uid:
            self._error(f"{name} was {before.uid}, now it is {now.uid}")
        if _is_allocated(found):
            if kind == "DELETED":
                self._error(f"{name} was deleted while it was allocated")
            elif FINALIZER not in (found["metadata"].get("finalizers") or ()):
                self._error(f"{name} is allocated and has no finalizer")
        self.revision = now.revision
        self.events += 1
        if kind == "DELETED":
            self.objects.pop(name, None)
        else:
            self.objects[name] = now
        if self._awaited is not None and self.revision >= self._awaited[0] and not self._awaited[1].done():
            self._awaited[1].set_result(dict(self.objects))

    def _error(self, text: str) -> None:
        self.errors.append(f"watch of {self.bucket}: {text}")

    async def differences(self, client: ClientSession, number: int) -> list[str]:
        """Compare the mirror with a list at the revision of a marker, an object that is written for this."""
        await self._following.wait()
        path = f"{self.path}/{MARKER}"
        patch = {"metadata": {"annotations": {"number": str(number)}}}
        headers = {"content-type": "application/merge-patch+json"}
        async with client.patch(path, json=patch, headers=headers) as answer:
            revision = int((await answer.json())["metadata"]["resourceVersion"])
        wanted: asyncio.Future[dict[str, MirroredObject]] = asyncio.get_running_loop().create_future()
        self._awaited = revision, wanted
        if self.revision >= revision:
            wanted.set_result(dict(self.objects))
        exact = {"resourceVersion": str(revision), "resourceVersionMatch": "Exact"}
        async with client.get(self.path, params=exact) as answer:
            listed = {item["metadata"]["name"]: _mirrored_object(item) for item in (await answer.json())["items"]}
        try:
            mirrored = await asyncio.wait_for(wanted, _SECONDS)
        except TimeoutError:
            return [f"watch of {self.bucket}: no event of revision {revision} within {_SECONDS:g} s"]
        finally:
            self._awaited = None
        return list(_compared(self.bucket, mirrored, listed))


#: The name of the object of each resource that is written to find out how far a watch is.
MARKER: Final = "marker"


def _compared(bucket: str, mirrored: dict[str, MirroredObject], listed: dict[str, MirroredObject]) -> Iterator[str]:
    for name in sorted(mirrored.keys() | listed.keys()):
        seen, stored = mirrored.get(name), listed.get(name)
        if seen != stored:
            yield f"watch of {bucket}: {name} is {_text(seen)} in the events and {_text(stored)} in the list"


def _text(seen: MirroredObject | None) -> str:
    return "absent" if seen is None else f"at revision {seen.revision}"


def _mirrored_object(tree: Tree) -> MirroredObject:
    return MirroredObject(tree["metadata"]["uid"], int(tree["metadata"]["resourceVersion"]))


def _is_allocated(tree: Tree) -> bool:
    """Whether it is a claim with an allocation."""
    return tree.get("kind") == "ResourceClaim" and "allocation" in (tree.get("status") or {})


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Tree]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield json.loads(line)
