"""The interface between a node's agent and what runs its containers.

The agent decides when a container runs, restarts and ends, and keeps its journal; a runtime runs it once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from allotment.cdi.spec import ContainerEdits
from allotment.model.trees import Tree
from allotment.node.device_view import ContainerDevice

Write = Callable[[bytes], Awaitable[None]]


class Sandbox(NamedTuple):
    """One run of a container: what the manifest says, resolved.

    ``words``: command and arguments, with references replaced; none for the image's own. ``environment`` has the
    manifest's variables; ``edits`` are those of the CDI devices, already merged in the order of the ids, and win over
    it. ``mounts``: folders and files of volumes by their path in the container.
    """

    pod: Tree
    spec: Tree
    words: tuple[str, ...]
    environment: Mapping[str, str]
    edits: ContainerEdits
    devices: tuple[ContainerDevice, ...]
    pod_ip: str
    mounts: Mapping[str, Path] = {}


class NotStarted(Exception):
    """A container cannot be started. ``reason``: what its state shows, ``CreateContainerError``, ``ErrImagePull`` …"""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Connection(Protocol):
    """A connection to a port of a container."""

    async def read(self) -> bytes:
        """What came; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send."""
        ...

    async def write_eof(self) -> None:
        """Nothing more will be sent."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


class Running(Protocol):
    """A container that runs."""

    async def wait(self) -> int:
        """Its exit code, once it ended."""
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Ask it to end (SIGTERM); make it (SIGKILL) when the time is over. Returns when it ended."""
        ...

    async def exec(
        self, words: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write, tty: bool
    ) -> int:
        """Run a command beside it; its exit code."""
        ...

    async def connect(self, port: int) -> Connection:
        """Connect to a port. Raises OSError when nobody listens."""
        ...


class Runtime(Protocol):
    """Runs containers. One serves all pods of a node."""

    @property
    def name(self) -> str:
        """As in a container id: ``simulated``, ``process``, ``crun``."""
        ...

    @property
    def real(self) -> bool:
        """Whether its containers take the machine's time, however fast the lab's clock runs."""
        ...

    async def start(self, sandbox: Sandbox, output: Write) -> Running:
        """Start a container; what it prints goes to ``output``. Raises NotStarted."""
        ...

    async def close(self) -> None:
        """End everything that still runs, and remove what was made for it."""
        ...
