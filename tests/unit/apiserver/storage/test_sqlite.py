"""The store: revisions, current and past lists, history, durability, restarts, failures."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.storage.database_file import DamagedDatabase, DatabaseInUse, UnsupportedDatabase
from allotment.apiserver.storage.history import Window
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.apiserver.storage.store import Change, Compacted, Entry, Store

Open = Callable[..., SqliteStore]

# Opens a store, reports it, and keeps it open.
HOLDER = """
import pathlib, sys
from allotment.apiserver.storage.sqlite import SqliteStore
store = SqliteStore.open(pathlib.Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def a_tree(**data: str) -> dict[str, Any]:
    return {"metadata": {}, "data": data}


def put(store: Store, name: str, namespace: str = "default", **data: str) -> int:
    return store.put("configmaps", namespace, name, a_tree(**data)).revision


def names(store: Store, namespace: str | None = None, at: int | None = None) -> list[str]:
    return [entry.name for entry in store.list("configmaps", namespace, at=at)]


def summarized(changes: Iterable[Change]) -> list[tuple[str, str, int]]:
    return [(change.type, change.entry.name, change.revision) for change in changes]


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


@pytest.fixture(params=["memory", "disk"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Open a store; on disk, always the same file."""

    def open_store(**settings: Any) -> SqliteStore:
        return SqliteStore.open(tmp_path / "lab.db" if request.param == "disk" else None, **settings)

    return open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "lab.db"


def test_each_write_sets_the_next_revision(opened: Open) -> None:
    async def test() -> None:
        store = opened()
        first = store.put("pods", "default", "a", a_tree())
        second = store.put("configmaps", "", "b", a_tree())
        gone = store.delete("pods", "default", "a")
        assert [first.revision, second.revision, gone.revision] == [2, 3, 4]
        assert store.revision == 4
        assert second.tree["metadata"] == {"resourceVersion": "3"}
        assert second.json == b'{"metadata":{"resourceVersion":"3"},"data":{}}'
        assert gone.tree["metadata"] == {"resourceVersion": "4"}
        assert first.tree["metadata"] == {"resourceVersion": "2"}, "a returned entry never changes"
        await store.close()

    run(test())


def test_delete_with_a_last_state(opened: Open) -> None:
    async def test() -> None:
        store = opened()
        put(store, "a")
        gone = store.delete("configmaps", "default", "a", a_tree(last="words"))
        assert gone.tree["data"] == {"last": "words"}
        assert store.get("configmaps", "default", "a") is None
        with pytest.raises(KeyError):
            store.delete("configmaps", "default", "a")
        with pytest.raises(KeyError):
            store.delete("nothing", "default", "a")
        await store.close()

    run(test())


def test_objects_that_cannot_be_encoded_are_not_stored(opened: Open) -> None:
    async def test() -> None:
        store = opened()
        with pytest.raises(TypeError):
            store.put("configmaps", "default", "a", {"metadata": {}, "data": object()})
        assert (store.revision, names(store)) == (1, [])
        assert put(store, "b") == 2
        await store.close()

    run(test())


def test_lists_are_sorted_by_namespace_and_name(opened: Open) -> None:
    async def test() -> None:
        store = opened()
        for namespace, name in (("b", "y"), ("a", "z"), ("b", "x"), ("b-c", "w"), ("a", "y")):
            put(store, name, namespace)
        assert [(entry.namespace, entry.name) for entry in store.list("configmaps")] == [
            ("a", "y"), ("a", "z"), ("b", "x"), ("b", "y"), ("b-c", "w"),
        ]  # fmt: skip
        assert names(store, "b") == ["x", "y"]
        assert names(store, "nobody") == []
        assert store.list("nothing") == ()
        await store.close()

    run(test())


def test_list_at_an_old_revision(opened: Open) -> None:
    async def test() -> None:
        store = opened()
        put(store, "a", colour="red")
        put(store, "c", "other")
        then = put(store, "b")
        put(store, "a", colour="blue")
        store.delete("configmaps", "default", "b")
        put(store, "0")
        put(store, "b", colour="new")
        await store.durable()
        assert names(store, at=then) == ["a", "b", "c"]
        assert names(store, "default", at=then) == ["a", "b"]
        assert store.list("configmaps", at=then)[0].tree["data"] == {"colour": "red"}
        assert store.list("configmaps", at=1) == ()
        with pytest.raises(ValueError, match="does not exist yet"):
            store.list("configmaps", at=store.revision + 1)
        await store.close()

    run(test())


def test_changes_are_delivered_exactly_once(opened: Open) -> None:
    async def test() -> None:
        store = opened()
        start = put(store, "before")
        await store.durable()
        seen: list[Change] = []
        put(store, "a")  # not durable when the watch begins: it is notified, not listed
        seen.extend(store.changes("configmaps", start))
        stop = store.subscribe("configmaps", seen.append)
        put(store, "a", colour="red")
        store.put("pods", "default", "p", a_tree())
        store.delete("configmaps", "default", "a")
        assert seen == []
        await store.durable()
        assert summarized(seen) == [("ADDED", "a", 3), ("MODIFIED", "a", 4), ("DELETED", "a", 6)]
        previous = [change.previous for change in seen]
        assert [entry and entry.revision for entry in previous] == [None, 3, 4]
        assert summarized(list(store.changes("configmaps", 3))) == summarized(seen)[1:]
        stop()
        put(store, "b")
        await store.durable()
        await asyncio.sleep(0.01)
        assert len(seen) == 3
        await store.close()

    run(test())


def test_early_subscribers_are_notified_before_durability(path: Path) -> None:
    async def test() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        store = SqliteStore.open(path)
        early: list[Change] = []
        late: list[Change] = []

        def fail(change: Change) -> None:
            raise RuntimeError(f"no to {change.entry.name}")

        store.subscribe("configmaps", fail, early=True)
        stop = store.subscribe("configmaps", early.append, early=True)
        store.subscribe("configmaps", late.append)
        start = store.revision
        put(store, "a")
        put(store, "a", colour="red")
        assert summarized(early) == [("ADDED", "a", 2), ("MODIFIED", "a", 3)]
        assert summarized(store.changes("configmaps", start, early=True)) == summarized(early)
        assert late == list(store.changes("configmaps", start)) == []
        assert len(failures) == 2
        await store.durable()
        assert summarized(late) == summarized(early)
        stop()
        put(store, "b")
        assert len(early) == 2
        await store.close()

    run(test())


def test_subscribers_can_change_and_fail_during_notification(opened: Open) -> None:
    async def test() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        store = opened()
        first: list[int] = []
        late: list[int] = []

        def leave(change: Change) -> None:
            first.append(change.revision)
            stop_second()
            late.extend(change.revision for change in store.changes("configmaps", 1))
            store.subscribe("configmaps", lambda change: late.append(change.revision))
            stop_first()

        def fail(change: Change) -> None:
            raise RuntimeError(f"no to {change.entry.name}")

        stop_first = store.subscribe("configmaps", leave)
        stop_second = store.subscribe("configmaps", lambda change: pytest.fail("summarized after it had left"))
        store.subscribe("configmaps", fail)
        put(store, "a")
        put(store, "b")
        await store.durable()
        await asyncio.sleep(0.01)
        put(store, "c")
        await store.durable()
        await asyncio.sleep(0.01)
        assert first == [2]
        assert late == [2, 3, 4]
        assert [str(failure["exception"]) for failure in failures] == ["no to a", "no to b", "no to c"]
        await store.close()

    run(test())


def test_compacted_revisions_are_rejected(opened: Open) -> None:
    async def test() -> None:
        store = opened()
        for number in range(6):
            put(store, f"n{number}")
        await store.durable()
        await asyncio.sleep(0.01)
        store.compact(4)
        assert store.oldest == 4
        assert names(store, at=4) == ["n0", "n1", "n2"]
        assert [change.revision for change in store.changes("configmaps", 4)] == [5, 6, 7]
        for late in (lambda: store.list("configmaps", at=3), lambda: store.changes("configmaps", 3)):
            with pytest.raises(Compacted, match=r"too old resource version: 3 \(4\)"):
                late()
        store.compact(2)
        assert store.oldest == 4
        store.compact(1000)
        assert store.oldest == store.revision
        assert len(names(store)) == 6
        await store.close()

    run(test())


@pytest.mark.parametrize(
    "window", [Window(age=60), Window(number=20), Window(weight=20 * 73)], ids=["age", "number", "weight"]
)
def test_the_history_is_limited_by_its_window(opened: Open, window: Window) -> None:
    async def test() -> None:
        now = 0.0
        store = opened(history=window, clock=lambda: now)
        for number in range(60):
            put(store, f"n{number % 7}", number=f"{number:020}")
            now += 3
            await store.durable()
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        kept = store.revision - store.oldest
        assert 20 <= kept <= 23
        assert len(list(store.changes("configmaps", store.oldest))) == kept
        await store.close()

    run(test())


def test_a_restart_restores_objects_history_and_revision(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore.open(path)
        for number in range(700):  # more than one statement holds
            put(store, f"n{number % 50:02}", number=str(number))
        store.delete("configmaps", "default", "n07")
        await store.durable()
        store.compact(300)
        last = put(store, "last", "other", unit="Ω <&>")
        history = summarized(list(store.changes("configmaps", 400)))
        await store.close()

        again = SqliteStore.open(path)
        assert again.revision == last
        assert again.oldest <= 300
        assert len(names(again)) == 50
        entry = again.list("configmaps", "other")[0]
        assert (entry.revision, entry.tree["data"]) == (last, {"unit": "Ω <&>"})
        assert summarized(list(again.changes("configmaps", 400)))[: len(history)] == history
        assert "n07" in names(again, at=last - 2)
        assert "n07" not in names(again)
        assert put(again, "next") == last + 1
        await again.close()

    run(test())


def test_history_older_than_its_window_is_folded_into_the_objects(path: Path) -> None:
    async def test() -> None:
        now = 1000.0
        store = SqliteStore.open(path, clock=lambda: now)
        for number in range(5000):
            put(store, f"n{number % 10}", number=str(number))
        for name in ("n3", "n4"):
            store.delete("configmaps", "default", name)
        put(store, "n4", number="again")
        await store.close()
        now += 1000
        store = SqliteStore.open(path, clock=lambda: now)
        assert store.oldest == store.revision == 5004
        assert names(store) == ["n0", "n1", "n2", "n4", "n5", "n6", "n7", "n8", "n9"]
        assert store.list("configmaps")[3].tree["data"] == {"number": "again"}
        put(store, "n3")
        await store.close()
        with sqlite3.connect(path) as file:
            assert file.execute("SELECT count(*) FROM log").fetchone() == (1,)
            assert file.execute("SELECT count(*) FROM objects").fetchone() == (9,)
            assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        file.close()

    run(test())


def test_writes_before_the_loop_become_durable_with_the_first_wait(path: Path) -> None:
    store = SqliteStore.open(path)
    put(store, "early")
    run(store.durable())
    run(store.close())
    again = SqliteStore.open(path)
    assert names(again) == ["early"]
    run(again.close())


def test_writes_of_one_loop_iteration_are_one_transaction(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore.open(path)
        put(store, "first")
        await asyncio.sleep(0)
        for number in range(100):
            put(store, f"n{number}")
        await asyncio.gather(*(store.durable(revision) for revision in range(2, store.revision + 1)))
        times = {change.revision: change for change in store.changes("configmaps", 1)}
        assert len(times) == 101
        await store.close()

    run(test())
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT count(DISTINCT time) FROM log").fetchone() == (2,)
    file.close()


def test_a_cancelled_waiter_does_not_affect_others(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore.open(path)
        put(store, "a")
        waiting, cancelled = asyncio.create_task(store.durable()), asyncio.create_task(store.durable())
        await asyncio.sleep(0)
        cancelled.cancel()
        await waiting
        await store.close()

    run(test())


def test_a_full_disk_closes_the_store(path: Path) -> None:
    async def test() -> None:
        store = SqliteStore.open(path)
        put(store, "kept")
        await store.durable()
        summarized: list[Change] = []
        store.subscribe("configmaps", summarized.append)
        failures: list[OSError] = []
        store.on_failure = failures.append
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
        try:
            put(store, "lost", filler="x" * 500_000)
            waits = [asyncio.create_task(store.durable()) for _ in range(3)]
            await asyncio.sleep(0)
            put(store, "lost too")
            waits.append(asyncio.create_task(store.durable()))
            answers = await asyncio.gather(*waits, return_exceptions=True)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert [type(answer) for answer in answers] == [OSError] * 4
        assert str(path) in str(answers[0])
        assert len(failures) == 1
        for write in (lambda: put(store, "more"), lambda: store.delete("configmaps", "default", "kept")):
            with pytest.raises(OSError, match="cannot write to"):
                write()
        with pytest.raises(OSError, match="cannot write to"):
            await store.durable()
        assert summarized == []
        await store.close()
        again = SqliteStore.open(path)
        assert names(again) == ["kept"]
        await again.close()

    run(test())


def test_a_file_is_locked_by_one_process(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(DatabaseInUse, match=f"{path} is in use by process {other.pid}"):
            SqliteStore.open(path)
        other.kill()
        other.wait()
    store = SqliteStore.open(path)
    with pytest.raises(DatabaseInUse, match=f"process {os.getpid()}"):
        SqliteStore.open(path)
    run(store.close())


def test_foreign_files_are_rejected_and_not_changed(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("Dear diary, today I was opened as a database." * 100)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as file:
        file.execute("CREATE TABLE other (x)")
    file.close()
    with pytest.raises(UnsupportedDatabase, match="not an Allotment store"):
        SqliteStore.open(text)
    with pytest.raises(UnsupportedDatabase, match="another program"):
        SqliteStore.open(foreign)
    newer = tmp_path / "newer.db"
    run(SqliteStore.open(newer).close())
    with sqlite3.connect(newer) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()
    with pytest.raises(UnsupportedDatabase, match="format 99"):
        SqliteStore.open(newer)
    with pytest.raises(OSError, match="cannot open"):
        SqliteStore.open(tmp_path)
    assert text.read_text().startswith("Dear diary")


#: The bytes of a page of SQLite's files.
PAGE = 4096


def test_damaged_pages_are_reported_or_change_nothing(path: Path) -> None:
    store = SqliteStore.open(path)
    for number in range(60):
        put(store, f"object-{number}", text="some text " * 50)
    store.compact(40)
    run(store.close())
    kept = [(entry.name, entry.json) for entry in contents(path)]
    whole = path.read_bytes()
    damaged = [
        whole[:start] + page + whole[start + PAGE :]
        for start in range(PAGE, len(whole), PAGE)
        for page in (bytes(PAGE), b"\xff" * PAGE, b"\x0d" + b"{" * (PAGE - 1))
    ]
    reported = []
    for content in (*damaged, whole[: len(whole) // 2], whole[:PAGE]):
        path.write_bytes(content)
        try:
            found = [(entry.name, entry.json) for entry in contents(path)]
        except DamagedDatabase as error:
            reported.append(f"{error}; {error.advice}")
        else:
            assert found == kept  # a page that is not in use
    assert len(reported) > len(damaged) / 2
    for text in reported:
        assert text.startswith(f"{path} is damaged: ")
        assert text.endswith(f"allot lab check --repair --data-dir {path.parent}")


@pytest.mark.parametrize("column", ["value = 'no JSON'", "value = 7", "name = CAST(x'ff' AS TEXT)"])
@pytest.mark.parametrize("table", ["log", "objects"])
def test_damaged_rows_are_reported(path: Path, table: str, column: str) -> None:
    store = SqliteStore.open(path)
    put(store, "a")
    run(store.close())
    with sqlite3.connect(path) as file:
        if table == "objects":  # as after the log was merged
            file.execute("INSERT INTO objects SELECT resource, namespace, name, revision, value FROM log")
            file.execute("DELETE FROM log")
        file.execute(f"UPDATE {table} SET {column}")
    file.close()
    with pytest.raises(DamagedDatabase, match="is damaged: "):
        SqliteStore.open(path)


def contents(path: Path) -> Sequence[Entry]:
    """The objects in a file."""
    store = SqliteStore.open(path)
    found = store.list("configmaps")
    run(store.close())
    return found


def test_a_closed_store_rejects_writes(opened: Open) -> None:
    async def test() -> None:
        store = opened()
        put(store, "a")
        await store.close()
        with pytest.raises(OSError, match="is closed"):
            put(store, "b")
        await store.close()

    run(test())
