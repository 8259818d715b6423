"""The control plane in one process: its ends."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from allotment.cluster.resources import CONFIG_MAPS, NAMESPACES
from allotment.lab.control_plane import running
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


def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    async def test() -> None:
        settings = Settings(fleet=("tpu-v7",), tls=False, data=DataFolder(tmp_path))
        with pytest.raises(Exception, match="tpu-v7"):
            async with running(settings):
                pytest.fail("started")
        async with running(settings._replace(fleet=())) as plane:
            assert len((await plane.client().list(NAMESPACES)).items) == 4

    asyncio.run(test())
