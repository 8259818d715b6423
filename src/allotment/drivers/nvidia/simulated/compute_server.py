"""Lets programs compute on simulated GPUs: they wait as long as the hardware would take, under the share they have.

:class:`Compute` serves all simulated GPUs of a process. A container finds it by the variable ``ALLOTMENT_GPU``,
``<socket path>#<token>``; what a token stands for is asked of the hardware each time, so that a claim that was taken
back cannot be used any longer. There is no socket, and no task does anything, until the first address is asked for.

The protocol is one JSON object per line, answered in any order by ``id``::

    {"id": 1, "open": "<token>", "threads": 20}          {"id": 1, "product": …, "multiprocessors": …, …}
    {"id": 2, "run": 16.0, "width": 32}                  {"id": 2, "seconds": 0.5}
    {"id": 3, "allocate": 1048576}                       {"id": 3, "allocation": 1}
    {"id": 4, "free": 1}                                 {"id": 4}
                                                         {"id": 5, "error": "CUDA_ERROR_OUT_OF_MEMORY", "message": …}

``run`` is work in seconds of one multiprocessor; ``threads`` a limit of the program's own, in per cent, under that of
its MPS daemon. A program ends with its connection: its kernels are lost and its memory is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from allotment.drivers.nvidia.simulated.device_memory import OutOfMemory
from allotment.drivers.nvidia.simulated.engine import Activity, ComputeEngine, ComputeError
from allotment.drivers.nvidia.simulated.multiprocessors import SECOND
from allotment.drivers.nvidia.simulated.share import ComputeShare
from allotment.model.trees import Tree

ShareLookup = Callable[[str], ComputeShare | None]
ProgramContext = Callable[[ComputeShare], AbstractContextManager[None]]

#: The variable that tells a container's programs where its simulated GPU is.
VARIABLE: Final = "ALLOTMENT_GPU"

_LINE_LIMIT: Final = 1 << 16
_BACKLOG: Final = 128
_NO_DEVICE: Final = "no CUDA-capable device: nothing prepared stands behind this token"


class ComputeServer:
    """All simulated GPUs of a process, as programs see them.

    ``speed``: so many simulated seconds pass in one second. ``folder``: where the socket is made; one of its own by
    default, since the path of a socket must be short.
    """

    def __init__(self, *, speed: float = 1.0, folder: Path | None = None) -> None:
        self._speed = speed
        self._folder = folder
        self._own_folder = False
        self._sources: dict[ShareLookup, ProgramContext | None] = {}
        self._engines: dict[str, ComputeEngine] = {}
        self._opened = 0
        self._socket: socket.socket | None = None
        self._socket_created = asyncio.Event()
        self._closed = False

    # --- what the hardware uses --------------------------------------------------------------------------------------

    def attach(self, find: ShareLookup, context: ProgramContext | None = None) -> None:
        """Ask this, too, what a token stands for; ``running`` is held while a program is on such a share."""
        self._sources[find] = context

    def detach(self, find: ShareLookup) -> None:
        """Ask it no longer."""
        del self._sources[find]

    def address(self, token: str) -> str:
        """What ``ALLOTMENT_GPU`` is for the containers that have a token. The first call makes the socket.

        Raises ComputeError after the end.
        """
        return f"{self._listen()}#{token}"

    def activity(self, engine: str) -> Activity | None:
        """What an engine (by UUID of GPU or MIG device) did; None if no program uses it."""
        found = self._engines.get(engine)
        return found.activity() if found else None

    # --- serving -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve programs until cancelled; does nothing before the first address was asked for."""
        try:
            await self._socket_created.wait()
            async with asyncio.TaskGroup() as group:

                def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                    group.create_task(self._serve_program(reader, writer))

                server = await asyncio.start_unix_server(met, sock=self._socket, limit=_LINE_LIMIT)
                async with server:
                    await server.serve_forever()
        finally:
            self.close()

    def close(self) -> None:
        """Remove the socket, for good."""
        self._closed = True
        if self._socket is not None:
            path = Path(self._socket.getsockname()) if self._socket.fileno() >= 0 else None
            self._socket.close()
            if path is not None:
                path.unlink(missing_ok=True)
            self._socket = None
            self._socket_created.clear()
        if self._own_folder and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder, self._own_folder = None, False

    def _listen(self) -> Path:
        if self._closed:
            raise ComputeError("CUDA_ERROR_DEINITIALIZED", "the simulated GPUs are no more")
        if self._folder is None:
            self._folder, self._own_folder = Path(tempfile.mkdtemp(prefix="allotment-gpu-")), True
        path = self._folder / "gpu.sock"
        if self._socket is None:
            path.unlink(missing_ok=True)
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._socket.bind(str(path))
            # Whoever connects before run() has started waits in the backlog.
            self._socket.listen(_BACKLOG)
            self._socket_created.set()
        return path

    async def _serve_program(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One program, from its connection to its end."""
        session: ProgramSession | None = None
        tasks: set[asyncio.Task[None]] = set()
        try:
            while line := await reader.readline():
                request = _decode(line)
                if session is None:
                    try:
                        session = self.open(str(request.get("open", "")), threads=_threads(request))
                    except ComputeError as error:
                        _send(writer, {"id": request.get("id"), "error": error.code, "message": str(error)})
                        return
                    _send(writer, {"id": request.get("id"), **session.device_info()})
                    continue
                task = asyncio.create_task(_answer(session, request, writer))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        except (ConnectionError, ValueError, RecursionError):
            pass  # it died, or does not speak the protocol; either way it is gone
        finally:
            if session is not None:
                session.close()
            for task in tasks:
                task.cancel()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    # --- programs ----------------------------------------------------------------------------------------------------

    def open(self, token: str, *, threads: int | None = None) -> ProgramSession:
        """Let a program in, in this process. Raises ComputeError. Needs a running event loop."""
        find, share = self._find(token)
        engine = self._engines.get(share.engine)
        if engine is None:
            engine = self._engines[share.engine] = ComputeEngine(share, self._speed)
        if share.exclusive and engine.programs:
            raise ComputeError(
                "CUDA_ERROR_DEVICE_UNAVAILABLE",
                f"{share.engine} is busy: compute mode EXCLUSIVE_PROCESS, and another program has it",
            )
        if threads is not None and not 1 <= threads <= 100:
            raise ComputeError("CUDA_ERROR_INVALID_VALUE", f"threads are 1 to 100 per cent, not {threads!r}")
        self._opened += 1
        with ExitStack() as contexts:
            if context := self._sources[find]:
                contexts.enter_context(context(share))
            session = ProgramSession(engine, f"program-{self._opened}", share, threads, lambda: find(token))
            session.on_close.push(contexts.pop_all())
        session.on_close.callback(self._drop_idle_engine, engine)
        return session

    def _find(self, token: str) -> tuple[ShareLookup, ComputeShare]:
        for find in self._sources:
            if share := find(token):
                return find, share
        raise ComputeError("CUDA_ERROR_NO_DEVICE", _NO_DEVICE)

    def _drop_idle_engine(self, engine: ComputeEngine) -> None:
        """An engine that nobody uses any more is forgotten; its MIG device may be gone, too."""
        if not engine.programs and self._engines.get(engine.uuid) is engine:
            del self._engines[engine.uuid]


class ProgramSession:
    """A program on its share of an engine. ``at_end``: what happens when it has left."""

    def __init__(
        self,
        engine: ComputeEngine,
        name: str,
        share: ComputeShare,
        threads: int | None,
        share_now: Callable[[], ComputeShare | None],
    ) -> None:
        """``now`` tells what the program may use by the time it asks."""
        self.on_close = ExitStack()
        self._engine = engine
        self._name = name
        self._share = share
        self._share_now = share_now
        self._open = True
        limits = [limit for limit in (share.threads, threads) if limit is not None]
        engine.enter(name, share.daemon or name, min(limits, default=None))

    def device_info(self) -> Tree:
        """What a program can ask of its device."""
        share = self._share
        known: Tree = {
            "product": share.product,
            "uuid": share.engine,
            "multiprocessors": share.multiprocessors,
            "memory": share.memory,
            "strategy": share.strategy,
        }
        optional: Tree = {
            "interval": share.interval if share.strategy == "time-slicing" else None,
            "threads": share.threads,
            "memory_limit": share.memory_limit,
            "profile": share.profile or None,
        }
        return known | {key: value for key, value in optional.items() if value is not None}

    async def run(self, work: float, width: int) -> float:
        """Run a kernel of ``work`` seconds of one multiprocessor, on ``width`` of them at most; how long it took.

        Seconds are simulated ones. Raises ComputeError where the device is gone.
        """
        share = self._current_share()
        return await self._engine.run(self._name, round(work * SECOND), width, share.interval)

    def allocate(self, size: int) -> int:
        """Take memory; a number to free it by. Raises ComputeError."""
        share = self._current_share()
        try:
            return self._engine.memory.allocate(self._name, size, share.memory_limit)
        except OutOfMemory as error:
            raise ComputeError("CUDA_ERROR_OUT_OF_MEMORY", str(error)) from None
        except ValueError as error:
            raise ComputeError("CUDA_ERROR_INVALID_VALUE", str(error)) from None

    def free(self, number: int) -> None:
        """Give memory back. Raises ComputeError."""
        try:
            self._engine.memory.free(self._name, number)
        except KeyError:
            raise ComputeError("CUDA_ERROR_INVALID_VALUE", f"{number} is no allocation of this program") from None

    def close(self) -> None:
        """The program ends. Twice is once."""
        if self._open:
            self._open = False
            self._engine.leave(self._name)
            self.on_close.close()

    def _current_share(self) -> ComputeShare:
        if not self._open:
            raise ComputeError("CUDA_ERROR_CONTEXT_IS_DESTROYED", "the program has left its device")
        share = self._share_now()
        if share is None:
            raise ComputeError("CUDA_ERROR_NO_DEVICE", _NO_DEVICE)
        if share.engine != self._engine.uuid:
            raise ComputeError("CUDA_ERROR_CONTEXT_IS_DESTROYED", f"{self._engine.uuid} is gone")
        return share


# --- the protocol ----------------------------------------------------------------------------------------------------


async def _answer(session: ProgramSession, request: Tree, writer: asyncio.StreamWriter) -> None:
    response: Tree
    try:
        response = await _dispatch(session, request)
    except ComputeError as error:
        response = {"error": error.code, "message": str(error)}
    except (TypeError, ValueError, OverflowError) as error:
        response = {"error": "CUDA_ERROR_INVALID_VALUE", "message": str(error)}
    _send(writer, {"id": request.get("id"), **response})


async def _dispatch(session: ProgramSession, request: Tree) -> Tree:
    verbs: dict[str, Callable[[], Awaitable[Tree]]] = {
        "run": lambda: _run(session, request),
        "allocate": lambda: _allocate(session, request),
        "free": lambda: _free(session, request),
    }
    for verb, handle in verbs.items():
        if verb in request:
            return await handle()
    raise ComputeError("CUDA_ERROR_NOT_SUPPORTED", f"expected one of {', '.join(verbs)}, got {', '.join(request)}")


async def _run(session: ProgramSession, request: Tree) -> Tree:
    return {"seconds": await session.run(float(request["run"]), int(request.get("width", 1)))}


async def _allocate(session: ProgramSession, request: Tree) -> Tree:
    return {"allocation": session.allocate(int(request["allocate"]))}


async def _free(session: ProgramSession, request: Tree) -> Tree:
    session.free(int(request["free"]))
    return {}


def _threads(request: Tree) -> int | None:
    threads = request.get("threads")
    return threads if threads is None or isinstance(threads, int) else 0


def _decode(line: bytes) -> Tree:
    request = json.loads(line)
    if not isinstance(request, dict):
        raise ValueError("a line is a JSON object")
    return request


def _send(writer: asyncio.StreamWriter, response: Tree) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(response).encode() + b"\n")
