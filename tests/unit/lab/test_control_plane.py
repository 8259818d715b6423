"""Start, failure and shutdown of the control plane in one process."""

from __future__ import annotations

import asyncio
import os
import resource
import stat
from pathlib import Path

import pytest

from allotment import InputError
from allotment.cluster.resources import CONFIG_MAPS, NAMESPACES, NODES
from allotment.lab.control_plane import running
from allotment.lab.secret_files import DamagedFile
from allotment.lab.settings import Settings
from allotment.lab.state import DataFolder


def test_a_full_disk_ends_the_lab_and_the_next_start_is_clean(tmp_path: Path) -> None:
    settings = Settings(fleet=(), tls=False, data=DataFolder(tmp_path))

    async def full() -> None:
        async with running(settings) as plane:
            client = plane.client()
            kept = {"metadata": {"name": "kept"}}
            await client.create(CONFIG_MAPS, kept, "default")
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            size = max(path.stat().st_size for path in tmp_path.glob("lab.db*"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10_000, before[1]))
            try:
                lost = {"metadata": {"name": "lost"}, "data": {"filler": "x" * 900_000}}
                with pytest.raises(OSError, match="cannot write to"):
                    await client.create(CONFIG_MAPS, lost, "default")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
            with pytest.raises(OSError, match="cannot write to"):
                await asyncio.wait_for(plane.failed, 50)
            with pytest.raises(OSError, match="cannot write to"):
                await client.create(CONFIG_MAPS, {"metadata": {"name": "late"}}, "default")

    async def again() -> None:
        async with running(settings) as plane:
            names = {tree["metadata"]["name"] for tree in (await plane.client().list(CONFIG_MAPS, "default")).items}
            assert names == {"kept", "kube-root-ca.crt"}

    asyncio.run(full())
    asyncio.run(again())


def test_a_failed_start_leaves_nothing_open(tmp_path: Path) -> None:
    async def test() -> None:
        settings = Settings(fleet=("tpu-v7",), tls=False, data=DataFolder(tmp_path))
        with pytest.raises(Exception, match="tpu-v7"):
            async with running(settings):
                pytest.fail("started")
        async with running(settings._replace(fleet=())) as plane:
            assert len((await plane.client().list(NAMESPACES)).items) == 4

    asyncio.run(test())


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("tls", [False, True])
def test_files_in_an_existing_folder_are_private(tmp_path: Path, tls: bool) -> None:
    tmp_path.chmod(0o755)

    async def test() -> None:
        async with running(Settings(fleet=(), tls=tls, data=DataFolder(tmp_path))) as plane:
            await plane.client().create(CONFIG_MAPS, {"metadata": {"name": "kept"}}, "default")
            found = modes(tmp_path)
            assert {"lab.db", "lab.db-wal", "pki/accounts.key"} <= set(found)
            assert set(found.values()) == {0o600}, found

    mask = os.umask(0)
    try:
        asyncio.run(test())
    finally:
        os.umask(mask)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700


def test_the_files_of_an_earlier_version_become_private(tmp_path: Path) -> None:
    settings = Settings(fleet=(), tls=True, data=DataFolder(tmp_path / "new" / "data"))

    async def start() -> None:
        async with running(settings):
            found = modes(tmp_path)
            assert set(found.values()) == {0o600}, found

    asyncio.run(start())
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new", tmp_path / "new" / "data")} == {0o700}
    folder = tmp_path / "new" / "data"
    for name in ("lab.log", "lab.db-shm"):
        (folder / name).touch()
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o664)
    asyncio.run(start())


