"""The store against a model that keeps the state of every revision, with restarts."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.apiserver.storage.store import Change, Compacted

BUCKETS = ("pods", "claims")
buckets = st.sampled_from(BUCKETS)
namespaces = st.sampled_from(("", "a", "a-b", "b"))
names = st.sampled_from(("x", "x-1", "y"))
State = dict[tuple[str, str, str], dict[str, Any]]


class StoreStateMachine(RuleBasedStateMachine):
    """On disk; ``states[revision]`` is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.states: dict[int, State] = {1: {}}
        self.open()

    def open(self) -> None:
        self.store = SqliteStore.open(Path(self.folder.name) / "lab.db")
        self.notifications: list[tuple[str, str, int]] = []
        self.first = self.store.revision
        for bucket in BUCKETS:
            self.store.subscribe(bucket, self.record_notification)

    def record_notification(self, change: Change) -> None:
        self.notifications.append((change.type, change.resource, change.revision))

    def teardown(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    @property
    def now(self) -> State:
        return self.states[self.store.revision]

    @rule(bucket=buckets, namespace=namespaces, name=names, data=st.integers(0, 99))
    def put(self, bucket: str, namespace: str, name: str, data: int) -> None:
        before = self.now
        entry = self.store.put(bucket, namespace, name, {"metadata": {"name": name}, "data": data})
        self.states[entry.revision] = before | {(bucket, namespace, name): entry.tree}

    @rule(bucket=buckets, namespace=namespaces, name=names)
    def delete(self, bucket: str, namespace: str, name: str) -> None:
        before, key = self.now, (bucket, namespace, name)
        if key not in before:
            with pytest.raises(KeyError):
                self.store.delete(bucket, namespace, name)
            return
        entry = self.store.delete(bucket, namespace, name)
        assert entry.tree["data"] == before[key]["data"]
        self.states[entry.revision] = {k: tree for k, tree in before.items() if k != key}

    @rule(turns=st.integers(0, 2))
    def run_loop(self, turns: int) -> None:
        for _ in range(turns):
            self.loop.run_until_complete(asyncio.sleep(0))

    @rule()
    def wait(self) -> None:
        self.loop.run_until_complete(self.store.durable())

    @rule()
    def restart(self) -> None:
        last = self.store.revision
        self.loop.run_until_complete(self.store.close())
        self.open()
        assert self.store.revision == last

    @precondition(lambda self: self.store.revision > 1)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        revision = data.draw(st.integers(1, self.store.revision))
        before = self.store.oldest
        self.store.compact(revision)
        assert before <= self.store.oldest <= max(before, revision)

    @rule(bucket=buckets, data=st.data(), namespace=st.none() | namespaces)
    def list_at(self, bucket: str, data: st.DataObject, namespace: str | None) -> None:
        at = data.draw(st.integers(1, self.store.revision))
        if at < self.store.oldest:
            with pytest.raises(Compacted):
                self.store.list(bucket, namespace, at=at)
            return
        expected = sorted(
            (key[1:], tree) for key, tree in self.states[at].items() if key[0] == bucket and namespace in (None, key[1])
        )
        entries = self.store.list(bucket, namespace, at=at)
        assert [((entry.namespace, entry.name), entry.tree) for entry in entries] == expected

    @rule(bucket=buckets, data=st.data())
    def changes_since(self, bucket: str, data: st.DataObject) -> None:
        self.loop.run_until_complete(self.store.durable())
        after = data.draw(st.integers(self.store.oldest, self.store.revision))
        state = {key[1:]: tree for key, tree in self.states[after].items() if key[0] == bucket}
        for change in self.store.changes(bucket, after):
            key = (change.entry.namespace, change.entry.name)
            assert (change.previous.tree if change.previous else None) == state.get(key)
            if change.type == "DELETED":
                del state[key]
            else:
                assert (change.type == "MODIFIED") == (key in state)
                state[key] = change.entry.tree
        assert state == {key[1:]: tree for key, tree in self.now.items() if key[0] == bucket}

    @invariant()
    def current_state_matches_the_model(self) -> None:
        for bucket in BUCKETS:
            for entry in self.store.list(bucket):
                assert self.now[bucket, entry.namespace, entry.name] == entry.tree
        assert sum(len(self.store.list(bucket)) for bucket in BUCKETS) == len(self.now)

    @invariant()
    def all_changes_are_notified_in_order(self) -> None:
        assert [revision for _, _, revision in self.notifications] == list(
            range(self.first + 1, self.first + 1 + len(self.notifications))
        )


StoreStateMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=30)
TestStoreAgainstModel = StoreStateMachine.TestCase
