"""Serves programs that compute on simulated GPUs: a call takes as long as on the hardware, with the program's share.

:class:`ComputeServer` serves all simulated GPUs of a process. A container finds it by the variable ``ALLOTMENT_GPU``,
``<socket path>#<token>``. The token is resolved by the hardware at each call, so that a claim cannot be used after it
was unprepared. The socket is created, and the server does something, only after the first call of ``address``.

The protocol is one JSON object per line, answered in any order by ``id``::

    {"id": 1, "open": "<token>", "threads": 20}          {"id": 1, "product": …, "multiprocessors": …, …}
    {"id": 2, "run": 16.0, "width": 32}                  {"id": 2, "seconds": 0.5}
    {"id": 3, "allocate": 1048576}                       {"id": 3, "allocation": 1}
    {"id": 4, "free": 1}                                 {"id": 4}
                                                         {"id": 5, "error": "CUDA_ERROR_OUT_OF_MEMORY", "message": …}

``run`` is work in seconds of one multiprocessor; ``threads`` is the program's own limit in percent; the limit of its
MPS daemon applies as well. A program ends with its connection: its kernels are cancelled and its memory is freed.
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


_LINE_LIMIT: Final = 1 << 16
_BACKLOG: Final = 128
_NO_DEVICE: Final = "no CUDA-capable device: no prepared device for this token"


class ComputeServer:
    """All simulated GPUs of a process, as programs see them.

    ``speed``: simulated seconds per second. ``folder``: the folder of the socket; a temporary one by default, because
    the path of a socket must be short.
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

    # --- for the hardware ---------------------------------------------------------------------------------------------

    def attach(self, find: ShareLookup, context: ProgramContext | None = None) -> None:
        """Add a lookup that resolves tokens; ``context`` is entered while a program uses such a share."""
        self._sources[find] = context

    def detach(self, find: ShareLookup) -> None:
        """Remove a lookup."""
        del self._sources[find]

    def address(self, token: str) -> str:
        """The value of ``ALLOTMENT_GPU`` for containers with a token. The first call creates the socket.

        Raises ComputeError after ``close``.
        """
        return f"{self._listen()}#{token}"

    def activity(self, engine: str) -> Activity | None:
        """The activity of an engine (by UUID of GPU or MIG device); None if no program uses it."""
        running = self._engines.get(engine)
        return running.activity() if running else None

    # --- serving -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve programs until cancelled; waits for the first call of ``address``."""
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
        """Remove the socket. No address is available afterwards."""
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
            raise ComputeError("CUDA_ERROR_DEINITIALIZED", "the simulated GPUs have been shut down")
        if self._folder is None:
            self._folder, self._own_folder = Path(tempfile.mkdtemp(prefix="allotment-gpu-")), True
        path = self._folder / "gpu.sock"
        if self._socket is None:
            path.unlink(missing_ok=True)
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._socket.bind(str(path))
            # Programs that connect before run() has started wait in the backlog.
            self._socket.listen(_BACKLOG)
            self._socket_created.set()
        return path

    async def _serve_program(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one program until it disconnects."""
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
            pass  # it ended, or violated the protocol
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
        """Open a session in this process. Raises ComputeError. Needs a running event loop."""
        find, share = self._find(token)
        engine = self._engines.get(share.engine)
        if engine is None:
            engine = self._engines[share.engine] = ComputeEngine(share, self._speed)
        if share.exclusive and engine.programs:
            raise ComputeError(
                "CUDA_ERROR_DEVICE_UNAVAILABLE",
                f"{share.engine} is busy: it is in compute mode EXCLUSIVE_PROCESS, and another program is using it",
            )
        if threads is not None and not 1 <= threads <= 100:
            raise ComputeError("CUDA_ERROR_INVALID_VALUE", f"threads: expected 1 to 100 percent, found {threads!r}")
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
        """Remove an engine without programs; its MIG device may be destroyed."""
        if not engine.programs and self._engines.get(engine.uuid) is engine:
            del self._engines[engine.uuid]


class ProgramSession:
    """A program that uses its share of an engine. ``on_close``: called when it has ended."""

    def __init__(
        self,
        engine: ComputeEngine,
        name: str,
        share: ComputeShare,
        threads: int | None,
        share_now: Callable[[], ComputeShare | None],
    ) -> None:
        """``share_now`` returns the share that the program can currently use."""
        self.on_close = ExitStack()
        self._engine = engine
        self._name = name
        self._share = share
        self._share_now = share_now
        self._open = True
        limits = [limit for limit in (share.threads, threads) if limit is not None]
        engine.enter(name, share.daemon or name, min(limits, default=None))

    def device_info(self) -> Tree:
        """The properties of the device that a program can query."""
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
        """Run a kernel of ``work`` seconds of one multiprocessor on at most ``width`` of them; returns its simulated
        duration.

        Raises ComputeError if the device is gone.
        """
        share = self._current_share()
        return await self._engine.run(self._name, round(work * SECOND), width, share.interval)

    def allocate(self, size: int) -> int:
        """Allocate memory; returns the number with which to free it. Raises ComputeError."""
        share = self._current_share()
        try:
            return self._engine.memory.allocate(self._name, size, share.memory_limit)
        except OutOfMemory as error:
            raise ComputeError("CUDA_ERROR_OUT_OF_MEMORY", str(error)) from None
        except ValueError as error:
            raise ComputeError("CUDA_ERROR_INVALID_VALUE", str(error)) from None

    def free(self, number: int) -> None:
        """Free an allocation. Raises ComputeError."""
        try:
            self._engine.memory.free(self._name, number)
        except KeyError:
            raise ComputeError("CUDA_ERROR_INVALID_VALUE", f"{number} is not an allocation of this program") from None

    def close(self) -> None:
        """End the program. Idempotent."""
        if self._open:
            self._open = False
            self._engine.leave(self._name)
            self.on_close.close()

    def _current_share(self) -> ComputeShare:
        if not self._open:
            raise ComputeError("CUDA_ERROR_CONTEXT_IS_DESTROYED", "the program has closed its device")
        share = self._share_now()
        if share is None:
            raise ComputeError("CUDA_ERROR_NO_DEVICE", _NO_DEVICE)
        if share.engine != self._engine.uuid:
            raise ComputeError("CUDA_ERROR_CONTEXT_IS_DESTROYED", f"{self._engine.uuid} no longer exists")
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
        raise ValueError("expected a JSON object on each line")
    return request


def _send(writer: asyncio.StreamWriter, response: Tree) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(response).encode() + b"\n")