@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 33])
def test_a_damaged_service_account_key_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "accounts.key").write_bytes(content)

    async def test() -> None:
        with pytest.raises(DamagedFile, match=r"accounts\.key: expected a key of 32 bytes, found .*: restore it from"):
            async with running(Settings(fleet=(), tls=False, data=DataFolder(tmp_path))):
                pytest.fail("started")

    asyncio.run(test())
    assert (tmp_path / "pki" / "accounts.key").read_bytes() == content


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("lab.db", "lab.db is not safe for the data of a lab: it is a symbolic link; use a folder that only you can"),
        ("lab.db.pid", "it is a symbolic link"),
        ("lab.log", "it is a symbolic link"),
        ("fleet.json", "it is a symbolic link"),
        ("pki", "it is a symbolic link"),
        ("pki/admin.token", "it is a symbolic link"),
        ("pki/front-proxy/ca.key", "it is a symbolic link"),
    ],
)
def test_links_in_the_data_folder_are_rejected(tmp_path: Path, name: str, problem: str) -> None:
    victim = tmp_path / "victim"
    folder = tmp_path / "data"
    if name == "pki":
        victim.mkdir()
        folder.mkdir()
    else:
        victim.write_text("mine")
        (folder / "pki" / "front-proxy").mkdir(parents=True)
    victim.chmod(0o755)
    (folder / name).symlink_to(victim)
    assert problem in refused(folder)
    assert stat.S_IMODE(victim.stat().st_mode) == 0o755


def test_a_link_to_the_data_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    DataFolder(tmp_path / "link").make()
    assert (tmp_path / "data" / "pki").is_dir()


def test_a_lab_starts_again_with_its_own_files(tmp_path: Path) -> None:
    async def start() -> None:
        async with running(Settings(fleet=(), data=DataFolder(tmp_path))):
            pass

    asyncio.run(start())
    asyncio.run(start())


@pytest.mark.parametrize("folder", ["data", "data/pki", "data/pki/front-proxy"])
def test_a_data_folder_that_all_users_can_write_to_is_rejected(tmp_path: Path, folder: str) -> None:
    (tmp_path / "data" / "pki" / "front-proxy").mkdir(parents=True)
    (tmp_path / folder).chmod(0o1777)
    assert "all users can write to it" in refused(tmp_path / "data")


@pytest.mark.parametrize("name", ["", "pki", "lab.db", "lab.log", "pki/accounts.key", "pki/admin.token"])
def test_files_of_another_user_are_rejected(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pki").mkdir()
    for file in ("lab.db", "lab.log", "pki/accounts.key", "pki/admin.token"):
        (tmp_path / file).touch()
    other = (tmp_path / name).stat().st_ino
    stat_of = Path.stat

    def status(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = stat_of(path, follow_symlinks=follow_symlinks)
        if found.st_ino != other:
            return found
        fields = list(found)
        fields[stat.ST_UID] = found.st_uid + 1
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "stat", status)
    monkeypatch.setattr(Path, "lstat", lambda path: status(path, follow_symlinks=False))
    assert f"it belongs to the user with ID {os.geteuid() + 1}" in refused(tmp_path)


def refused(folder: Path) -> str:
    """The error of a lab with an unsafe data folder."""

    async def start() -> None:
        async with running(Settings(fleet=(), tls=False, data=DataFolder(folder))):
            pytest.fail("started")

    with pytest.raises(InputError) as error:
        asyncio.run(start())
    return str(error.value)


def test_a_lost_database_is_not_replaced_by_an_empty_cluster(tmp_path: Path) -> None:
    settings = Settings(fleet=(), tls=False, data=DataFolder(tmp_path))

    async def start() -> None:
        async with running(settings):
            pass

    (tmp_path / "lab.db").touch()  # as a start leaves it that is killed early
    asyncio.run(start())
    (tmp_path / "lab.db").write_bytes(b"")
    with pytest.raises(InputError, match=r"lab\.db: expected the objects of the lab, found an empty file; restore it"):
        asyncio.run(start())
    (tmp_path / "lab.db").unlink()
    asyncio.run(start())


@pytest.mark.parametrize(
    "disabled",
    [
        "resource.k8s.io/v1=false",
        "resource.k8s.io/v1/deviceclasses=false",
        "resource.k8s.io/v1/resourceslices=false",
        "rbac.authorization.k8s.io/v1=false",
        "scheduling.k8s.io/v1=false",
    ],
)
def test_a_lab_starts_at_once_without_apis_that_are_disabled(disabled: str) -> None:
    async def test() -> None:
        settings = Settings(fleet=("t4-4x-pcie",), tls=False, runtime_config=(disabled,))
        async with asyncio.timeout(20), running(settings) as plane:
            assert len((await plane.client().list(NODES)).items) == 1

    asyncio.run(test())
