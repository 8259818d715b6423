"""The container runtime interface.

The agent decides when a container starts, restarts and ends, and keeps its log; a runtime runs it once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from allotment.cdi.spec import ContainerEdits
from allotment.model.trees import Tree
from allotment.node.container_files import MountedVolume
from allotment.node.device_view import ContainerDevice

Write = Callable[[bytes], Awaitable[None]]


class Network(Protocol):
    """The network of a cluster, for simulated containers. See :class:`~allotment.node.pod_network.PodNetwork`."""

    def addresses(self, pod: Tree, host: str) -> list[str]:
        """The addresses of a host."""
        ...

    async def open(self, pod: Tree, host: str, port: int) -> Connection:
        """Connect to a port of a host."""
        ...


class Sandbox(NamedTuple):
    """The input for one run of a container, with the manifest's references resolved.

    ``words``: command and arguments; empty for the image's own. ``environment``: the manifest's variables. ``edits``:
    the CDI edits, merged in the order of the device ids; they override the environment. ``mounts``: host paths of
    volumes by mount path. ``volumes``: the same in memory, and ``network``, for
    simulated containers.
    """

    pod: Tree
    spec: Tree
    words: tuple[str, ...]
    environment: Mapping[str, str]
    edits: ContainerEdits
    devices: tuple[ContainerDevice, ...]
    pod_ip: str
    mounts: Mapping[str, Path] = {}
    volumes: Mapping[str, MountedVolume] = {}
    network: Network | None = None


class NotStarted(Exception):
    """Raised when a container cannot be started. ``reason``: for its state, such as ``ErrImagePull``."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Connection(Protocol):
    """A connection to a port of a container."""

    async def read(self) -> bytes:
        """Read the next data; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send data. Raises ConnectionError if the peer has closed the connection."""
        ...

    async def write_eof(self) -> None:
        """Close the sending side."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class Running(Protocol):
    """A running container."""

    async def wait(self) -> int:
        """Wait until it has ended; returns the exit code."""
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace period. Returns when it has ended."""
        ...

    async def exec(
        self, words: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write, tty: bool
    ) -> int:
        """Run a command in it and return the exit code."""
        ...

    async def feed(self, data: bytes) -> None:
        """Write to the standard input of its command; empty data closes it. Only simulated containers have one."""
        ...

    async def written(self, path: str) -> bytes:
        """The content of a file that its command wrote; empty if there is none, or if files are not simulated."""
        ...

    async def connect(self, port: int) -> Connection:
        """Connect to a port. Raises OSError if no process listens."""
        ...


class Runtime(Protocol):
    """Runs containers. One serves all pods of a node."""

    @property
    def name(self) -> str:
        """The prefix of container ids: ``simulated``, ``process``, ``crun``."""
        ...

    @property
    def real(self) -> bool:
        """Whether its containers run in real time, however fast the lab's clock runs."""
        ...

    async def start(self, sandbox: Sandbox, output: Write) -> Running:
        """Start a container and send its output to ``output``. Raises NotStarted."""
        ...

    async def close(self) -> None:
        """Kill all running containers and remove their files."""
        ...
