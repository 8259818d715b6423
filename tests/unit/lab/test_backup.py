from __future__ import annotations

import io
import stat
import tarfile
from pathlib import Path

import pytest

from allotment import InputError
from allotment.lab.backup import create, restore
from allotment.lab.data_check import REVISION_STEP
from allotment.lab.state import DataFolder
from tests.unit.lab.test_data_check import change, objects, report


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labs") / "original"
    objects(folder, "a", "b")
    return folder


def test_a_restored_lab_has_the_objects_and_the_keys(original: Path, tmp_path: Path) -> None:
    saved = create(DataFolder(original), tmp_path / "backup.tar.gz")
    assert stat.S_IMODE((tmp_path / "backup.tar.gz").stat().st_mode) == 0o600
    restored = tmp_path / "labs" / "restored"
    assert restore(tmp_path / "backup.tar.gz", DataFolder(restored)) == saved
    database = report(restored).database
    assert database is not None
    assert database.revision == saved.revision + REVISION_STEP
    for name in ("accounts.key", "ca.crt", "ca.key", "token", "front-proxy/ca.key"):
        assert (restored / "pki" / name).read_bytes() == (original / "pki" / name).read_bytes()
    files = [path for path in restored.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {"a", "b"} < objects(restored)
    assert [path.name for path in restored.parent.iterdir()] == ["restored"]


def test_nothing_is_overwritten(original: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.tar.gz"
    create(DataFolder(original), backup)
    with pytest.raises(InputError, match="exists"):
        create(DataFolder(original), backup)
    with pytest.raises(InputError, match="exists and is not empty; remove it, or choose another"):
        restore(backup, DataFolder(original))
    (tmp_path / "empty").mkdir()
    restore(backup, DataFolder(tmp_path / "empty"))


def test_a_damaged_lab_is_not_backed_up(tmp_path: Path) -> None:
    objects(tmp_path / "lab")
    change(tmp_path / "lab", "UPDATE log SET value = CAST('{' AS BLOB) WHERE revision = 5")
    with pytest.raises(InputError, match=r"is damaged: .*; repair it first: allot lab check --repair"):
        create(DataFolder(tmp_path / "lab"), tmp_path / "backup.tar.gz")
    assert not (tmp_path / "backup.tar.gz").exists()


def archive(*members: tuple[str, bytes, bytes]) -> bytes:
    """A backup with members of a name, type and content."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as file:
        for name, kind, data in members:
            member = tarfile.TarInfo(name)
            member.type, member.size = kind, len(data)
            if kind == tarfile.SYMTYPE:
                member.linkname = "/etc/passwd"
            file.addfile(member, io.BytesIO(data))
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"no archive", "is not a backup of a lab, or it is damaged"),
        (archive(), "it has no database"),
        (archive(("lab.db", tarfile.REGTYPE, b"x" * 5000)), "it has no database"),
        (archive(("../escaped", tarfile.REGTYPE, b"x")), "it contains '../escaped'"),
        (archive(("/tmp/escaped", tarfile.REGTYPE, b"x")), "it contains '/tmp/escaped'"),
        (archive(("pki/../escaped", tarfile.REGTYPE, b"x")), "it contains 'pki/../escaped'"),
        (archive(("pki/..", tarfile.REGTYPE, b"x")), "it contains 'pki/..'"),
        (archive(("pki/front-proxy/../../../escaped", tarfile.REGTYPE, b"x")), "/escaped'"),
        (archive(("pki", tarfile.REGTYPE, b"x")), "it contains 'pki'"),
        (archive(("pki/token", tarfile.SYMTYPE, b"")), "it contains 'pki/token'"),
        (archive(("lab.log", tarfile.REGTYPE, b"x")), "it contains 'lab.log'"),
    ],
    # Archives contain the time.
    ids=[
        "no-archive",
        "empty",
        "no-database",
        "parent",
        "absolute",
        "inside",
        "folder-of-parent",
        "above",
        "folder",
        "link",
        "other-file",
    ],
)
def test_files_that_are_no_backups_restore_nothing(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "backup").write_bytes(content)
    with pytest.raises(InputError) as error:
        restore(tmp_path / "backup", DataFolder(tmp_path / "labs" / "new"))
    assert problem in str(error.value)
    assert list((tmp_path / "labs").iterdir()) == []
    assert not (tmp_path / "escaped").exists()


def test_a_truncated_backup_restores_nothing(original: Path, tmp_path: Path) -> None:
    create(DataFolder(original), tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / "part").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is not a backup of a lab, or it is damaged"):
        restore(tmp_path / "part", DataFolder(tmp_path / "labs" / "new"))
    assert list((tmp_path / "labs").iterdir()) == []
