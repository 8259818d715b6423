"""The container runtime that runs processes of this machine: real programs, ports and logs, no root, no isolation.

A container's command has all permissions of the user who started the agent: it can access that user's files, network
and processes. Use it only for your own manifests on your own machine. It is never a default, and it runs only what an
images file allows (:mod:`.images`).

A command gets from its container:

- its own session and process group, working folder (``HOME`` and ``TMPDIR``, empty, removed at the end), log;
- the manifest's variables, overridden by those of its CDI devices; of the agent's only ``PATH`` and ``LANG``;
- a ``KUBECONFIG`` for the cluster, if its pod has a service account token;
- its own ports: for each ``containerPort`` P a free port of 127.0.0.1 in ``PORT_P``, the first also in ``PORT``,
  overriding the manifest. The program must listen there; connections to P of the pod are forwarded to it;
- its NVIDIA devices, and no others, in ``CUDA_VISIBLE_DEVICES``, unless the manifest or CDI sets it.

If the images file does not allow a manifest's own command, the manifest cannot inject code into the image's command
either: variables that loaders and interpreters use to find code are not set, and ``workingDir`` is ignored.

It has no file system of its own. A volume or CDI mount is not mounted; instead, container paths in arguments and
variables are replaced by the host paths. Mount options (``ro``), device nodes, hooks, network interfaces, groups,
users, limits and security settings have no effect. The first log line lists the mounts at other paths, and the hooks
and interfaces that are missing.

Stopping sends SIGTERM to the group, and SIGKILL after the grace period to every process that the command started. When
the agent dies, they are killed (:mod:`.launcher`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from allotment.cdi.spec import ContainerEdits
from allotment.cluster.tcp_connection import StreamConnection
from allotment.model.trees import Tree
from allotment.node.runtimes.child_process import Child, ProcessOrder
from allotment.node.runtimes.images import Image, Images
from allotment.node.runtimes.runtime import NotStarted, Sandbox, Write
from allotment.node.volumes import SERVICE_ACCOUNT

_NAME: Final = "pod"


def variables(sandbox: Sandbox, server: str, folder: Path) -> dict[str, str]:
    """``KUBECONFIG``, for a file that is made in ``folder``; none without a server, or for a pod without a token."""
    mount = sandbox.mounts.get(SERVICE_ACCOUNT)
    if not server or mount is None or not (mount / "token").exists():
        return {}
    cluster: dict[str, Any] = {"server": server}
    if server.startswith("https:"):
        cluster["certificate-authority"] = str(mount / "ca.crt")
    namespace = sandbox.pod["metadata"].get("namespace", "")
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"tokenFile": str(mount / "token")}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(tree))
    return {"KUBECONFIG": str(path)}


_HERE: Final = "127.0.0.1"
_PREFIX: Final = "container-"
_REFUSED_CODE: Final = 126
_NOT_FOUND_CODE: Final = 127
#: Variables that select the devices of a vendor's programs, because the others are not hidden by isolation.
_VISIBLE: Final = {"gpu.nvidia.com": "CUDA_VISIBLE_DEVICES"}
#: Variables that make a program load code from elsewhere.
_STEERING: Final = re.compile(
    "PATH|HOME|ENV|BASH_ENV|IFS|SHELLOPTS|GCONV_PATH|CLASSPATH|NODE_OPTIONS|NODE_PATH|RUBYLIB|RUBYOPT|.*JAVA_.*OPTIONS|"
    "(LD_|DYLD_|PYTHON|PERL5|LUA_|GEM_|PHP).*"
)


class ProcessRuntime:
    """Runs containers as processes. ``folder`` is used only by this object; files of a killed agent are removed.

    ``server``: the API server's URL; empty if containers have no access to it.
    """

    real = True

    def __init__(self, images: Images, folder: Path, server: str = "") -> None:
        self._images = images
        self._server = server
        self._folder = folder
        self._running: set[ProcessRunning] = set()
        self._ports: set[int] = set()
        self._cleaned = False

    @property
    def name(self) -> str:
        """``process``."""
        return "process"

    async def start(self, sandbox: Sandbox, output: Write) -> ProcessRunning:
        """Start a container's command. Raises NotStarted."""
        image = self._images.take(sandbox.spec)
        ports = self._free_ports(sandbox.spec)
        try:
            running = await self._start(sandbox, image, ports, output)
        except BaseException:
            self._ports.difference_update(ports.values())
            raise
        self._running.add(running)
        running.ended.add_done_callback(lambda _: self._forget(running))
        return running

    async def close(self) -> None:
        """Kill all running containers."""
        for running in list(self._running):
            running.kill()
        await asyncio.gather(*(running.ended for running in self._running), return_exceptions=True)

    async def _start(self, sandbox: Sandbox, image: Image, ports: Mapping[int, int], output: Write) -> ProcessRunning:
        first = next(iter(ports.values()), None)
        places = dict(_host_paths_of(sandbox))
        program, *rest = image.words(sandbox.spec, sandbox.words, first)
        if sandbox.spec.get("command") and image.commands != "ignored":  # else the program is a host path
            program = _translated(program, places)
        words = [program, *(_translated(word, places) for word in rest)]
        folder = self._new_folder(sandbox.spec["name"])
        try:
            environment = _environment(sandbox, image, ports, folder)
            # The container's own folder is a host path already, even if the container has a volume at /tmp.
            inside = {name: value for name, value in environment.items() if value != str(folder)}
            environment |= {name: _translated(value, places) for name, value in inside.items()}
            environment = variables(sandbox, self._server, folder) | environment
            directory = _directory(sandbox.spec, image, places, folder)
            if _found(words[0], environment, directory) is None:
                raise NotStarted("RunContainerError", _not_found(words[0]))
            if notes := [*_notes(sandbox.edits, places), *_withheld(sandbox, image)]:
                line = f"allotment: runs as a process on this machine, without isolation: {'; '.join(notes)}\n"
                await output(line.encode())
            order = ProcessOrder(words, environment, directory)
            child = await Child.start(order)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise NotStarted("RunContainerError", f"{words[0]}: {error}") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return ProcessRunning(child, order, image, ports, places, folder, output)

    def _forget(self, running: ProcessRunning) -> None:
        self._running.discard(running)
        self._ports.difference_update(running.ports.values())

    def _new_folder(self, container: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._cleaned:
            self._cleaned = True
            for left in self._folder.glob(f"{_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{container}-", dir=self._folder))

    def _free_ports(self, spec: Tree) -> dict[int, int]:
        """Reserve a free host port for each TCP port that the container declares."""
        found: dict[int, int] = {}
        for declared in spec.get("ports") or ():
            if declared.get("protocol", "TCP") == "TCP":
                found.setdefault(declared["containerPort"], self._free_port())
        return found

    def _free_port(self) -> int:
        while True:
            with socket.socket() as probe:
                probe.bind((_HERE, 0))
                port: int = probe.getsockname()[1]
            if port not in self._ports:  # else reserved, but not opened by its program yet
                self._ports.add(port)
                return port


