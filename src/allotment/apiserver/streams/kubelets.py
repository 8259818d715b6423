"""What the nodes must offer, so that logs can be read, commands run and ports reached.

Who implements it needs nothing of the API server: arguments are plain values, refusals are
:class:`~allotment.cluster.errors.StatusError`, whose text reaches the user.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol

from allotment.model.trees import Tree

Write = Callable[[bytes], Awaitable[None]]
#: Columns and lines of a terminal, each time they change.
Sizes = AsyncIterator[tuple[int, int]]


class Connection(Protocol):
    """A connection to a port of a pod."""

    async def read(self) -> bytes:
        """What comes next; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send; waits while the other side does not read."""
        ...

    async def write_eof(self) -> None:
        """Say that no more will be sent; what still comes can be read."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


class Kubelets(Protocol):
    """All nodes' kubelets. Each method is about one pod, as the API has it, that is bound to a node.

    A call that is cancelled ends what it began: the client is gone.
    """

    def logs(
        self, pod: Tree, container: str, *, follow: bool, previous: bool, timestamps: bool, tail: int | None,
        since: datetime | None, since_seconds: int | None,
    ) -> AsyncIterator[bytes]:  # fmt: skip
        """What a container printed, in whole lines; with ``follow``, until it ends."""
        ...

    async def exec(
        self, pod: Tree, container: str, command: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write,
        stderr: Write, tty: bool, sizes: Sizes,
    ) -> int:  # fmt: skip
        """Run a command in a container; its exit code."""
        ...

    async def attach(
        self, pod: Tree, container: str, *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write, tty: bool,
        sizes: Sizes,
    ) -> int:  # fmt: skip
        """Share the streams of a container's own process; its exit code when it ends."""
        ...

    async def port(self, pod: Tree, port: int) -> Connection:
        """Connect to a port. Raises OSError when nobody listens."""
        ...
