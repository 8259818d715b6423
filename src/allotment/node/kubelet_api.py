"""The kubelet's endpoints: metrics of the node; logs, exec, attach and port-forward of a running pod.

For the latter, this finds the container; its runtime does the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from allotment.node.container_log import ContainerLog, LogLine
from allotment.node.containers import Container
from allotment.node.kubelet_features import SKIP_METRICS
from allotment.node.pod_lifecycle import PodRun
from allotment.node.runtimes.runtime import Connection

Write = Callable[[bytes], Awaitable[None]]


def _failure(code: int, reason: str, message: str) -> StatusError:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return StatusError({**status, "reason": reason, "code": code})


def metrics(skip_counts: Mapping[tuple[str, str], int], names: Collection[str]) -> bytes:
    """The metrics of a node with these names, in the format of Prometheus.

    ``skip_counts``: how often operations were skipped, by operation and driver (see `NodeClaims.skip_counts`).
    """
    lines: list[str] = []
    for name in sorted(names):
        counts = {driver: n for (operation, driver), n in skip_counts.items() if operation == SKIP_METRICS[name]}
        if counts:
            lines.append(f"# HELP {name} [ALPHA] Calls of {SKIP_METRICS[name]} that devices did not need, by driver.")
            lines.append(f"# TYPE {name} counter")
            lines += (f'{name}{{driver_name="{driver}"}} {count}' for driver, count in sorted(counts.items()))
    return "".join(f"{line}\n" for line in lines).encode()


def running(run: PodRun | None, pod: Tree, name: str) -> Container:
    """A container that has been started. Raises StatusError, with the kubelet's text, otherwise."""
    container = run.find(name) if run else None
    if container is None or container.started is None:
        where = pod["metadata"]["name"]
        message = f'container "{name}" in pod "{where}" is waiting to start: ContainerCreating'
        raise _failure(400, "BadRequest", message)
    return container


async def logs(
    container: Container, *, follow: bool, previous: bool, timestamps: bool, tail: int | None,
    since: datetime | None, since_seconds: int | None,
) -> AsyncIterator[bytes]:  # fmt: skip
    """A container's log in whole lines; with ``follow``, until the container ends."""
    journal: ContainerLog | None = container.previous_log if previous else container.current_log
    if journal is None:
        raise _failure(400, "BadRequest", f'previous terminated container "{container.name}" not found')
    moment = container.clock.moment()

    def text(lines: Sequence[LogLine]) -> bytes:
        wanted = (
            line
            for line in lines
            if (since is None or line.moment >= since)
            and (since_seconds is None or (moment - line.moment).total_seconds() <= since_seconds)
        )
        stamp = "{:%Y-%m-%dT%H:%M:%S.%f}000Z ".format
        return b"".join((stamp(line.moment).encode() if timestamps else b"") + line.text + b"\n" for line in wanted)

    known = journal.lines(tail)
    if shown := text(known):
        yield shown
    if follow:
        after = known[-1].number if known else journal.number
        async for lines in journal.follow(after):
            if shown := text(lines):
                yield shown


async def command(
    container: Container, words: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write,
    tty: bool,
) -> int:  # fmt: skip
    """Run a command in a running container and return its exit code."""
    if container.now is None:
        raise _failure(500, "InternalError", f'container not found ("{container.name}")')
    return await container.now.exec(words, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)


async def attach(container: Container, stdin: AsyncIterator[bytes] | None, stdout: Write, *, tty: bool) -> int:
    """Stream the container's output from now on, and its input; returns 0 when it ends.

    The output of an interactive container is streamed from the start: its client attaches after it was started.
    """
    follow = container.current_log.follow(0 if container.spec.get("stdin") else container.current_log.number)
    feeding = asyncio.create_task(_feed(container, stdin, tty=tty)) if stdin is not None else None
    try:
        async for lines in follow:
            await stdout(b"".join(line.text + (b"\r\n" if tty else b"\n") for line in lines))
    finally:
        if feeding is not None:
            feeding.cancel()
    return 0  # a kubelet does not report the exit code to clients that attach


async def _feed(container: Container, stdin: AsyncIterator[bytes], *, tty: bool) -> None:
    async for data in stdin:
        if data and container.now is not None:
            await container.now.feed(data)
    # Without stdinOnce the input stays open for the next client.
    if container.spec.get("stdinOnce") and not tty and container.now is not None:
        await container.now.feed(b"")


async def port(run: PodRun | None, pod: Tree, number: int) -> Connection:
    """Connect to a port of the container that declares it, or the first that accepts. Raises OSError."""
    mains = [container for container in (run.mains if run else ()) if container.now is not None]
    mains.sort(key=lambda c: all(declared.get("containerPort") != number for declared in c.spec.get("ports") or ()))
    for container in mains:
        if container.now is not None:
            with suppress(ConnectionRefusedError):
                return await container.now.connect(number)
    raise ConnectionRefusedError(f"connect: connection refused by port {number} of {pod['metadata']['name']}")
