"""Containers that do not run: their commands are read by a small shell of our own, and nothing else happens.

A command that none of the simulated programs is, alone or in a script, stands for the application: it says so once
and then works, for ever in a pod that always restarts, for a few seconds in a job or an init container. Two annotations
of the pod tell otherwise: ``allotment.dev/run-seconds`` and ``allotment.dev/exit-code``. An application is well: it
answers on its ports, its probes' commands succeed unless they say themselves that they fail (``false``, ``exit 1``),
and it ends at once when it is asked to. The articles' GPU demo is the one that does something (:mod:`.demo`).
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
from allotment.node.shell import MISUSED, NOT_FOUND, Streams, TooDeep, nothing, whole
from allotment.node.shell_commands import ContainerView, execute

RUN_SECONDS: Final = "allotment.dev/run-seconds"
EXIT_CODE: Final = "allotment.dev/exit-code"
#: How long an application works in a pod that is to end.
_WORK_SECONDS: Final = 5.0
_FOR_EVER: Final = 1e9
#: 128 and the number of the signal: what a program ends with that SIGTERM or SIGKILL ended.
_TERMINATED: Final = 143
_KILLED: Final = 137
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


class SimulatedRuntime:
    """The runtime. It has nothing of its own but the time: one serves any number of nodes."""

    name = "simulated"
    real = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def start(self, sandbox: Sandbox, output: Write) -> SimulatedContainer:
        """Begin; what every container can."""
        return SimulatedContainer(sandbox, output, self._clock)

    async def close(self) -> None:
        """Nothing is left behind."""


class SimulatedContainer:
    """A container that seems to run."""

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
        """Its exit code, once it ended."""
        await self._gone()
        return self._ended_by if self._task.cancelled() else self._task.result()

    async def stop(self, grace_seconds: float) -> None:
        """It ends at once; by SIGTERM where there is time for that."""
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
        """Run a command beside the container's own; its exit code."""
        if list(words) in _commands(self._sandbox.spec):
            return await self._probe(list(words), stdout)
        streams = Streams(nothing if stdin is None else _reading(stdin), stdout, stderr)
        code = await self._execute(list(words), streams, self._inside)
        if code is None:
            await stderr(f'exec: "{words[0]}": executable file not found in $PATH\n'.encode())
            return NOT_FOUND
        return code

    async def connect(self, port: int) -> SimulatedHttpConnection:
        """A page on the ports that the container declares or is probed at; on any, if there are none."""
        spec, pod = self._sandbox.spec, self._sandbox.pod
        declared = set(_ports(spec))
        if self._task.done() or (declared and port not in declared):
            raise ConnectionRefusedError(f"connect: connection refused by port {port} of {pod['metadata']['name']}")
        told = ", ".join(dict.fromkeys(_titles(self._sandbox))) or "none"
        who = f"pod: {pod['metadata']['name']}\nnode: {pod['spec'].get('nodeName')}\ndevices: {told}\n"
        if self._demo is None and is_demo(spec.get("image", "")):
            who += ABSENT
        return SimulatedHttpConnection(self._demo or fixed_answer(who))

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
        except TooDeep:
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
        """A probe's or a hook's own command: the files and programs that it asks for are there, and well."""
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
            asked = float(self._annotations[RUN_SECONDS])
        except (KeyError, ValueError):
            asked = -1.0
        if 0 <= asked <= _FOR_EVER:  # a clock that is asked for "nan" or "inf" wakes nobody in order any more
            return asked
        return _FOR_EVER if _stays(self._sandbox.pod, self._sandbox.spec["name"]) else _WORK_SECONDS


def _stays(pod: Tree, name: str) -> bool:
    """Whether a container is there to stay: a sidecar is, another init container is not, the rest as their pod is."""
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
    """Where the application listens: on the ports that it declares, and where somebody will look whether it lives."""
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
