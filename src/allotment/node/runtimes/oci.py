"""Runs containers with ``crun`` or ``runc``: start, exec, connect and stop. ``oci_bundle`` configures them with CDI.

It requires root. Nothing is pulled: an image is the folder that the images file sets as its ``rootfs``. It is shared by
all containers of the image, and what they write is kept elsewhere (:mod:`.oci_root`). Memory and CPU limits are not
set, and a container's network is only its own loopback.

The OCI runtime stays in the foreground under a launcher, so a container ends with its agent. The state and cgroup of a
container are removed when it ends, or by the next agent in the same folder.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from allotment.cdi.oci import InjectionError
from allotment.cluster.tcp_connection import StreamConnection
from allotment.model.trees import Tree
from allotment.node.runtimes import oci_bundle, oci_root
from allotment.node.runtimes.child_process import Child, ProcessOrder
from allotment.node.runtimes.images import Images
from allotment.node.runtimes.runtime import NotStarted, Sandbox, Write

_PROGRAMS: Final = ("crun", "runc")
_HYBRID: Final = Path("/sys/fs/cgroup/unified")
_PREFIX: Final = "container-"
_STARTED_EVERY: Final = 0.01
_CONNECT_SECONDS: Final = 5.0
_CLONE_NEWNET: Final = 0x40000000


def find_program() -> str | None:
    """The path of this machine's OCI runtime; None if not found or not running as root."""
    if os.geteuid() != 0:
        return None
    # crun fails on hosts with both cgroup v1 and v2; runc works there.
    order = reversed(_PROGRAMS) if _HYBRID.exists() else _PROGRAMS
    return next((path for name in order if (path := shutil.which(name))), None)


class OciRuntime:
    """Runs containers with an OCI runtime. ``folder`` is used only by this object.

    ``program``: the runtime's command, possibly with a wrapper before it; ``name``: the prefix of container ids.
    """

    real = True

    def __init__(self, program: Sequence[str], images: Images, folder: Path, name: str = "crun") -> None:
        self._images = images
        self._folder = folder
        self._running: set[OciRunning] = set()
        self._cleanup_lock = asyncio.Lock()
        self._clean = False
        self.program = (*program, "--root", str(folder / "state"))
        self.name = name

    async def start(self, sandbox: Sandbox, output: Write) -> OciRunning:
        """Start a container. Raises NotStarted."""
        image = self._images.take(sandbox.spec)
        if not image.rootfs:
            fix = f"set rootfs to a directory for pattern = {image.pattern!r} in {self._images.source}"
            raise NotStarted("ErrImagePull", f"image {sandbox.spec.get('image')!r} has no root file system: {fix}")
        port = next((port["containerPort"] for port in sandbox.spec.get("ports") or ()), None)
        words = image.words(sandbox.spec, sandbox.words, port, walled=True)
        await self._remove_left_over()
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{sandbox.spec['name']}-", dir=self._folder))
        try:
            variables = image.variables(sandbox.spec)
            place, root = Path(image.rootfs), folder / "root"
            config = oci_bundle.configuration(sandbox, words, variables, place, root, folder.name)
            (folder / "config.json").write_text(json.dumps(config))
            running = OciRunning(self, sandbox, config, folder, oci_root.mounted(place, root))
            await running.begin(output)
        except InjectionError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise NotStarted("CreateContainerError", f"CDI device injection failed: {error}") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._running.add(running)
        running.ended.add_done_callback(lambda _: self._running.discard(running))
        return running

    async def close(self) -> None:
        """Kill all running containers and remove their files."""
        running = list(self._running)
        for each in running:
            each.kill()
        await asyncio.gather(*(each.ended for each in running), return_exceptions=True)

    async def run_command(self, *words: str) -> str:
        """Run a command of the OCI runtime and return its output, which is an error text if it fails."""
        output = bytearray()

        async def collect(data: bytes) -> None:
            output.extend(data)

        child = await Child.start(ProcessOrder((*self.program, *words), _environment(), Path("/")))
        await child.finish(None, collect)
        return output.decode(errors="replace").strip()

    async def _remove_left_over(self) -> None:
        """Remove the states and cgroups that a killed agent left; its containers are dead."""
        async with self._cleanup_lock:
            if self._clean:
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            for left in self._folder.glob(f"{_PREFIX}*"):
                await self.run_command("delete", "--force", left.name)
                shutil.rmtree(left, ignore_errors=True)
            self._clean = True


