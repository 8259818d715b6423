"""The interface to kubelets: read metrics and logs, run commands and connect to ports.

Implementations do not depend on the API server: arguments are plain values, and errors are
:class:`~allotment.cluster.errors.StatusError`, whose message is shown to the user.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol

from allotment.model.trees import Tree

Write = Callable[[bytes], Awaitable[None]]
#: Yields the columns and lines of a terminal whenever they change.
Sizes = AsyncIterator[tuple[int, int]]


class Connection(Protocol):
    """A connection to a port of a pod."""

    async def read(self) -> bytes:
        """Return the next bytes, or empty bytes at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the peer does not read."""
        ...

    async def write_eof(self) -> None:
        """Close the sending side; reading is still possible."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


class Kubelets(Protocol):
    """The kubelets of all nodes. Each method but ``metrics`` takes a pod that is bound to a node.

    Cancelling a call stops what it started, because the client has disconnected.
    """

    def metrics(self, node: Tree) -> bytes | None:
        """Return the metrics of a node in the format of Prometheus; None if its kubelet has none."""
        ...

    def logs(
        self, pod: Tree, container: str, *, follow: bool, previous: bool, timestamps: bool, tail: int | None,
        since: datetime | None, since_seconds: int | None,
    ) -> AsyncIterator[bytes]:  # fmt: skip
        """Yield the log of a container in whole lines; with ``follow``, until the container ends."""
        ...

    async def exec(
        self, pod: Tree, container: str, command: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write,
        stderr: Write, tty: bool, sizes: Sizes,
    ) -> int:  # fmt: skip
        """Run a command in a container and return its exit code."""
        ...

    async def attach(
        self, pod: Tree, container: str, *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write, tty: bool,
        sizes: Sizes,
    ) -> int:  # fmt: skip
        """Connect to the streams of a container's main process; returns its exit code."""
        ...

    async def port(self, pod: Tree, port: int) -> Connection:
        """Connect to a port. Raises OSError if the connection is refused."""
        ...
