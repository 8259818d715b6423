"""Drivers for tests of the sockets: what they do is told by the test, and what was asked of them is kept."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, PreparedDevice, PrepareResult
from allotment.kubelet_plugin.sockets import SocketPaths, socket_paths

DRIVER = "gpu.example.com"
CLAIM = ClaimRef("ml", "4f1c-uid", "train")


def device(name: str = "gpu-0") -> PreparedDevice:
    return PreparedDevice(("gpu",), "node-1", name, (f"k8s.{DRIVER}/claim={name}",), "share-1")


class Driver:
    """Prepares every claim with one device, unless told otherwise."""

    def __init__(self, name: str = DRIVER, says: str = "gpu-0") -> None:
        self.name = name
        self.says = says
        self.asked: list[tuple[ClaimRef, ...]] = []
        self.before: Callable[[], Awaitable[object]] | None = None
        self.news: asyncio.Queue[Sequence[DeviceHealth]] | None = None
        self.watchers = 0

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        self.asked.append(tuple(claims))
        if self.before:
            await self.before()
        return {claim.uid: PrepareResult((device(self.says),)) for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        self.asked.append(tuple(claims))
        if self.before:
            await self.before()
        return {claim.uid: "" if claim.name != "stuck" else f"{self.says} is held" for claim in claims}

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        return self._told(self.news) if self.news else None

    async def _told(self, news: asyncio.Queue[Sequence[DeviceHealth]]) -> AsyncIterator[Sequence[DeviceHealth]]:
        self.watchers += 1
        try:
            while True:
                yield await news.get()
        finally:
            self.watchers -= 1


@contextmanager
def kubelet_folder() -> Iterator[Path]:
    """A folder whose name is short enough for sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="al-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def paths(folder: Path, driver: str = DRIVER, pod_uid: str = "") -> SocketPaths:
    registry = folder / "plugins_registry"
    registry.mkdir(exist_ok=True)
    return socket_paths(driver, plugins_dir=folder / "plugins", registry_dir=registry, pod_uid=pod_uid)


def sockets_in(folder: Path) -> list[str]:
    return sorted(name for _, _, names in os.walk(folder) for name in names)


def ignore(registered: bool, error: str) -> None:
    """What a kubelet thinks of it is not what this test is about."""