class ProcessRunning:
    """A container's running command."""

    def __init__(
        self, child: Child, order: ProcessOrder, image: Image, ports: Mapping[int, int], places: Mapping[str, str],
        folder: Path, output: Write,
    ) -> None:  # fmt: skip
        self.ports = ports
        self._host_paths = places
        self._child = child
        self._order = order
        self._image = image
        self._folder = folder
        self._exec_children: set[Child] = set()
        self.ended = asyncio.create_task(self._life(output))

    async def wait(self) -> int:
        """Wait until it has ended and its output is read; returns the exit code."""
        return await asyncio.shield(self.ended)

    def kill(self) -> None:
        """Send SIGKILL to all its processes."""
        self._child.kill()

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM to its group, and SIGKILL to all its processes after the grace period."""
        self._child.terminate()
        await asyncio.wait([self.ended], timeout=max(grace_seconds, 0))
        if not self.ended.done():
            self._child.kill()
            await asyncio.wait([self.ended])

    async def exec(
        self, words: Sequence[str], *, stdin: AsyncIterator[bytes] | None, stdout: Write, stderr: Write, tty: bool
    ) -> int:
        """Run a command in the same environment and folder, until it or the container ends."""
        if self._image.commands != "run":
            message = (
                f'the command would run on this machine: set commands = "run" for {self._image.pattern} to allow it'
            )
            await stderr(f"exec: {message}\n".encode())
            return _REFUSED_CODE
        words = [_translated(word, self._host_paths) for word in words]
        if _found(words[0], self._order.environment, self._order.directory) is None:
            await stderr(f"{_not_found(words[0])}\n".encode())
            return _NOT_FOUND_CODE
        order = self._order._replace(words=words, tty=tty)
        child = await Child.start(order, stdin=stdin is not None, one_stream=False)
        self._exec_children.add(child)
        if self.ended.done():
            child.kill()
        try:
            return await child.finish(stdin, stdout, stderr)
        finally:
            self._exec_children.discard(child)

    async def feed(self, data: bytes) -> None:
        """Ignore the data: the command has no standard input."""

    async def written(self, path: str) -> bytes:
        """Nothing: termination messages of real containers are not read."""
        return b""

    async def connect(self, port: int) -> StreamConnection:
        """Connect to the host port that is assigned to a container port. Raises OSError."""
        host_port = self.ports.get(port)
        if host_port is None:
            # Never use the host port of the same number: it may belong to another service.
            raise ConnectionRefusedError(f"port {port}: the container does not declare this containerPort")
        try:
            return StreamConnection(*await asyncio.open_connection(_HERE, host_port))
        except OSError as error:
            message = f"port {port}: no process is listening on {_HERE}:{host_port}, the address of this containerPort"
            raise ConnectionRefusedError(f"{message}: {error.strerror or error}") from None

    async def _life(self, output: Write) -> int:
        try:
            return await self._child.finish(None, output)
        finally:
            for child in self._exec_children:
                child.kill()
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _environment(sandbox: Sandbox, image: Image, ports: Mapping[int, int], folder: Path) -> dict[str, str]:
    """The variables, in increasing precedence: runtime, image, manifest, ports, CDI."""
    requested = {name: value for name, value in sandbox.environment.items() if not _is_withheld(name, image)}
    written = requested.keys() & {variable["name"] for variable in sandbox.spec.get("env") or ()}
    own = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    for driver, variable in _VISIBLE.items():
        own[variable] = ",".join(device.uuid for device in sandbox.devices if device.driver == driver and device.uuid)
    defaults = {name: value for name, value in own.items() if name not in written}
    port_variables = {f"PORT_{port}": str(host_port) for port, host_port in ports.items()}
    for host_port in list(ports.values())[:1]:
        port_variables["PORT"] = str(host_port)
    edits = dict(variable.split("=", 1) for variable in sandbox.edits.env)
    return {**requested, **defaults, **image.variables(sandbox.spec), **port_variables, **edits}


def _host_paths_of(sandbox: Sandbox) -> Iterator[tuple[str, str]]:
    """The container's mount paths with their host paths."""
    for path, source in sandbox.mounts.items():
        yield str(PurePosixPath(path)), str(source)
    for mount in sandbox.edits.mounts:
        if mount.host_path.startswith("/"):  # not a tmpfs or the like
            yield str(PurePosixPath(mount.container_path)), mount.host_path


