"""The one-line overview of a running lab."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.lab import overview
from allotment.lab.overview import Overview, report_changes
from tests.unit.cluster import idle


def put(store: SqliteStore, bucket: str, name: str, **tree: Any) -> None:
    store.put(bucket, "default", name, {"metadata": {"name": name}, **tree})


def test_every_object_is_counted_once() -> None:
    store = SqliteStore.open(None)
    put(store, "nodes", "n")
    put(store, "pods", "a", spec={"nodeName": "n"}, status={"phase": "Running"})
    put(store, "pods", "b", spec={"nodeName": "n"}, status={"phase": "Pending"})
    put(store, "pods", "c", spec={}, status={"phase": "Pending"})
    put(store, "pods", "d", spec={"nodeName": "n"}, status={"phase": "Succeeded"})
    put(store, "resourceclaims.resource.k8s.io", "x", status={"allocation": {"devices": {}}})
    put(store, "resourceclaims.resource.k8s.io", "y")
    assert Overview.of(store) == Overview(
        nodes=1, running=1, starting=1, unscheduled=1, ended=1, allocated=1, waiting=1
    )  # fmt: skip
    assert str(Overview.of(store)) == (
        "1 node; pods: 1 running, 1 starting, 1 without a node, 1 ended; claims: 1 allocated, 1 waiting"
    )
    assert str(Overview()) == "0 nodes; pods: none; claims: none"


def test_changes_are_combined_and_others_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_PAUSE_SECONDS", 0.02)

    async def test() -> None:
        store = SqliteStore.open(None)
        lines: list[Overview] = []
        with report_changes(store, lines.append):
            for number in range(10):
                put(store, "pods", f"p{number}", spec={}, status={"phase": "Pending"})
                await asyncio.sleep(0)
            put(store, "secrets", "s")
            await asyncio.sleep(0.05)
            put(store, "pods", "p0", spec={}, status={"phase": "Pending"}, more=True)
            await asyncio.sleep(0.05)
            put(store, "pods", "late", spec={})
        await asyncio.sleep(0.05)
        assert [line.unscheduled for line in lines] == [0, 10]

    idle.run(test())
