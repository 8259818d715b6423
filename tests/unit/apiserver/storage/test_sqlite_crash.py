"""A process killed at any time leaves a consistent store with all acknowledged writes."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from allotment.apiserver.storage.sqlite import SqliteStore

# Writes objects and deletes every third one again; prints each revision once it is durable.
WRITER = """
import asyncio, os, pathlib, sys
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.apiserver.storage.history import Window

async def main():
    store = SqliteStore.open(pathlib.Path(sys.argv[1]), history=Window(number=50))
    async def write(worker):
        number = 0
        while True:
            entry = store.put("things", f"w{worker}", f"n{number % 40}", {"metadata": {}, "filler": "x" * 700})
            if number % 3 == 0:
                entry = store.delete("things", f"w{worker}", f"n{number % 40}")
            await store.durable(entry.revision)
            os.write(1, f"{entry.revision} w{worker} n{number % 40} {int(number % 3 != 0)}\\n".encode())
            number += 1
    await asyncio.gather(*map(write, range(8)))
asyncio.run(main())
"""


@pytest.mark.parametrize("seed", range(3))
def test_acknowledged_writes_survive_a_kill(tmp_path: Path, seed: int) -> None:
    path, rng = tmp_path / "lab.db", random.Random(seed)
    expected: dict[tuple[str, str], tuple[int, bool]] = {}
    last = 1
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            first = writer.stdout.readline()
            time.sleep(rng.uniform(0, 0.15))
            writer.send_signal(signal.SIGKILL)
            acknowledged = first + writer.stdout.read()
        for line in acknowledged.splitlines(keepends=True):
            if line.endswith("\n"):
                written, namespace, name, there = line.split()
                last = int(written)
                expected[namespace, name] = (last, there == "1")

        store = SqliteStore.open(path)
        assert store.revision >= last
        history = {(c.entry.namespace, c.entry.name): c.revision for c in store.changes("things", store.oldest)}
        for key, (revision, exists) in expected.items():
            entry = store.get("things", *key)
            if history.get(key, 0) <= revision:  # otherwise a later, unacknowledged write is stored
                assert (entry.revision if entry else None) == (revision if exists else None)
        assert expected
        last = store.revision
        expected = {(entry.namespace, entry.name): (entry.revision, True) for entry in store.list("things")}
        asyncio.run(store.close())
        with sqlite3.connect(path) as file:
            assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        file.close()
