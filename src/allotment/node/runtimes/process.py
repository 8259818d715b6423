"""Containers as processes of this machine: real programs, ports and logs, without root, and without any walls.

A container's command runs with all rights of the user who started the agent: it sees his files, his network and his
other processes. So this runtime is for one's own manifests on one's own machine. It is never a default, and it runs
only what a file of images allows (:mod:`.images`).

What a command has of its container:

- its own session and process group, working folder (``HOME`` and ``TMPDIR``, empty, removed at the end), log;
- the manifest's variables, over these the ones of its CDI devices; none of the agent's own but ``PATH`` and ``LANG``;
- the cluster, where its pod has an account's token: in ``KUBECONFIG``, with which all clients find it;
- its own ports: for each ``containerPort`` P a free port of 127.0.0.1 in ``PORT_P``, the first also in ``PORT``,
  whatever the manifest says of these. The program must listen there; whoever connects to P of the pod comes there;
- its NVIDIA devices, and no others, in ``CUDA_VISIBLE_DEVICES``, unless the manifest or CDI sets it.

Where the file of images does not let a manifest's own command run, nothing else of the manifest may bring code of its
own into the image's: variables by which loaders and interpreters find code are not set, and its working folder is not
the program's.

What it has not: a file system of its own. A volume or CDI mount is not mounted. Instead, a word or variable that is a
path in it (or has one between colons) is given as the path on the host. Where both paths are the same, nothing needs
doing. Mount options (``ro``), device nodes, hooks, network interfaces, groups, users, limits and security settings have
no effect. The log's first line says which mounts lie elsewhere, and which hooks and interfaces are missing.

The end comes as SIGTERM to the group, and after the grace SIGKILL to everything that the command ever started. The same
happens when the agent dies (:mod:`.launcher`).
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
from allotment.model.trees import Tree
from allotment.node.runtimes.child_process import Child, ProcessOrder
from allotment.node.runtimes.images import Image, Images
from allotment.node.runtimes.runtime import NotStarted, Sandbox, Write
from allotment.node.runtimes.tcp_connection import StreamConnection
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
#: Variables by which a vendor's programs are told their devices, where no walls hide the others.
_VISIBLE: Final = {"gpu.nvidia.com": "CUDA_VISIBLE_DEVICES"}
#: Variables that have a program run code from elsewhere.
_STEERING: Final = re.compile(
    "PATH|HOME|ENV|BASH_ENV|IFS|SHELLOPTS|GCONV_PATH|CLASSPATH|NODE_OPTIONS|NODE_PATH|RUBYLIB|RUBYOPT|.*JAVA_.*OPTIONS|"
    "(LD_|DYLD_|PYTHON|PERL5|LUA_|GEM_|PHP).*"
)


class ProcessRuntime:
    """Runs containers as processes. ``folder`` is this runtime's alone: what a killed agent left there is removed.

    ``server``: the API server's URL; empty: containers do not reach it.
    """

    real = True

    def __init__(self, images: Images, folder: Path, server: str = "") -> None:
        self._images = images
        self._server = server
        self._folder = folder
        self._running: set[ProcessRunning] = set()
        self._ports: set[int] = set()
        self._begun = False

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
        """Kill everything that still runs."""
        for running in list(self._running):
            running.kill()
        await asyncio.gather(*(running.ended for running in self._running), return_exceptions=True)

    async def _start(self, sandbox: Sandbox, image: Image, ports: Mapping[int, int], output: Write) -> ProcessRunning:
        first = next(iter(ports.values()), None)
        places = dict(_places(sandbox))
        program, *rest = image.words(sandbox.spec, sandbox.words, first)
        if sandbox.spec.get("command") and image.commands != "ignored":  # else it is one of this machine
            program = _translated(program, places)
        words = [program, *(_translated(word, places) for word in rest)]
        folder = self._new_folder(sandbox.spec["name"])
        try:
            environment = _environment(sandbox, image, ports, folder)
            # The container's own folder is one of the host's already, even if the container has a volume at /tmp.
            inside = {name: value for name, value in environment.items() if value != str(folder)}
            environment |= {name: _translated(value, places) for name, value in inside.items()}
            environment = variables(sandbox, self._server, folder) | environment
            directory = _directory(sandbox.spec, image, places, folder)
            if _found(words[0], environment, directory) is None:
                raise NotStarted("RunContainerError", _not_found(words[0]))
            if notes := [*_notes(sandbox.edits, places), *_withheld(sandbox, image)]:
                told = f"allotment: runs as a process of this machine, without isolation: {'; '.join(notes)}\n"
                await output(told.encode())
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
        if not self._begun:
            self._begun = True
            for left in self._folder.glob(f"{_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{container}-", dir=self._folder))

    def _free_ports(self, spec: Tree) -> dict[int, int]:
        """A port of this machine for each that the container declares."""
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
            if port not in self._ports:  # one that its program has not opened yet
                self._ports.add(port)
                return port


class ProcessRunning:
    """A container's command that runs."""

    def __init__(
        self, child: Child, order: ProcessOrder, image: Image, ports: Mapping[int, int], places: Mapping[str, str],
        folder: Path, output: Write,
    ) -> None:  # fmt: skip
        self.ports = ports
        self._places = places
        self._child = child
        self._order = order
        self._image = image
        self._folder = folder
        self._exec_children: set[Child] = set()
        self.ended = asyncio.create_task(self._life(output))

    async def wait(self) -> int:
        """Its exit code, once it ended and all that it printed was taken."""
        return await asyncio.shield(self.ended)

    def kill(self) -> None:
        """SIGKILL to everything it started."""
        self._child.kill()

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM to its group; SIGKILL to everything it started when the time is over."""
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
            told = f'the command would run on this machine: set commands = "run" for {self._image.pattern} to allow it'
            await stderr(f"exec: {told}\n".encode())
            return _REFUSED_CODE
        words = [_translated(word, self._places) for word in words]
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

    async def connect(self, port: int) -> StreamConnection:
        """Connect to where its program was told to listen for a port. Raises OSError."""
        here = self.ports.get(port)
        if here is None:
            # Never the host's own port of that number: somebody else's service may be there.
            raise ConnectionRefusedError(f"port {port}: the container declares no such containerPort")
        try:
            return StreamConnection(*await asyncio.open_connection(_HERE, here))
        except OSError as error:
            told = f"port {port}: no process listens on {_HERE}:{here}, which is set in PORT"
            raise ConnectionRefusedError(f"{told}: {error.strerror or error}") from None

    async def _life(self, output: Write) -> int:
        try:
            return await self._child.finish(None, output)
        finally:
            for child in self._exec_children:
                child.kill()
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _environment(sandbox: Sandbox, image: Image, ports: Mapping[int, int], folder: Path) -> dict[str, str]:
    """From weak to strong: the runtime's, the image's, the manifest's, the ports', CDI's."""
    asked = {name: value for name, value in sandbox.environment.items() if not _is_withheld(name, image)}
    written = asked.keys() & {variable["name"] for variable in sandbox.spec.get("env") or ()}
    own = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    for driver, variable in _VISIBLE.items():
        own[variable] = ",".join(device.uuid for device in sandbox.devices if device.driver == driver and device.uuid)
    given = {name: value for name, value in own.items() if name not in written}
    heard = {f"PORT_{port}": str(here) for port, here in ports.items()}
    for here in list(ports.values())[:1]:
        heard["PORT"] = str(here)
    edits = dict(variable.split("=", 1) for variable in sandbox.edits.env)
    return {**asked, **given, **image.variables(sandbox.spec), **heard, **edits}


