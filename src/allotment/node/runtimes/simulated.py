"""The simulated container runtime: a built-in shell interprets container commands; no process is started.

What an image contains is unknown. Its own entrypoint, and in a container that always restarts also a command that is
no simulated program, is taken for the application: it prints one line and then works, forever in a pod that always
restarts, for a few seconds in a job or an init container. An application is healthy: it answers on its ports, its exec
probes succeed unless they fail explicitly (``false``, ``exit 1``), and it stops immediately on SIGTERM. Where a command
has to end, one that is not known fails with "not simulated", because its success would be invented; an annotation or a
setting of the lab lets it succeed. The pod annotations ``allotment.dev/run-seconds`` and ``allotment.dev/exit-code``
state the end instead of the command. Only the articles' GPU demo has real behavior (:mod:`.demo_application`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from allotment.cluster.clock import Clock
from allotment.model.trees import Tree
from allotment.node.container_files import ContainerFiles
from allotment.node.programs.container_view import ContainerView, user_of
from allotment.node.programs.execution import execute
from allotment.node.programs.vendor_tools import default_device_nodes
from allotment.node.runtimes.demo_application import ABSENT, demo, is_demo
from allotment.node.runtimes.runtime import Sandbox, Write
from allotment.node.runtimes.simulated_http import Answer, Application, SimulatedHttpConnection, fixed_answer
from allotment.node.shell_language.arithmetic import whole
from allotment.node.shell_language.process import MISUSED, NOT_FOUND, Process, ShellFault
from allotment.node.shell_language.streams import Input, Streams
from allotment.node.shell_language.syntax import NotSimulated

#: ``run``: the commands of the pod that are not known run as its application, also where they have to end.
UNKNOWN_COMMANDS: Final = "allotment.dev/unknown-commands"
RUN_SECONDS: Final = "allotment.dev/run-seconds"
EXIT_CODE: Final = "allotment.dev/exit-code"
#: Seconds that an application works in a pod that runs to completion.
_WORK_SECONDS: Final = 5.0
_FOR_EVER: Final = 1e9
#: Exit codes after SIGTERM and SIGKILL: 128 plus the signal number.
_TERMINATED: Final = 143
_KILLED: Final = 137
#: Pieces of standard input that wait for the container's command.
_MOST_INPUT: Final = 16
_HINT: Final = (
    f'The annotation {RUN_SECONDS} or {EXIT_CODE} of the pod states how its containers end; {UNKNOWN_COMMANDS}: "run"'
    " lets unknown commands succeed.\n"
)
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


class SimulatedRuntime:
    """Runs simulated containers. It has no state except the clock: one object serves any number of nodes.

    ``unknown_commands``: whether commands that are not known succeed where they have to end.
    """

    name = "simulated"
    real = False

    def __init__(self, clock: Clock, *, unknown_commands: bool = False) -> None:
        self._clock = clock
        self._unknown_commands = unknown_commands

    async def start(self, sandbox: Sandbox, output: Write) -> SimulatedContainer:
        """Start a container; it never fails."""
        return SimulatedContainer(sandbox, output, self._clock, unknown_commands=self._unknown_commands)

    async def close(self) -> None:
        """Do nothing: there is nothing to clean up."""


class SimulatedContainer:
    """A simulated running container."""

    def __init__(self, sandbox: Sandbox, output: Write, clock: Clock, *, unknown_commands: bool = False) -> None:
        self._sandbox = sandbox
        self._environment = {**sandbox.environment, **dict(_variables(sandbox.edits.env))}
        nodes = tuple(node.path for node in sandbox.edits.device_nodes)
        self._inside = ContainerView(
            sandbox.pod["metadata"]["name"], sandbox.devices, clock, nodes=nodes,
            user=user_of(sandbox.pod, sandbox.spec),
            network=partial(sandbox.network.open, sandbox.pod) if sandbox.network is not None else None,
            addresses=partial(sandbox.network.addresses, sandbox.pod) if sandbox.network is not None else None,
        )  # fmt: skip
        self._clock = clock
        self._ended_by = _KILLED
        self._forever = _runs_forever(sandbox.pod, sandbox.spec["name"])
        self._unknown_commands = unknown_commands or self._annotations.get(UNKNOWN_COMMANDS) == "run"
        #: Whether a program runs of which nothing is known, so that its files are not known either.
        self._is_application = False
        self._files: ContainerFiles | None = None
        self._input: asyncio.Queue[bytes] = asyncio.Queue(_MOST_INPUT)
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
        if list(words) in _commands(self._sandbox.spec) and self._is_application:
            return await self._probe(list(words), stdout)
        if not tty:
            streams = Streams(Input() if stdin is None else Input(_reading(stdin)), stdout, stderr)
            return await self._execute(list(words), streams, self._inside)

        async def shown(data: bytes) -> None:
            await stdout(data.replace(b"\n", b"\r\n"))

        read = Input() if stdin is None else Input(_typing(stdin, shown))
        return await self._execute(list(words), Streams(read, shown, shown), self._inside)

    async def _typed(self) -> bytes:
        data = await self._input.get()
        return data.replace(b"\r", b"\n") if self._sandbox.spec.get("tty") else data

    async def feed(self, data: bytes) -> None:
        """Write to the standard input of the container's command; empty data closes it."""
        await self._input.put(data)

    async def written(self, path: str) -> bytes:
        """The content of a file that a command in the container wrote; empty if there is none."""
        if self._files is None:
            return b""
        try:
            return await self._files.contents(path)
        except OSError:
            return b""

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
        return SimulatedHttpConnection(self._demo or self._pages(text))

    def _pages(self, text: str) -> Application:
        """The same page on every path, except for a known file of the image that was removed."""
        page = fixed_answer(text)

        async def answer(path: str) -> Answer:
            file = path.partition("?")[0]
            if file in known_files(self._sandbox.spec.get("image", "")) and self._files is not None:
                if await self._files.find(file) is None:
                    return Answer(404, "text/plain; charset=utf-8", b"404 page not found\n")
            return await page(path)

        return answer

    # --- the application ------------------------------------------------------------------------------------------

    async def _main(self, output: Write) -> int:
        spec = self._sandbox.spec
        stdin = Input(self._typed) if spec.get("stdin") else Input()
        streams = Streams(stdin, output, output)
        annotations = self._annotations
        words = list(self._sandbox.words)
        if not words and spec.get("stdin") and spec.get("tty"):
            words = ["sh"]  # a terminal on an image without a command is for a shell
        if not words or RUN_SECONDS in annotations or EXIT_CODE in annotations:
            return await self._work(words, streams)
        # Arguments without a command are for the image's own entrypoint, unless they are a program themselves.
        own = not spec.get("command")
        known = own or self._forever or self._unknown_commands
        inside = self._inside._replace(application=self._work) if known else self._inside
        return await self._execute(words, streams, inside, hint=_HINT)

    async def _execute(self, words: list[str], streams: Streams, inside: ContainerView, *, hint: str = "") -> int:
        directory = self._sandbox.spec.get("workingDir") or "/"
        try:
            return await execute(Process(words, self._environment, streams, self._opened(), directory), inside)
        except ShellFault as error:
            await streams.err(f"sh: {error}\n".encode(errors="replace"))
            return MISUSED
        except NotSimulated as error:
            await streams.err(f"not simulated: {error}\n{hint}".encode(errors="replace"))
            return NOT_FOUND

    def _opened(self) -> ContainerFiles:
        """The container's files, created when a command first runs."""
        if self._files is None:
            sandbox, name, spec = self._sandbox, self._inside.hostname, self._sandbox.spec
            context = spec.get("securityContext") or {}
            files = {
                spec.get("terminationMessagePath") or "/dev/termination-log": "",
                **known_files(spec.get("image", "")),
                "/etc/hostname": f"{name}\n", "/etc/hosts": f"127.0.0.1\tlocalhost\n{sandbox.pod_ip}\t{name}\n",
                "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/etc/group": "root:x:0:\n",
            }  # fmt: skip
            self._files = ContainerFiles(
                sandbox.volumes, self._inside.nodes or default_device_nodes(sandbox.devices),
                {path: text.encode() for path, text in files.items()},
                read_only_root=bool(context.get("readOnlyRootFilesystem")),
                working_directory=sandbox.spec.get("workingDir") or "/",
            )  # fmt: skip
        return self._files

    async def _work(self, words: Sequence[str], streams: Streams) -> int:
        self._is_application = True
        shown = " ".join(words) or "its entrypoint"
        given = ", ".join(_titles(self._sandbox)) or "no devices"
        await streams.out(f"simulated: {self._sandbox.spec.get('image', '')} runs {shown} with {given}\n".encode())
        await self._clock.sleep(self._seconds())
        code = whole(self._annotations.get(EXIT_CODE, "0"))
        return 1 if code is None else code & 255

    async def _probe(self, words: list[str], stdout: Write) -> int:
        """Run the command of an application's probe or hook; its files and programs are assumed to exist."""
        missing = False

        async def well(words: Sequence[str], streams: Streams) -> int:
            return 0

        async def complain(data: bytes) -> None:
            nonlocal missing
            missing = missing or b"No such file" in data or b"cannot open" in data
            await stdout(data)

        streams = Streams(Input(), stdout, complain)
        code = await self._execute(words, streams, self._inside._replace(application=well))
        return 0 if missing else code

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
        return _FOR_EVER if self._forever else _WORK_SECONDS


