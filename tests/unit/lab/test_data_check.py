from __future__ import annotations

import asyncio
import shutil
import sqlite3
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from allotment import InputError
from allotment.cluster.resources import CONFIG_MAPS
from allotment.lab import data_check
from allotment.lab.control_plane import running
from allotment.lab.data_check import REVISION_STEP, DataReport, check_data, repair
from allotment.lab.programs import NAMES, excluded_programs
from allotment.lab.settings import Settings
from allotment.lab.state import DataFolder

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def objects(folder: Path, *created: str) -> set[str]:
    """Run a lab: create ConfigMaps and return the names of all."""

    async def run() -> set[str]:
        async with running(Settings(fleet=(), data=DataFolder(folder), without=excluded_programs(NAMES))) as plane:
            for name in created:
                await plane.client().create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")
            return {str(item["metadata"]["name"]) for item in (await plane.client().list(CONFIG_MAPS, "default")).items}

    return asyncio.run(run())


def change(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / "lab.db") as file:
        file.execute(statement)
    file.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labs") / "original"
    objects(folder, "kept", "lost", "later")
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """The data of a lab with three objects."""
    return Path(shutil.copytree(original, tmp_path / "lab"))


def report(folder: Path) -> DataReport:
    return check_data(DataFolder(folder), NOW)


def test_the_data_of_a_lab_has_no_problems(folder: Path) -> None:
    found = report(folder)
    assert found.problems == ()
    assert found.database is not None
    assert "kept" in {item.name for item in found.database.objects}


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("lab.db", b"", "lab.db is empty; or restore it from a backup"),
        ("lab.db", b"x" * 5000, "is not an Allotment store"),
        ("pki/accounts.key", b"", "accounts.key: expected a key of 32 bytes, found an empty file: restore it from"),
        ("pki/ca.key", b"x", "ca.key: expected the private key of ca.crt in PEM format"),
        ("pki/token", b"short", "token: expected a token of at least 32 visible ASCII characters"),
        ("fleet.json", b"[1]", "fleet.json: expected the list of nodes, found"),
    ],
)
def test_each_damaged_file_is_reported(folder: Path, file: str, content: bytes, problem: str) -> None:
    (folder / file).write_bytes(content)
    (found,) = report(folder).problems
    assert problem in found


def test_files_that_others_could_have_placed_are_reported(folder: Path) -> None:
    folder.chmod(0o777)
    assert report(folder).problems == (
        f"{folder} is not safe for the data of a lab: all users can write to it",
    )  # fmt: skip


def test_a_repair_keeps_what_was_written_before_the_damage(folder: Path) -> None:
    change(folder, "UPDATE log SET value = CAST('{' AS BLOB) WHERE name = 'lost'")
    damaged = report(folder)
    assert damaged.problems
    repaired = repair(damaged, NOW)
    assert repaired.lost_revisions == 2
    assert repaired.kept == folder / "lab.db.damaged-20260102T000000"
    assert stat.S_IMODE((folder / "lab.db").stat().st_mode) == 0o600
    after = report(folder)
    assert after.problems == ()
    assert damaged.database is not None
    assert after.database is not None
    assert after.database.revision == damaged.database.newest + REVISION_STEP
    left = objects(folder)
    assert "kept" in left
    assert not {"lost", "later"} & left


def test_an_interrupted_repair_does_not_start_an_older_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(folder, "UPDATE log SET value = CAST('{' AS BLOB) WHERE name = 'lost'")
    damaged = report(folder)
    monkeypatch.setattr(data_check, "_wal", lambda path: pytest.fail("killed") if path.exists() else path)
    with pytest.raises(pytest.fail.Exception):
        repair(damaged, NOW)
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"lab\.db: expected the objects of the lab, found an empty file"):
        objects(folder)
    (problem,) = report(folder).problems
    assert f"an earlier repair was interrupted: rename {folder / 'lab.db.repaired'} to it" in problem
    (folder / "lab.db.repaired").rename(folder / "lab.db")
    assert "kept" in objects(folder)


def test_nothing_readable_cannot_be_repaired(folder: Path) -> None:
    (folder / "lab.db").write_bytes(b"x" * 5000)
    with pytest.raises(InputError, match="nothing in it is readable"):
        repair(report(folder), NOW)


def test_a_folder_without_a_lab_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected the data of a lab, found none"):
        report(tmp_path)