def _places(sandbox: Sandbox) -> Iterator[tuple[str, str]]:
    """Where on the host the folders and files of the container lie."""
    for path, source in sandbox.mounts.items():
        yield str(PurePosixPath(path)), str(source)
    for mount in sandbox.edits.mounts:
        if mount.host_path.startswith("/"):  # not a tmpfs or the like
            yield str(PurePosixPath(mount.container_path)), mount.host_path


def _translated(text: str, places: Mapping[str, str]) -> str:
    """A word, a script or a variable with its container paths as host paths.

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
    """What the manifest sets, and may not set here."""
    names = [each["name"] for each in sandbox.spec.get("env") or () if _is_withheld(each["name"], image)]
    if names:
        yield f'variables not set, because {image.pattern} lacks commands = "run": {", ".join(names)}'


def _directory(spec: Tree, image: Image, places: Mapping[str, str], folder: Path) -> Path:
    if image.directory or image.commands != "run":
        return Path(image.directory or folder)
    asked = spec.get("workingDir") or ""
    inside = _on_host(asked, places)
    return Path(inside) if inside != asked else folder


def _found(program: str, environment: Mapping[str, str], directory: Path) -> str | None:
    path = str(directory / program) if "/" in program else program
    return shutil.which(path, path=environment.get("PATH", os.defpath))


def _not_found(program: str) -> str:
    where = "no such file or directory" if "/" in program else "executable file not found in $PATH"
    return f'exec: "{program}": {where}'


def _notes(edits: ContainerEdits, places: Mapping[str, str]) -> Iterator[str]:
    for path, source in places.items():
        if path != source:
            yield f"{path} is at {source}"
    if edits.hooks:
        yield f"CDI hooks not run: {len(edits.hooks)}"
    if edits.net_devices:
        yield f"network interfaces not moved: {', '.join(n.host_interface_name for n in edits.net_devices)}"
