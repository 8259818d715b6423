"""Start, failure and shutdown of the control plane in one process."""

from __future__ import annotations

import asyncio
import os
import resource
import stat
from pathlib import Path

import pytest

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
