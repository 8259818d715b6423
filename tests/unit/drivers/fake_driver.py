"""A fake vendor's driver, claims for it, and its nodes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from allotment.cdi.spec import ContainerEdits
from allotment.cdi.store import FolderStore, MemoryStore
from allotment.cluster.clock import Clock
from allotment.cluster.resources import CLAIMS
from allotment.drivers.driver import AllocatedClaim, ClaimError, DeviceEvent, DevicePool, PreparedClaim, ReadyDevice
from allotment.drivers.host import DriverHost, FileStorage, MemoryStorage
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.model.resource import Device
from allotment.model.trees import Tree
from tests.unit.cluster.memory import MemoryClient

DRIVER = "gpu.test"
NODE = "n1"


class Mode(msgspec.Struct, rename="camel"):
    """The parameters of the fake GPUs."""

    strategy: str = "None"
    share_count: int = 1


class FakeDriver:
    """Eight GPUs; ``in_use`` contains those that a claim uses. ``fail_at`` names a step that fails."""

    name = DRIVER
    configs = {("test/v1", "Mode"): Mode}

    def __init__(self) -> None:
        self.in_use: dict[str, str] = {}
        self.calls: list[str] = []
        self.fail_at: set[str] = set()
        self.gate: asyncio.Event | None = None
        self.events: asyncio.Queue[DeviceEvent] = asyncio.Queue()
        self.devices = [f"gpu-{i}" for i in range(8)]
        self.planned: list[AllocatedClaim] = []

    async def discover(self) -> Sequence[DevicePool]:
        return [DevicePool([[Device(name=name)] for name in self.devices])]

    def config_applies(self, device: str, config: Any) -> bool:
        return not device.startswith("nic-")

    def validate(self, config: Any) -> None:
        if config.share_count < 1:
            raise ClaimError(f"shareCount: expected at least 1, found {config.share_count}")

    def plan(self, claim: AllocatedClaim) -> Tree:
        self.planned.append(claim)
        return {"claim": claim.uid, "gpus": [device.device for device in claim.devices]}

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        self.calls.append(f"prepare {claim.uid}")
        if self.gate is not None:
            await self.gate.wait()
        for device in claim.devices:
            self.in_use[device.device] = claim.uid
            if "prepare" in self.fail_at:
                raise ClaimError(f"{device.device}: does not start")
        return PreparedClaim(
            {
                device.key: ReadyDevice(
                    ContainerEdits(env=(f"GPU_{device.device}=1",)), {"uuid": f"GPU-{device.device}"}
                )
                for device in claim.devices
            },
            ContainerEdits(env=("ALL=1",)),
        )

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        self.calls.append(f"unprepare {plan['claim']}")
        if "unprepare" in self.fail_at:
            raise RuntimeError("bus error")
        for gpu in plan["gpus"]:
            if self.in_use.get(gpu) == plan["claim"]:
                del self.in_use[gpu]

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        while True:
            yield await self.events.get()


_numbers = itertools.count(1)


def put_claim(
    client: MemoryClient, name: str, *devices: str, uid: str = "", driver: str = DRIVER, config: Sequence[Tree] = (),
    reserved: bool = True, **more: Any,
) -> ClaimRef:  # fmt: skip
    """Create an allocated claim; a device is ``request=device`` or, for the request ``gpu``, just the name."""
    results = []
    for item in devices:
        request, _, device = item.rpartition("=")
        results.append({"request": request or "gpu", "driver": driver, "pool": NODE, "device": device, **more})
    tree = client.put(
        CLAIMS,
        {
            "metadata": {"namespace": "shop", "name": name, "uid": uid or f"0c-{next(_numbers)}"},
            "spec": {},
            "status": {
                "allocation": {"devices": {"results": results, "config": list(config)}},
                **({"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]} if reserved else {}),
            },
        },
    )
    return ClaimRef("shop", tree["metadata"]["uid"], name)


def opaque(parameters: Tree, *requests: str, source: str = "FromClaim", driver: str = DRIVER) -> Tree:
    """Return an entry of an allocation's config."""
    return {"source": source, "requests": list(requests), "opaque": {"driver": driver, "parameters": parameters}}


def memory_host(
    boot_id: str = "boot-1", storage: MemoryStorage | None = None, cdi: MemoryStore | None = None
) -> DriverHost:
    return DriverHost(NODE, boot_id, storage or MemoryStorage(), cdi or MemoryStore())


def disk_host(folder: Path, boot_id: str = "boot-1") -> DriverHost:
    return DriverHost(NODE, boot_id, FileStorage(folder / "plugin" / "checkpoint.json"), FolderStore(folder / "cdi"))


def node_driver(driver: FakeDriver, host: DriverHost, client: MemoryClient, **more: Any) -> NodeDriver:
    return NodeDriver(driver, host, client, Clock(), random=Random(1), **more)
