"""A run of the verifier: finds or starts the driver, runs all checks, and removes what they created."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from allotment.cluster.inspection.release import release_of
from allotment.cluster.resources import NODES, SLICES
from allotment.drivers.verify import driver_session
from allotment.drivers.verify.cdi_folders import CdiFolders
from allotment.drivers.verify.driver_process import CommandProcess, ProcessExited
from allotment.drivers.verify.driver_session import DriverSession, Timeouts, wait_for_driver
from allotment.drivers.verify.observer import RunObserver
from allotment.drivers.verify.report import VerifyReport
from allotment.drivers.verify.socket_discovery import DriverNotFound, DriverSockets, is_socket
from allotment.drivers.verify.suite import verify
from allotment.errors import InputError
from allotment.kubelet_plugin.sockets import accepts_connections
from allotment.model.features import Features

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient

#: The default folders of CDI specs, as in container runtimes.
CDI_ROOTS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))


class VerifiedDriver(NamedTuple):
    """The driver to verify. ``command``: starts it; without one, it is running already.

    ``node_name``: by default the node of its slices. ``device_class``: the one to request, by default any.
    """

    socket: Path
    command: str = ""
    node_name: str = ""
    device_class: str = ""
    cdi_roots: Sequence[Path] = CDI_ROOTS


class DriverNotStarted(InputError):
    """Raised if the command of a driver does not start it. ``output``: what it has written."""

    def __init__(self, problem: str, output: str) -> None:
        super().__init__(problem, "the command must keep running and create the socket", argument="command")
        self.output = output.strip("\n")
        if self.output:
            self.add_note(f"output of the driver:\n{self.output}")  # in tracebacks


async def run(client: HttpClient, driver: VerifiedDriver, observer: RunObserver) -> VerifyReport:
    """Run all checks. Raises InputError if none can run, StatusError and Unreachable."""
    timeouts = driver_session.DEFAULT_TIMEOUTS
    async with _process(driver) as process:
        sockets = await _sockets(driver.socket, process, timeouts)
        features = Features(kube=release_of(await client.read("/version")))
        seconds = timeouts.publish if process is not None else 0
        node = driver.node_name or await _node(client, sockets, seconds)
        session = DriverSession(
            driver.socket, sockets, client, node, features, CdiFolders(driver.cdi_roots or CDI_ROOTS),
            process=process, class_name=driver.device_class, timeouts=timeouts,
        )  # fmt: skip
        try:
            observer.connected(session)
            results = await verify(session, observer.starting, observer.finished)
        except asyncio.CancelledError:
            observer.canceled()
            raise
        finally:
            await session.close()
        registration = str(session.sockets.registration or "")
        return VerifyReport(session.driver, node, str(session.info.endpoint), registration, tuple(results))


@asynccontextmanager
async def _process(driver: VerifiedDriver) -> AsyncIterator[CommandProcess | None]:
    """Run the driver's process for the block, if it has a command."""
    if not driver.command:
        yield None
        return
    if is_socket(driver.socket) and accepts_connections(driver.socket):
        raise InputError(
            f"a driver is already listening on {driver.socket}",
            "stop it first, or omit the command to verify the running driver",
            argument="command",
        )
    with tempfile.NamedTemporaryFile(prefix="allot-driver-", suffix=".log") as log:
        try:
            process = CommandProcess(driver.command, Path(log.name))
            await process.start()
        except (ValueError, OSError) as error:
            raise InputError(f"{driver.command!r}: {error}", argument="command") from None
        try:
            yield process
        finally:
            await process.stop()


async def _sockets(socket: Path, process: CommandProcess | None, timeouts: Timeouts) -> DriverSockets:
    try:
        return await wait_for_driver(socket, process, timeouts.start)
    except ProcessExited as error:
        message, _, output = str(error).partition("\n")
        raise DriverNotStarted(message, output) from None
    except DriverNotFound as error:
        if process is not None:
            raise DriverNotStarted(f"{error}; waited {timeouts.start:g} s", process.tail()) from None
        raise InputError(str(error), "specify the socket of a running driver, or the command that starts one") from None


async def _node(client: HttpClient, sockets: DriverSockets, seconds: float) -> str:
    """Return the node of the driver's slices, else this machine if it is a node. Raises InputError."""
    name = sockets.info.name
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        slices = (await client.list(SLICES, fields=f"spec.driver={name}")).items
        nodes = sorted({tree["spec"]["nodeName"] for tree in slices if tree["spec"].get("nodeName")})
        if nodes or loop.time() >= until:
            break
        await asyncio.sleep(0.2)
    if len(nodes) == 1:
        return str(nodes[0])
    itself = os.environ.get("NODE_NAME") or os.uname().nodename
    known = nodes or [tree["metadata"]["name"] for tree in (await client.list(NODES)).items]
    if itself in known:
        return itself
    where = f"has slices on {len(nodes)} nodes" if nodes else "has published no node-local ResourceSlices"
    hint = f"specify the driver's node: {', '.join(known[:5]) or '…'}"
    raise InputError(f"{name} {where}", hint, argument="node_name")
