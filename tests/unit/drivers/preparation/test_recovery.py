"""Recovery from the end of the last process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from allotment.cdi.store import FolderStore
from allotment.cluster.resources import CLAIMS
from allotment.drivers import host as hosts
from allotment.drivers.host import CheckpointLocked, FileStorage
from allotment.kubelet_plugin.messages import PluginCallError
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import DRIVER, FakeDriver, disk_host, node_driver, put_claim


def stored(folder: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((folder / "plugin" / "checkpoint.json").read_text())
    return tree


def test_a_restart_keeps_claims_and_rewrites_missing_cdi_files(tmp_path: Path) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        ref = put_claim(client, "c", "gpu-0")
        first = await node_driver(driver, disk_host(tmp_path), client).prepare([ref])
        cdi = FolderStore(tmp_path / "cdi")
        before = cdi.read(f"k8s.{DRIVER}-claim_{ref.uid}")
        cdi.remove(f"k8s.{DRIVER}-claim_{ref.uid}")
        client.remove(CLAIMS, "shop", "c")
        plugin = node_driver(driver, disk_host(tmp_path), client)
        await plugin.recover()
        assert cdi.read(f"k8s.{DRIVER}-claim_{ref.uid}") == before
        assert await plugin.prepare([ref]) == first
        assert driver.calls == [f"prepare {ref.uid}"]
        assert await plugin.unprepare([ref]) == {ref.uid: ""}
        assert driver.in_use == {}
        assert stored(tmp_path)["claims"] == {}

    asyncio.run(main())


def test_started_entries_are_undone_with_the_plan(tmp_path: Path) -> None:
    class Exits(FakeDriver):
        async def prepare(self, claim: Any, plan: Any) -> Any:
            # The plan is on disk before hardware is changed.
            assert stored(tmp_path)["claims"][claim.uid]["state"] == "started"
            assert stored(tmp_path)["claims"][claim.uid]["plan"] == plan
            self.in_use["gpu-0"] = claim.uid
            raise asyncio.CancelledError  # simulates the end of the process

    async def main() -> None:
        client, driver = MemoryClient(), Exits()
        ref = put_claim(client, "c", "gpu-0")
        with pytest.raises(asyncio.CancelledError):
            await node_driver(driver, disk_host(tmp_path), client).prepare([ref])
        after = FakeDriver()
        after.in_use = driver.in_use
        await node_driver(after, disk_host(tmp_path), client).recover()
        assert after.in_use == {}
        assert stored(tmp_path)["claims"] == {}

    asyncio.run(main())


def test_after_a_reboot_the_checkpoint_is_empty(tmp_path: Path) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        ref = put_claim(client, "c", "gpu-0")
        await node_driver(driver, disk_host(tmp_path), client).prepare([ref])
        (tmp_path / "cdi" / "vendor.com-gpu.json").write_text("{}")
        driver.calls.clear()
        await node_driver(driver, disk_host(tmp_path, "boot-2"), client).recover()
        assert driver.calls == []
        assert stored(tmp_path) == {"version": 1, "bootID": "boot-2", "claims": {}}
        assert [path.name for path in (tmp_path / "cdi").iterdir()] == ["vendor.com-gpu.json"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 7, "state": "completed"},
        {"version": 1, "state": "half", "namespace": "shop", "name": "c", "plan": {}},
        {"version": 1, "state": "completed", "namespace": "shop", "name": "c", "plan": "x"},
        [],
        None,
    ],
)
def test_an_unreadable_entry_is_set_aside_and_the_others_stay(tmp_path: Path, damage: Any) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        good, bad = put_claim(client, "good", "gpu-0"), put_claim(client, "bad", "gpu-1")
        await node_driver(driver, disk_host(tmp_path), client).prepare([good, bad])
        tree = stored(tmp_path)
        tree["claims"][bad.uid] = damage
        (tmp_path / "plugin" / "checkpoint.json").write_text(json.dumps(tree))
        plugin = node_driver(driver, disk_host(tmp_path), client)
        await plugin.recover()
        assert list(stored(tmp_path)["claims"]) == [good.uid]
        aside = [
            json.loads(line) for line in (tmp_path / "plugin" / "checkpoint.json.unreadable").read_text().splitlines()
        ]
        assert [(line["claim"], line["entry"]) for line in aside] == [(bad.uid, damage)]
        # The claim may be in use: its CDI file stays until the kubelet calls unprepare.
        assert len(list((tmp_path / "cdi").iterdir())) == 2
        assert await plugin.unprepare([bad]) == {bad.uid: ""}
        assert len(list((tmp_path / "cdi").iterdir())) == 1

    asyncio.run(main())


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"version": 9, "claims": {}}', b"[]", b'{"claims": {}}'])
def test_a_driver_starts_with_an_unreadable_checkpoint(tmp_path: Path, damage: bytes) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        ref = put_claim(client, "c", "gpu-0")
        await node_driver(driver, disk_host(tmp_path), client).prepare([ref])
        (tmp_path / "plugin" / "checkpoint.json").write_bytes(damage)
        plugin = node_driver(driver, disk_host(tmp_path), client)
        await plugin.recover()
        assert (await plugin.prepare([ref]))[ref.uid].error == ""
        side = tmp_path / "plugin" / "checkpoint.json.unreadable"
        assert (side.read_bytes().rstrip(b"\n") if side.exists() else b"") == damage

    asyncio.run(main())


def test_unknown_fields_are_preserved(tmp_path: Path) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        first, second = put_claim(client, "one", "gpu-0"), put_claim(client, "two", "gpu-1")
        await node_driver(driver, disk_host(tmp_path), client).prepare([first])
        tree = stored(tmp_path)
        tree["partitionMode"] = "NPS4"
        tree["claims"][first.uid]["cgroup"] = {"path": "/a"}
        (tmp_path / "plugin" / "checkpoint.json").write_text(json.dumps(tree))
        plugin = node_driver(driver, disk_host(tmp_path), client)
        await plugin.recover()
        await plugin.prepare([second])
        assert stored(tmp_path)["partitionMode"] == "NPS4"
        assert stored(tmp_path)["claims"][first.uid]["cgroup"] == {"path": "/a"}
        driver.fail_at = {"unprepare"}
        await plugin.unprepare([first])
        assert stored(tmp_path)["claims"][first.uid]["state"] == "started"
        assert stored(tmp_path)["claims"][first.uid]["cgroup"] == {"path": "/a"}

    asyncio.run(main())


def test_started_entries_of_deleted_claims_are_cleaned_up(tmp_path: Path) -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        gone, here = put_claim(client, "gone", "gpu-0"), put_claim(client, "here", "gpu-1")
        plugin = node_driver(driver, disk_host(tmp_path), client)
        driver.fail_at = {"prepare", "unprepare"}
        await plugin.prepare([gone, here])
        driver.fail_at = set()
        client.remove(CLAIMS, "shop", "gone")
        put_claim(client, "gone", "gpu-0", uid="another")
        await plugin.clean_up()
        assert driver.in_use == {"gpu-1": here.uid}
        assert list(stored(tmp_path)["claims"]) == [here.uid]

    asyncio.run(main())


def test_two_processes_prepare_alternately_and_share_the_checkpoint(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(hosts, "_WAIT_SECONDS", 0.1)

    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        old, new = (node_driver(driver, disk_host(tmp_path), client) for _ in range(2))
        await old.recover()
        await new.recover()
        first, second = put_claim(client, "one", "gpu-0"), put_claim(client, "two", "gpu-1")
        driver.gate = asyncio.Event()
        slow = asyncio.create_task(old.prepare([first]))
        await asyncio.sleep(0.05)  # until the other process waits
        with pytest.raises(PluginCallError, match=rf"checkpoint.json.lock is held by process {os.getpid()} \(since "):
            await new.prepare([second])
        driver.gate.set()
        answer = await slow
        assert (await new.prepare([second]))[second.uid].error == ""
        # Each process has the entries of the other one.
        assert await new.prepare([first]) == answer
        assert await old.unprepare([second]) == {second.uid: ""}
        assert list(stored(tmp_path)["claims"]) == [first.uid]
        assert sorted(driver.calls) == sorted(
            [f"prepare {first.uid}", f"prepare {second.uid}", f"unprepare {second.uid}"]
        )

    idle.run(main())


def test_the_lock_is_released_with_the_process(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(hosts, "_WAIT_SECONDS", 0.05)

    async def main() -> None:
        storage, other = (FileStorage(tmp_path / "checkpoint.json") for _ in range(2))
        lock = tmp_path / "checkpoint.json.lock"
        holds = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print('held', flush=True); input()"
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", holds, lock, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        assert await child.stdout.readline() == b"held\n"
        with pytest.raises(CheckpointLocked):
            async with storage.lock():
                pass
        child.kill()
        await child.wait()
        async with other.lock():
            pass

    asyncio.run(main())


def test_waiting_saves_are_combined(tmp_path: Path) -> None:
    class Counting(FileStorage):
        saves = 0

        async def save(self, data: bytes) -> None:
            Counting.saves += 1
            await super().save(data)

    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        host = disk_host(tmp_path)._replace(checkpoint=Counting(tmp_path / "plugin" / "checkpoint.json"))
        plugin = node_driver(driver, host, client)
        refs = [put_claim(client, f"c{i}", f"gpu-{i}") for i in range(8)]
        answers = await plugin.prepare(refs)
        assert not any(answer.error for answer in answers.values())
        assert len(stored(tmp_path)["claims"]) == 8
        assert Counting.saves < 12  # 16 without combined writes

    asyncio.run(main())


def test_files_of_another_implementation_are_not_changed(tmp_path: Path) -> None:
    async def main() -> None:
        client = MemoryClient()
        yaml_file, other = f"k8s.{DRIVER}-claim_0c-77.yaml", "vendor.yaml"
        (tmp_path / "cdi").mkdir()
        for name in (yaml_file, other, f"k8s.{DRIVER}-claim_0c-78.json"):
            (tmp_path / "cdi" / name).write_text("{}")
        await node_driver(FakeDriver(), disk_host(tmp_path), client).recover()
        assert sorted(path.name for path in (tmp_path / "cdi").iterdir()) == [yaml_file, other]

    asyncio.run(main())


def test_a_failed_save_leaves_no_open_file(tmp_path: Path, monkeypatch: Any) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> None:
        storage = FileStorage(tmp_path / "checkpoint.json")
        await storage.save(b"first")
        before = len(list(Path("/proc/self/fd").iterdir()))
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            for _ in range(5):
                with pytest.raises(OSError, match="No space left"):
                    await storage.save(b"second")
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        await storage.save(b"third")
        assert storage.load() == b"third"

    asyncio.run(main())


def test_missing_statuses_are_written_by_the_next_process(tmp_path: Path) -> None:
    class Recording(MemoryClient):
        def __init__(self) -> None:
            super().__init__()
            self.away = True
            self.patches: list[Any] = []

        async def patch(self, resource: Any, name: str, patch: Any, namespace: str = "", **more: Any) -> Any:
            if self.away:
                await asyncio.Event().wait()
            self.patches.append(patch)
            return patch

    async def main() -> None:
        client = Recording()
        ref = put_claim(client, "c", "gpu-0", "monitor=gpu-0")
        await node_driver(FakeDriver(), disk_host(tmp_path), client).prepare([ref])
        client.away = False
        plugin = node_driver(FakeDriver(), disk_host(tmp_path), client)
        await plugin.recover()
        await plugin.wait_idle()
        (tree,) = client.patches
        assert tree["metadata"] == {"name": "c", "namespace": "shop", "uid": ref.uid}
        # A device of two requests is in the list once: the API server rejects duplicates.
        assert [(device["device"], device["data"]) for device in tree["status"]["devices"]] == [
            ("gpu-0", {"uuid": "GPU-gpu-0"})
        ]

    asyncio.run(main())
