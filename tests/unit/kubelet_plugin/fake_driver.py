"""Drivers for socket tests, with configurable behaviour and a record of calls."""

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


def prepared_device(name: str = "gpu-0") -> PreparedDevice:
    return PreparedDevice(("gpu",), "node-1", name, (f"k8s.{DRIVER}/claim={name}",), "share-1")


class FakeDriver:
    """Prepares every claim with one device, unless configured otherwise."""

    def __init__(self, name: str = DRIVER, device_name: str = "gpu-0") -> None:
        self.name = name
        self.device_name = device_name
        self.calls: list[tuple[ClaimRef, ...]] = []
        self.before: Callable[[], Awaitable[object]] | None = None
        self.health_messages: asyncio.Queue[Sequence[DeviceHealth]] | None = None
        self.watchers = 0

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        self.calls.append(tuple(claims))
        if self.before:
            await self.before()
        return {claim.uid: PrepareResult((prepared_device(self.device_name),)) for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        self.calls.append(tuple(claims))
        if self.before:
            await self.before()
        return {claim.uid: "" if claim.name != "stuck" else f"{self.device_name} is in use" for claim in claims}

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        return self._health_stream(self.health_messages) if self.health_messages else None

    async def _health_stream(
        self, messages: asyncio.Queue[Sequence[DeviceHealth]]
    ) -> AsyncIterator[Sequence[DeviceHealth]]:
        self.watchers += 1
        try:
            while True:
                yield await messages.get()
        finally:
            self.watchers -= 1


@contextmanager
def kubelet_folder() -> Iterator[Path]:
    """A folder with a name that is short enough for sockets."""
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


def ignore_registration(registered: bool, error: str) -> None:
    """Ignore the registration status."""
