"""The simulated container runtime: a small built-in shell interprets container commands; no process is started.

A command that is not a simulated program, alone or in a script, is taken for the application: it prints one line and
then works, forever in a pod that always restarts, for a few seconds in a job or an init container. The pod annotations
``allotment.dev/run-seconds`` and ``allotment.dev/exit-code`` override that. An application is healthy: it answers on
its ports, its exec probes succeed unless they fail explicitly (``false``, ``exit 1``), and it stops immediately on
SIGTERM. Only the articles' GPU demo has real behavior (:mod:`.demo_application`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from allotment.cluster.clock import Clock
from allotment.model.trees import Tree
from allotment.node.runtimes.demo_application import ABSENT, demo, is_demo
from allotment.node.runtimes.runtime import Sandbox, Write
from allotment.node.runtimes.simulated_http import SimulatedHttpConnection, fixed_answer
from allotment.node.shell import MISUSED, NOT_FOUND, NestingTooDeep, Streams, nothing, whole
from allotment.node.shell_commands import ContainerView, execute

RUN_SECONDS: Final = "allotment.dev/run-seconds"
EXIT_CODE: Final = "allotment.dev/exit-code"
#: Seconds that an application works in a pod that runs to completion.
_WORK_SECONDS: Final = 5.0
_FOR_EVER: Final = 1e9
#: Exit codes after SIGTERM and SIGKILL: 128 plus the signal number.
_TERMINATED: Final = 143
_KILLED: Final = 137
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


class SimulatedRuntime:
    """Runs simulated containers. It has no state except the clock: one object serves any number of nodes."""

    name = "simulated"
    real = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def start(self, sandbox: Sandbox, output: Write) -> SimulatedContainer:
        """Start a container; it never fails."""
        return SimulatedContainer(sandbox, output, self._clock)

    async def close(self) -> None:
        """Do nothing: there is nothing to clean up."""


class SimulatedContainer:
    """A simulated running container."""

    def __init__(self, sandbox: Sandbox, output: Write, clock: Clock) -> None:
        self._sandbox = sandbox
        self._environment = {**sandbox.environment, **dict(_variables(sandbox.edits.env))}
        nodes = tuple(node.path for node in sandbox.edits.device_nodes)
        self._inside = ContainerView(sandbox.pod["metadata"]["name"], sandbox.devices, clock, nodes=nodes)
        self._clock = clock
        self._ended_by = _KILLED
        self._demo = demo(self._environment) if is_demo(sandbox.spec.get("image", "")) else None
        self._task = asyncio.ensure_future(self._main(output))
        if self._demo is not None:
            self._task.add_done_callback(self._demo.end)

    async def wait(self) -> int:
        """Wait until it has ended; returns the exit code."""
        await self._gone()
        return self._ended_by if self._task.cancelled() else self._task.result()

    async def stop(self, grace_seconds: float) -> None:
        """Stop it immediately, as if by SIGTERM if there is a grace period, else by SIGKILL."""
        if not self._task.done():
            self._ended_by = _TERMINATED if grace_seconds > 0 else _KILLED
            self._task.cancel()
        await self._gone()

    async def _gone(self) -> None:
        await asyncio.wait([self._task])
        if self._demo is not None:
            await self._demo.gone()

    async def exec(
        self, words: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write, tty: bool
    ) -> int:
        """Run a command in the container and return its exit code."""
        if list(words) in _commands(self._sandbox.spec):
            return await self._probe(list(words), stdout)
        streams = Streams(nothing if stdin is None else _reading(stdin), stdout, stderr)
        code = await self._execute(list(words), streams, self._inside)
        if code is None:
            await stderr(f'exec: "{words[0]}": executable file not found in $PATH\n'.encode())
            return NOT_FOUND
        return code

    async def connect(self, port: int) -> SimulatedHttpConnection:
        """Connect to a port that the container declares or is probed at; to any if it declares none."""
        spec, pod = self._sandbox.spec, self._sandbox.pod
        declared = set(_ports(spec))
        if self._task.done() or (declared and port not in declared):
            raise ConnectionRefusedError(f"connect: connection refused by port {port} of {pod['metadata']['name']}")
        titles = ", ".join(dict.fromkeys(_titles(self._sandbox))) or "none"
        text = f"pod: {pod['metadata']['name']}\nnode: {pod['spec'].get('nodeName')}\ndevices: {titles}\n"
        if self._demo is None and is_demo(spec.get("image", "")):
            text += ABSENT
        return SimulatedHttpConnection(self._demo or fixed_answer(text))

    # --- the application ------------------------------------------------------------------------------------------

    async def _main(self, output: Write) -> int:
        streams = Streams(nothing, output, output)
        annotations = self._annotations
        words = list(self._sandbox.words)
        if words and RUN_SECONDS not in annotations and EXIT_CODE not in annotations:
            code = await self._execute(words, streams, self._inside._replace(application=self._work))
            if code is not None:
                return code
        return await self._work(words, streams)

    async def _execute(self, words: list[str], streams: Streams, inside: ContainerView) -> int | None:
        try:
            return await execute(words, self._environment, streams, inside)
        except NestingTooDeep:
            await streams.err(b"sh: nested too deeply\n")
            return MISUSED

    async def _work(self, words: Sequence[str], streams: Streams) -> int:
        shown = " ".join(words) or "its entrypoint"
        given = ", ".join(_titles(self._sandbox)) or "no devices"
        await streams.out(f"simulated: {self._sandbox.spec.get('image', '')} runs {shown} with {given}\n".encode())
        await self._clock.sleep(self._seconds())
        code = whole(self._annotations.get(EXIT_CODE, "0"))
        return 1 if code is None else code & 255

    async def _probe(self, words: list[str], stdout: Write) -> int:
        """Run the command of a probe or hook; its files and programs are assumed to exist and succeed."""
        missing = False

        async def well(words: Sequence[str], streams: Streams) -> int:
            return 0

        async def complain(data: bytes) -> None:
            nonlocal missing
            missing = missing or b"No such file" in data
            await stdout(data)

        streams = Streams(nothing, stdout, complain)
        code = await execute(words, self._environment, streams, self._inside._replace(application=well))
        return 0 if missing or code is None else code

    @property
    def _annotations(self) -> Mapping[str, str]:
        return self._sandbox.pod["metadata"].get("annotations") or {}

    def _seconds(self) -> float:
        try:
            seconds = float(self._annotations[RUN_SECONDS])
        except (KeyError, ValueError):
            seconds = -1.0
        if 0 <= seconds <= _FOR_EVER:  # "nan" or "inf" would break the order of timers
            return seconds
        return _FOR_EVER if _runs_forever(self._sandbox.pod, self._sandbox.spec["name"]) else _WORK_SECONDS


def _runs_forever(pod: Tree, name: str) -> bool:
    """Whether a container runs forever: sidecars do, other init containers do not, the rest by restart policy."""
    inits = pod["spec"].get("initContainers") or ()
    policy = next((spec.get("restartPolicy", "Never") for spec in inits if spec["name"] == name), None)
    return bool((policy or pod["spec"].get("restartPolicy", "Always")) == "Always")


def _titles(sandbox: Sandbox) -> Iterator[str]:
    return (f"{device.product} ({device.pool}/{device.name})" for device in sandbox.devices)


def _variables(entries: Sequence[str]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        name, _, value = entry.partition("=")
        yield name, value


def _commands(spec: Tree) -> Iterator[list[str]]:
    """The commands of a container's probes and hooks."""
    hooks = (spec.get("lifecycle") or {}).values()
    for handler in (*(spec.get(probe) or {} for probe in _PROBES), *hooks):
        if command := (handler.get("exec") or {}).get("command"):
            yield command


def _ports(spec: Tree) -> Iterator[int]:
    """The ports that the application listens on: declared ports and, if there are any, probe ports."""
    yield from (port["containerPort"] for port in spec.get("ports") or ())
    if spec.get("ports"):
        for probe in _PROBES:
            for handler in ("httpGet", "tcpSocket", "grpc"):
                port = ((spec.get(probe) or {}).get(handler) or {}).get("port")
                if isinstance(port, int):
                    yield port


def _reading(stdin: AsyncIterator[bytes]) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        async for data in stdin:
            if data:
                return data
        return b""

    return read