class OciRunning:
    """A container that runs."""

    ended: asyncio.Task[int]

    def __init__(
        self, runtime: OciRuntime, sandbox: Sandbox, config: Tree, folder: Path, prefix: Sequence[str]
    ) -> None:  # fmt: skip
        self._runtime = runtime
        self._prefix = prefix
        self._sandbox = sandbox
        self._config = config
        self._folder = folder
        self._child: Child | None = None
        self._held: bytearray | None = bytearray()

    async def begin(self, output: Write) -> None:
        """Start it and wait until it runs. Raises NotStarted."""

        async def gate(data: bytes) -> None:
            # Output before the container runs is the OCI runtime's error message.
            if self._held is None:
                await output(data)
            else:
                self._held.extend(data)

        pid_file = str(self._folder / "pid")
        words = (
            *self._prefix,
            *self._runtime.program,
            "run",
            "--bundle",
            str(self._folder),
            "--pid-file",
            pid_file,
            self._folder.name,
        )
        self._child = await Child.start(ProcessOrder(words, _environment(), Path("/")))
        self.ended = asyncio.create_task(self._life(self._child, gate))
        try:
            while not self.ended.done() and not await self._runs():
                await asyncio.sleep(_STARTED_EVERY)
        except asyncio.CancelledError:
            self.kill()
            await asyncio.wait([self.ended])
            raise
        if self._pid() is None:
            code, stderr = self.ended.result(), self._held or b""
            message = stderr.decode(errors="replace").strip() or f"{words[0]} exited with code {code}"
            raise NotStarted("RunContainerError", f"OCI runtime: {message}")
        held, self._held = self._held, None
        if held:
            await output(bytes(held))
        if self.ended.done():  # it ended before it was seen running
            shutil.rmtree(self._folder, ignore_errors=True)

    async def wait(self) -> int:
        """Wait until it has ended and its output is read; returns the exit code."""
        return await asyncio.shield(self.ended)

    def kill(self) -> None:
        """Kill the OCI runtime and with it the container."""
        if self._child is not None:
            self._child.kill()

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM to its first process, and SIGKILL to all after the grace period."""
        await self._runtime.run_command("kill", self._folder.name, "TERM")
        await asyncio.wait([self.ended], timeout=max(grace_seconds, 0))
        if not self.ended.done():
            await self._runtime.run_command("kill", self._folder.name, "KILL")
            await asyncio.wait([self.ended], timeout=_CONNECT_SECONDS)
            self.kill()
            await asyncio.wait([self.ended])

    async def exec(
        self, words: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write, tty: bool
    ) -> int:
        """Run a command in the container, with its environment, user and working directory."""
        process = {**self._config["process"], "args": list(words), "terminal": tty}
        try:
            handle, name = tempfile.mkstemp(dir=self._folder, prefix="exec-", suffix=".json")
        except FileNotFoundError:
            raise ConnectionRefusedError("the container is not running") from None
        with os.fdopen(handle, "w") as file:
            json.dump(process, file)
        try:
            order = (*self._runtime.program, "exec", "--process", name, self._folder.name)
            child = await Child.start(
                ProcessOrder(order, _environment(), Path("/"), tty), stdin=stdin is not None, one_stream=False
            )
            return await child.finish(stdin, stdout, stderr)
        finally:
            # The folder is removed when the container ends, which may be before the command is known to have ended.
            Path(name).unlink(missing_ok=True)

    async def feed(self, data: bytes) -> None:
        """Ignore the data: the command has no standard input."""

    async def written(self, path: str) -> bytes:
        """Nothing: termination messages of real containers are not read."""
        return b""

    async def connect(self, port: int) -> StreamConnection:
        """Connect to a port of the container's loopback. Raises OSError."""
        pid = self._pid()
        if pid is None or self.ended.done():
            raise ConnectionRefusedError(f"port {port}: the container is not running")
        connected = await _in_network_of(pid, port)
        return StreamConnection(*await asyncio.open_connection(sock=connected))

    async def _runs(self) -> bool:
        """Whether it accepts signals and commands; the pid file may exist earlier."""
        if self._pid() is None:
            return False
        try:
            state = json.loads(await self._runtime.run_command("state", self._folder.name))
        except json.JSONDecodeError:  # an error's text
            return False
        return bool(state.get("status") == "running")

    def _pid(self) -> int | None:
        try:
            return int((self._folder / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None

    async def _life(self, child: Child, output: Write) -> int:
        try:
            return await child.finish(None, output)
        finally:
            await self._runtime.run_command("delete", "--force", self._folder.name)
            if self._held is None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath)}


async def _in_network_of(pid: int, port: int) -> socket.socket:
    """Open a connection inside the network namespace of a process. Raises OSError.

    A socket stays in the namespace where it was created, and the namespace is set per thread. A dedicated thread
    enters it, connects and ends, so that no other thread is affected.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[socket.socket] = loop.create_future()

    def finish(connected: socket.socket | None, error: OSError | None) -> None:
        if done.cancelled():
            if connected is not None:
                connected.close()
        elif connected is not None:
            done.set_result(connected)
        else:
            done.set_exception(error or OSError("not connected"))

    def enter() -> None:
        found: tuple[socket.socket | None, OSError | None]
        try:
            _set_network(pid)
            found = (socket.create_connection(("127.0.0.1", port), _CONNECT_SECONDS), None)
        except OSError as error:
            found = (None, error)
        with suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(finish, *found)

    threading.Thread(target=enter, name="network", daemon=True).start()
    return await done


def _set_network(pid: int) -> None:
    with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"entering the container's network: {os.strerror(number)}")
