"""After the checkpoint is lost, changes without a plan are undone when no container can use them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from allotment.drivers import host as hosts
from allotment.drivers.driver import AllocatedClaim, ClaimError, PreparedClaim
from allotment.drivers.preparation import node_driver as framework
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import FakeDriver, disk_host, node_driver, put_claim


class SweepingFakeDriver(FakeDriver):
    """Undoes hardware that is on without a plan."""

    def __init__(self) -> None:
        super().__init__()
        self.swept: list[set[str]] = []
        self.fails = False
        self.gate: asyncio.Event | None = None

    async def sweep(self, plans: Sequence[Tree]) -> None:
        claims = {plan["claim"] for plan in plans}
        self.swept.append(claims)
        if self.fails:
            raise ClaimError("gpu-0 is in use")
        if self.gate is not None:
            await self.gate.wait()
        self.in_use = {gpu: claim for gpu, claim in self.in_use.items() if claim in claims}


async def started(driver: FakeDriver, folder: Path, client: MemoryClient) -> NodeDriver:
    plugin = node_driver(driver, disk_host(folder), client)
    await plugin.recover()
    return plugin


def checkpoint(folder: Path) -> Path:
    return folder / "plugin" / "checkpoint.json"


def test_lost_entries_without_cdi_files_are_undone_immediately(tmp_path: Path) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), SweepingFakeDriver()
        await (await started(driver, tmp_path, client)).prepare([put_claim(client, "a", "gpu-0", uid="a")])
        for file in (tmp_path / "cdi").iterdir():
            file.unlink()
        checkpoint(tmp_path).write_text("{")
        await started(driver, tmp_path, client)
        assert (driver.in_use, driver.swept) == ({}, [set()])
        await started(driver, tmp_path, client)
        assert len(driver.swept) == 1

    idle.run(main())


def test_lost_entries_with_cdi_files_are_undone_after_unprepare_even_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), SweepingFakeDriver()
        lost, kept = put_claim(client, "a", "gpu-0", uid="a"), put_claim(client, "b", "gpu-1", uid="b")
        await (await started(driver, tmp_path, client)).prepare([lost])
        checkpoint(tmp_path).write_text("{")
        plugin = await started(driver, tmp_path, client)
        await plugin.prepare([kept])
        await plugin.clean_up()
        assert driver.swept == []
        plugin = await started(driver, tmp_path, client)
        assert (await plugin.unprepare([lost]))["a"] == ""
        assert driver.in_use == {"gpu-0": "a", "gpu-1": "b"}
        await plugin.clean_up()
        assert (driver.in_use, driver.swept) == ({"gpu-1": "b"}, [{"b"}])
        assert "lost" not in json.loads(checkpoint(tmp_path).read_text())

    idle.run(main())


def test_a_single_unreadable_entry_is_undone_after_unprepare(tmp_path: Path) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), SweepingFakeDriver()
        refs = [put_claim(client, name, device, uid=name) for name, device in (("a", "gpu-0"), ("b", "gpu-1"))]
        await (await started(driver, tmp_path, client)).prepare(refs)
        tree = json.loads(checkpoint(tmp_path).read_text())
        tree["claims"]["a"] = "torn"
        checkpoint(tmp_path).write_text(json.dumps(tree))
        plugin = await started(driver, tmp_path, client)
        assert driver.swept == []
        await plugin.unprepare(refs[:1])
        await plugin.clean_up()
        assert (driver.in_use, driver.swept) == ({"gpu-1": "b"}, [{"b"}])

    idle.run(main())


def test_a_failed_sweep_is_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), SweepingFakeDriver()
        driver.in_use = {"gpu-0": "a"}
        driver.fails = True
        checkpoint(tmp_path).parent.mkdir()
        checkpoint(tmp_path).write_text("{")
        plugin = await started(driver, tmp_path, client)
        assert "gpu-0 is in use" in caplog.text
        driver.fails = False
        await plugin.clean_up()
        assert driver.in_use == {}

    idle.run(main())


def test_a_readable_checkpoint_is_not_swept(tmp_path: Path) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), SweepingFakeDriver()
        driver.in_use = {"gpu-7": "another claim"}
        plugin = await started(driver, tmp_path, client)
        await plugin.clean_up()
        assert (driver.in_use, driver.swept) == ({"gpu-7": "another claim"}, [])

    idle.run(main())


def test_a_sweep_does_not_affect_concurrent_claims(tmp_path: Path) -> None:
    class Slow(SweepingFakeDriver):
        async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
            assert self.gate is None or self.gate.is_set()
            return await super().prepare(claim, plan)

    async def main() -> None:
        client, driver = MemoryClient(), Slow()
        driver.fails = True
        checkpoint(tmp_path).parent.mkdir()
        checkpoint(tmp_path).write_text("{")
        plugin = await started(driver, tmp_path, client)
        driver.fails, driver.gate = False, asyncio.Event()
        cleaning = asyncio.ensure_future(plugin.clean_up())
        while len(driver.swept) < 2:
            await asyncio.sleep(0)
        preparing = asyncio.ensure_future(plugin.prepare([put_claim(client, "a", "gpu-0", uid="a")]))
        await asyncio.sleep(0.01)
        driver.gate.set()
        await cleaning
        assert (await preparing)["a"].error == ""
        assert driver.in_use == {"gpu-0": "a"}

    idle.run(main())


def test_cleanup_continues_if_another_process_holds_the_lock(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(hosts, "_WAIT_SECONDS", 0.02)
    monkeypatch.setattr(framework, "CLEANUP_SECONDS", 0.01)

    class IgnoringPublisher:
        def set_pools(self, driver: str, node: str, pools: object) -> None:
            pass

    async def main() -> None:
        client, driver = MemoryClient(), SweepingFakeDriver()
        lost = put_claim(client, "a", "gpu-0", uid="a")
        await (await started(driver, tmp_path, client)).prepare([lost])
        checkpoint(tmp_path).write_text("{")
        plugin = await started(driver, tmp_path, client)
        assert (await plugin.unprepare([lost]))["a"] == ""
        async with hosts.FileStorage(checkpoint(tmp_path)).lock():
            run = asyncio.create_task(plugin.run(IgnoringPublisher()))
            await asyncio.sleep(0.15)
            assert not run.done()
            assert driver.swept == []
        async with asyncio.timeout(5):
            while not driver.swept:
                await asyncio.sleep(0.01)
        run.cancel()
        await asyncio.wait([run])

    idle.run(main())