def _runs_forever(pod: Tree, name: str) -> bool:
    """Whether a container runs forever: sidecars do, other init containers do not, the rest by restart policy."""
    inits = pod["spec"].get("initContainers") or ()
    policy = next((spec.get("restartPolicy", "Never") for spec in inits if spec["name"] == name), None)
    return bool((policy or pod["spec"].get("restartPolicy", "Always")) == "Always")


def _titles(sandbox: Sandbox) -> Iterator[str]:
    return (f"{device.product} ({device.pool}/{device.name})" for device in sandbox.devices)


def known_files(image: str) -> Mapping[str, str]:
    """Files that are known to be in an image: those of Kubernetes' test image, which its tests move away."""
    return _AGNHOST_FILES if image.rpartition("/")[2].startswith("agnhost:") else {}


_AGNHOST_FILES: Final[Mapping[str, str]] = {"/localhost.crt": "", "/localhost.key": ""}


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


def _typing(stdin: AsyncIterator[bytes], echo: Write) -> Callable[[], Awaitable[bytes]]:
    """The input of a terminal, which shows what is typed: Enter is a carriage return, Ctrl-D ends the input."""
    typed = _reading(stdin)
    ended = False

    async def read() -> bytes:
        nonlocal ended
        data = b"" if ended else (await typed()).replace(b"\r", b"\n")
        data, end, _ = data.partition(b"\x04")
        ended = ended or bool(end)
        if data:
            await echo(data)
        return data

    return read
