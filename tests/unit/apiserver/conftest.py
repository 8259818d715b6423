"""Checks after each test of the API server that stored trees were not changed in place."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.apiserver.storage.store import Change, Entry


@pytest.fixture(autouse=True)
def stored_trees_are_immutable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Later revisions, watches and clients share parts of stored trees, so rules must copy what they change."""
    stored: list[Entry] = []
    record = SqliteStore._record

    def recorded(store: SqliteStore, change: Change) -> None:
        stored.append(change.entry)
        record(store, change)

    monkeypatch.setattr(SqliteStore, "_record", recorded)
    yield
    for entry in stored:
        assert msgspec.json.encode(entry.tree) == entry.json, f"{entry.namespace}/{entry.name} was changed in place"
