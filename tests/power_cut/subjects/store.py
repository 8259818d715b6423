"""The store of a lab: writes of several clients, with compactions, checkpoints of the WAL and a restart.

It prints ``W revision name value`` when an object is written (``-``: deleted), and ``A revision`` when that is
acknowledged. After a power cut, the store must have exactly the state of a revision that is not before the last
acknowledged one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from random import Random
from typing import Final

from allotment.apiserver.storage import database_file
from allotment.apiserver.storage.history import Window
from allotment.apiserver.storage.sqlite import FIRST, SqliteStore
from tests.power_cut.faults import plant

_CLIENTS: Final = 5
_WRITES: Final = 45
_DATABASE: Final = "data/lab.db"
#: Short, so that the log is merged into the objects during the test.
_WINDOW: Final = Window(number=60)
#: Pages after which the WAL is copied to the database.
_CHECKPOINT: Final = 30


def main(folder: Path, fault: str) -> None:
    """Write in two sessions."""
    plant(fault)
    database_file.CHECKPOINT_PAGES = _CHECKPOINT
    for session in range(2):
        asyncio.run(_session(folder / _DATABASE, session))


async def _session(path: Path, session: int) -> None:
    store = SqliteStore.open(path, history=_WINDOW)

    async def write(client: int) -> None:
        random = Random(client + session * _CLIENTS)
        for _ in range(_WRITES):
            name = f"c{client}-{random.randrange(8)}"
            if store.get("things", "", name) is not None and random.random() < 0.3:
                revision, value = store.delete("things", "", name).revision, "-"
            else:
                value = f"{random.getrandbits(64):016x}" * random.choice((1, 20, 50, 600))
                revision = store.put("things", "", name, {"metadata": {}, "value": value}).revision
            _say(f"W {revision} {name} {value}")
            await store.durable(revision)
            _say(f"A {revision}")

    await asyncio.gather(*map(write, range(_CLIENTS)))
    await store.close()


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


class StoreSubject:
    """The states of the store by revision."""

    def __init__(self) -> None:
        self._state: dict[str, str] = {}
        self._states = {FIRST: dict(self._state)}
        self._acknowledged = 0

    def printed(self, line: str) -> None:
        verb, revision, *rest = line.split(" ")
        if verb == "A":
            self._acknowledged = max(self._acknowledged, int(revision))
            return
        name, value = rest
        if value == "-":
            del self._state[name]
        else:
            self._state[name] = value
        self._states[int(revision)] = dict(self._state)

    def problem(self, folder: Path) -> str:
        path = folder / _DATABASE
        if self._acknowledged and not path.exists():
            return "the database is gone"
        try:
            return asyncio.run(self._continued(path))
        except OSError as error:
            return str(error)

    async def _continued(self, path: Path) -> str:
        store = SqliteStore.open(path, history=_WINDOW)
        try:
            revision = store.revision
            found = {entry.name: entry.tree["value"] for entry in store.list("things")}
            if revision < self._acknowledged:
                return f"revision {self._acknowledged} was acknowledged, and {revision} is the last one"
            if found != self._states.get(revision):
                return f"the objects are not those of revision {revision}"
            for change in store.changes("things", store.oldest):
                if change.revision > revision:
                    return f"a change has revision {change.revision}, after the last one, {revision}"
            written = store.put("things", "", "after", {"metadata": {}, "value": "new"}).revision
            await store.durable()
            return "" if written == revision + 1 else f"the next revision is {written}, after {revision}"
        finally:
            await store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
