"""Containers that run as real processes, and their output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from allotment.cdi.spec import ContainerEdits
from allotment.node.device_view import ContainerDevice
from allotment.node.runtimes.runtime import Sandbox

_UNCHANGED: Final = ContainerEdits()


class Log:
    """A container's collected output."""

    def __init__(self) -> None:
        self.data = b""
        self._more = asyncio.Event()

    async def __call__(self, data: bytes) -> None:
        self.data += data
        self._more.set()

    @property
    def text(self) -> str:
        return self.data.decode()

    async def until(self, text: str) -> None:
        """Wait until the output contains a text."""
        async with asyncio.timeout(120):
            while text not in self.text:
                self._more.clear()
                await self._more.wait()


async def typed(*data: bytes) -> AsyncIterator[bytes]:
    """Standard input with an end."""
    for each in data:
        yield each


def sandbox(
    *command: str, args: tuple[str, ...] = (), image: str = "shell", env: Mapping[str, str] | None = None,
    edits: ContainerEdits = _UNCHANGED, devices: tuple[ContainerDevice, ...] = (), ports: tuple[int, ...] = (),
    mounts: Mapping[str, Path] | None = None, **more: Any,
) -> Sandbox:  # fmt: skip
    """A container that runs a command."""
    spec: dict[str, Any] = {"name": "main", "image": image, **more}
    spec |= {key: list(words) for key, words in (("command", command), ("args", args)) if words}
    spec["env"] = [{"name": name, "value": value} for name, value in (env or {}).items()]
    spec["ports"] = [{"containerPort": port, "protocol": "TCP"} for port in ports]
    pod = {"metadata": {"name": "pod", "namespace": "default", "uid": "7f0c"}, "spec": {"containers": [spec]}}
    environment = {"PATH": "/usr/bin:/bin", "HOSTNAME": "pod", **(env or {})}
    return Sandbox(pod, spec, (*command, *args), environment, edits, devices, "10.0.0.1", mounts or {})