def _translated(text: str, places: Mapping[str, str]) -> str:
    """Replace container paths by host paths in a word, script or variable.

    >>> _translated("cat /etc/app/x.yaml; ls /etc/apps", {"/etc/app": "/tmp/v1"})
    'cat /tmp/v1/x.yaml; ls /etc/apps'
    """
    if not places or "/" not in text:
        return text
    longest_first = sorted(places, key=len, reverse=True)
    path = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, longest_first))})(?![\w.-])")
    return path.sub(lambda found: places[found[1]].rstrip("/"), text)


def _on_host(path: str, places: Mapping[str, str]) -> str:
    if path.startswith("/"):
        pure = PurePosixPath(path)
        for parent in (pure, *pure.parents):
            if source := places.get(str(parent)):
                rest = pure.relative_to(parent)
                return source if str(rest) == "." else f"{source.rstrip('/')}/{rest}"
    return path


def _is_withheld(variable: str, image: Image) -> bool:
    return image.commands != "run" and _STEERING.fullmatch(variable) is not None


def _withheld(sandbox: Sandbox, image: Image) -> Iterator[str]:
    """Notes on variables of the manifest that are not set."""
    names = [each["name"] for each in sandbox.spec.get("env") or () if _is_withheld(each["name"], image)]
    if names:
        yield f'variables not set, because commands = "run" is not set for {image.pattern}: {", ".join(names)}'


def _directory(spec: Tree, image: Image, places: Mapping[str, str], folder: Path) -> Path:
    if image.directory or image.commands != "run":
        return Path(image.directory or folder)
    requested = spec.get("workingDir") or ""
    inside = _on_host(requested, places)
    return Path(inside) if inside != requested else folder


def _found(program: str, environment: Mapping[str, str], directory: Path) -> str | None:
    path = str(directory / program) if "/" in program else program
    return shutil.which(path, path=environment.get("PATH", os.defpath))


def _not_found(program: str) -> str:
    where = "no such file or directory" if "/" in program else "executable file not found in $PATH"
    return f'exec: "{program}": {where}'


def _notes(edits: ContainerEdits, places: Mapping[str, str]) -> Iterator[str]:
    for path, source in places.items():
        if path != source:
            yield f"{path} is available at {source}"
    if edits.hooks:
        yield f"CDI hooks not run: {len(edits.hooks)}"
    if edits.net_devices:
        yield f"network interfaces not moved: {', '.join(n.host_interface_name for n in edits.net_devices)}"
