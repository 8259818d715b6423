from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from allotment.apiserver.storage.database_file import DamagedDatabase, DatabaseInUse, UnsupportedDatabase
from allotment.apiserver.storage.history import Window
from allotment.apiserver.storage.salvage import Salvaged, read_damaged, write_new
from allotment.apiserver.storage.sqlite import SqliteStore

PAGE = 4096
WRITES = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lab.db"


async def written(path: Path, copy: Path | None = None) -> None:
    """Write each of ten objects again and again; ``copy``: a copy of the files while the store is open."""
    store = SqliteStore.open(path, history=Window(number=25))
    for number in range(WRITES):
        name = f"n{number % 10}"
        metadata = {"name": name, "namespace": "ns"}
        store.put("configmaps", "ns", name, {"metadata": metadata, "number": number, "filler": "x" * 700})
        await store.durable()
    store.put("nodes", "", "gone", {"metadata": {"name": "gone"}})
    store.delete("nodes", "", "gone")
    await store.durable()
    if copy is not None:
        shutil.copytree(path.parent, copy)
    await store.close()


def numbers(found: Salvaged) -> dict[str, int]:
    """The last number of each object."""
    return {item.name: int(item.value.partition(b'"number":')[2].partition(b",")[0]) for item in found.objects}


def at(revision: int) -> dict[str, int]:
    """The numbers at a revision; the first write has revision 2."""
    return {f"n{number % 10}": number for number in range(min(WRITES, revision - 1))}


def test_a_complete_database_has_no_problems(path: Path) -> None:
    asyncio.run(written(path))
    before = path.read_bytes()
    found = read_damaged(path)
    assert (found.revision, found.newest, found.problems) == (WRITES + 3, WRITES + 3, ())
    assert numbers(found) == at(found.revision)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["lab.db"]


def test_a_wal_is_read_and_not_changed(path: Path) -> None:
    copy = path.parent / "copy"
    asyncio.run(written(path, copy))
    wal = copy / "lab.db-wal"
    before = wal.read_bytes()
    found = read_damaged(copy / "lab.db")
    assert (found.revision, found.problems) == (WRITES + 3, ())
    assert wal.read_bytes() == before


@pytest.mark.parametrize("position", [0.2, 0.5, 0.8])
def test_the_part_before_a_damaged_frame_of_the_wal_is_kept(path: Path, position: float) -> None:
    """SQLite skips what follows, without an error."""
    copy = path.parent / "copy"
    asyncio.run(written(path, copy))
    wal = copy / "lab.db-wal"
    content = bytearray(wal.read_bytes())
    content[int(len(content) * position)] ^= 1
    wal.write_bytes(content)
    found = read_damaged(copy / "lab.db")
    assert found.revision < WRITES + 3
    assert numbers(found) == at(found.revision)
    assert "the log of SQLite has a damaged page, after which" in found.problems[0]
    with pytest.raises(DamagedDatabase, match="is damaged: the log of SQLite has a damaged page, after which"):
        SqliteStore.open(copy / "lab.db")
    assert read_damaged(copy / "lab.db") == found


@pytest.mark.parametrize("lost", [1, 100, PAGE + 24])
def test_an_incomplete_transaction_at_the_end_is_no_damage(path: Path, lost: int) -> None:
    copy = path.parent / "copy"
    asyncio.run(written(path, copy))
    wal = copy / "lab.db-wal"
    content = bytearray(wal.read_bytes())
    content[-lost] ^= 1
    wal.write_bytes(content)
    found = read_damaged(copy / "lab.db")
    assert found.problems == ()

    async def check() -> None:
        store = SqliteStore.open(copy / "lab.db")
        assert store.revision == found.revision
        await store.close()

    asyncio.run(check())


def test_objects_survive_any_damaged_page_up_to_a_complete_revision(path: Path) -> None:
    asyncio.run(written(path))
    whole = path.read_bytes()
    complete = 0
    for start in range(PAGE, len(whole), PAGE):
        path.write_bytes(whole[:start] + b"\xff" * PAGE + whole[start + PAGE :])
        found = read_damaged(path)
        expected = at(found.revision)
        assert numbers(found).items() <= expected.items()
        complete += numbers(found) == expected
        assert found.problems
    assert complete >= len(whole) // PAGE / 2  # damage to the log only


def change(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as file:
        file.execute(statement)
    file.close()


@pytest.mark.parametrize(
    ("statement", "problem", "revision"),
    [
        ("DELETE FROM log WHERE revision = 50", "revision 50 is missing, the next one is 51", 49),
        ("UPDATE log SET value = 'x' WHERE revision = 50", "is not an object", 49),
        ("UPDATE log SET value = CAST('{}' AS BLOB) WHERE revision = 50", "configmaps ns/n8 at revision 50 is not", 49),
        ("UPDATE log SET name = 'other' WHERE revision = 50", "contains another object, ('ns', 'n8', '50')", 49),
        ("UPDATE log SET name = CAST(x'ff' AS TEXT) WHERE revision = 50", "a row has invalid columns", 49),
        ("DELETE FROM compacted", "the revision at the start of the log cannot be read", 63),
    ],
)
def test_the_log_is_read_up_to_the_first_error(path: Path, statement: str, problem: str, revision: int) -> None:
    asyncio.run(written(path))
    change(path, statement)
    found = read_damaged(path)
    assert problem in "; ".join(found.problems)
    assert (found.revision, found.newest) == (revision, WRITES + 3)
    assert numbers(found) == at(revision)


def test_many_problems_are_counted(path: Path) -> None:
    asyncio.run(written(path))
    change(path, "UPDATE log SET value = CAST('{}' AS BLOB)")
    problems = read_damaged(path).problems
    assert len(problems) == 6
    assert problems[-1].endswith(" more")


@pytest.mark.parametrize("content", [b"no database", bytes(PAGE), b"SQLite format 3\0" + b"\xff" * PAGE])
def test_other_files_are_rejected(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UnsupportedDatabase):
        read_damaged(path)


def test_another_programs_database_is_rejected(path: Path) -> None:
    change(path, "CREATE TABLE t (a)")
    with pytest.raises(UnsupportedDatabase, match="another program's database"):
        read_damaged(path)


def test_a_database_that_is_open_is_not_read(path: Path) -> None:
    program = (
        "import pathlib, sys; from allotment.apiserver.storage.sqlite import SqliteStore\n"
        "store = SqliteStore.open(pathlib.Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        with pytest.raises(DatabaseInUse, match=f"in use by process {process.pid}"):
            read_damaged(path)
        process.kill()
    assert read_damaged(path).objects == ()


def test_a_new_database_has_the_objects_and_continues_after_the_revision(
    path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    asyncio.run(written(path))
    found = read_damaged(path)
    new = tmp_path_factory.mktemp("new") / "lab.db"
    write_new(new, found.objects, 5000)

    async def check() -> None:
        store = SqliteStore.open(new)
        assert {(entry.name, entry.revision, entry.json) for entry in store.list("configmaps")} == {
            (item.name, item.revision, item.value) for item in found.objects
        }
        assert (store.revision, store.oldest) == (5000, 5000)
        assert store.put("configmaps", "ns", "n0", {"metadata": {"name": "n0", "namespace": "ns"}}).revision == 5001
        await store.close()

    asyncio.run(check())
    assert [file.name for file in new.parent.iterdir()] == ["lab.db"]
