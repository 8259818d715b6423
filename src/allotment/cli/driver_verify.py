"""``allot driver verify``: tests a driver by calling it as a kubelet does, and prints a table of results.

Exit codes: 0 all tests that could run passed, 1 a test failed, 2 no test could run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import textwrap
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allotment.cli.live.connection import announce, cluster_errors, connected, way_to
from allotment.cli.output.console import Screen, folded, open_screen
from allotment.errors import InputError
from allotment.extras import require

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient
    from allotment.drivers.verify.check import CheckResult, DriverCheck
    from allotment.drivers.verify.driver_process import CommandProcess
    from allotment.drivers.verify.driver_session import DriverSession
    from allotment.drivers.verify.socket_discovery import DriverSockets

_CDI_ROOTS = ("/etc/cdi", "/var/run/cdi")
_COLOURS = {"pass": "green", "FAIL": "red", "warn": "yellow", "skipped": "dim"}
_GAP = "   "


def run_verify(arguments: Namespace) -> int:
    """Run the tests and print the results as they arrive."""
    require("allot driver verify", "drivers")
    from allotment.drivers.verify.suite import CHECKS

    way = way_to(arguments)
    announce(arguments, way)
    screen = open_screen()
    shown = _Nothing() if arguments.output == "json" else _Table(screen, CHECKS)

    async def work() -> dict[str, Any]:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with connected(way) as client, _process(arguments) as process:
            return await _verified(arguments, client, process, shown)

    with cluster_errors(way):
        try:
            report = asyncio.run(work())
        except asyncio.CancelledError:  # by SIGTERM
            raise KeyboardInterrupt from None
    if arguments.output == "json":
        from allotment.model.serialization import to_json

        screen.out.write(to_json(report) + "\n")
    return 1 if report["summary"]["FAIL"] else 0


@asynccontextmanager
async def _process(arguments: Namespace) -> AsyncIterator[CommandProcess | None]:
    """Run the driver's process for the block, if ``--command`` is given."""
    from allotment.drivers.verify.driver_process import CommandProcess
    from allotment.drivers.verify.socket_discovery import is_socket
    from allotment.kubelet_plugin.sockets import accepts_connections

    if not arguments.command:
        yield None
        return
    socket = Path(arguments.socket)
    if is_socket(socket) and accepts_connections(socket):
        raise InputError(
            f"a driver is already listening on {socket}", "stop it first, or omit --command to test the running driver"
        )
    with tempfile.NamedTemporaryFile(prefix="allot-driver-", suffix=".log") as log:
        try:
            process = CommandProcess(arguments.command, Path(log.name))
            await process.start()
        except (ValueError, OSError) as error:
            raise InputError(f"--command {arguments.command!r}: {error}") from None
        try:
            yield process
        finally:
            await process.stop()


async def _verified(
    arguments: Namespace, client: HttpClient, process: CommandProcess | None, shown: _Table | _Nothing
) -> dict[str, Any]:
    from allotment.cluster.inspection.release import release_of
    from allotment.drivers.verify.cdi_folders import CdiFolders
    from allotment.drivers.verify.driver_process import ProcessExited
    from allotment.drivers.verify.driver_session import DEFAULT_TIMEOUTS, DriverSession, wait_for_driver
    from allotment.drivers.verify.socket_discovery import DriverNotFound
    from allotment.drivers.verify.suite import verify
    from allotment.model.features import Features

    socket = Path(arguments.socket)
    try:
        found = await wait_for_driver(socket, process, DEFAULT_TIMEOUTS.start)
    except ProcessExited as error:
        message, _, wrote = str(error).partition("\n")
        raise _last_words(message, wrote) from None
    except DriverNotFound as error:
        if process is not None:
            raise _last_words(f"{error}; waited {DEFAULT_TIMEOUTS.start:g} s", process.tail()) from None
        hint = "specify the socket of a running driver, or start one with --command"
        raise InputError(str(error), hint) from None
    features = Features(kube=release_of(await client.read("/version")))
    node = arguments.node_name or await _node(client, found, DEFAULT_TIMEOUTS.publish if process is not None else 0)
    trial = DriverSession(
        socket, found, client, node, features, CdiFolders([Path(root) for root in arguments.cdi_root or _CDI_ROOTS]),
        process=process, class_name=arguments.device_class or "",
    )  # fmt: skip
    try:
        shown.head(trial)
        rows = await verify(trial, shown.running, shown.done)
    except asyncio.CancelledError:
        shown.cancelled()
        raise
    finally:
        await trial.close()
    report = _report(trial, rows)
    shown.end(rows)
    return report


def _last_words(message: str, wrote: str) -> InputError:
    """Return the error of a driver that did not start, preceded by its output."""
    if wrote:
        sys.stderr.write(f"output of the driver:\n{wrote.strip(chr(10))}\n")
    return InputError(message, "--command: the command must keep running and create the socket")


async def _node(client: HttpClient, found: DriverSockets, seconds: float) -> str:
    """Return the node of the driver's slices, else this machine if it is a node. Raises InputError."""
    from allotment.cluster.resources import NODES, SLICES

    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        slices = (await client.list(SLICES, fields=f"spec.driver={found.info.name}")).items
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
    raise InputError(
        f"{found.info.name} {where}", f"specify the driver's node with --node-name: {', '.join(known[:5]) or '…'}"
    )


def _report(trial: DriverSession, rows: Sequence[CheckResult]) -> dict[str, Any]:
    return {
        "driver": trial.driver,
        "node": trial.node,
        "registration": str(trial.sockets.registration or ""),
        "endpoint": str(trial.info.endpoint),
        "summary": {result: sum(row.result == result for row in rows) for result in _COLOURS},
        "checks": [_data(row) for row in rows],
    }


def _data(row: CheckResult) -> dict[str, Any]:
    data = {
        "name": row.check.name, "result": row.result, "expected": row.check.expected, "source": row.check.source,
        "seen": row.seen, "wanted": row.expected, "remedy": row.remedy, "seconds": round(row.seconds, 3),
    }  # fmt: skip
    return {key: value for key, value in data.items() if value != ""}


class _Nothing:
    """No output during the tests; for JSON, which is printed at the end."""

    def head(self, trial: DriverSession) -> None: ...

    def running(self, check: DriverCheck) -> None: ...

    def done(self, row: CheckResult) -> None: ...

    def cancelled(self) -> None: ...

    def end(self, rows: Sequence[CheckResult]) -> None: ...


class _Table:
    """A table with a row per test as it finishes, then the failures in detail."""

    def __init__(self, screen: Screen, checks: Sequence[DriverCheck]) -> None:
        self._screen = screen
        self._names = max(len(check.name) for check in checks)
        self._terminal = screen.out.isatty()

    def head(self, trial: DriverSession) -> None:
        """Print the driver and the headers."""
        for line in folded(f"{trial.driver} on node {trial.node}, at {trial.info.endpoint}", self._screen.width):
            self._screen.line(line)
        self._screen.line()
        self._screen.line(self._line("CHECK", "RESULT", "DETAILS"))

    def running(self, check: DriverCheck) -> None:
        """Show the running test on a terminal."""
        if self._terminal:
            self._screen.out.write(self._line(check.name, "…", ""))
            self._screen.out.flush()

    def done(self, row: CheckResult) -> None:
        """Print the row of a test."""
        if self._terminal:
            self._screen.out.write("\r\x1b[K")
        indent = " " * (self._names + 7 + 2 * len(_GAP))
        room = None if self._screen.width is None else max(self._screen.width - len(indent), 20)
        seen = " ".join(row.seen.split())
        first, *rest = textwrap.wrap(seen, room) if room and seen else [seen]
        result = self._screen.paint(row.result.ljust(7), _COLOURS[row.result])
        self._screen.line(self._line(row.check.name, result, first))
        for line in rest:
            self._screen.line(indent + line)
        self._screen.out.flush()

    def _line(self, name: str, result: str, seen: str) -> str:
        return f"{name.ljust(self._names)}{_GAP}{result.ljust(7)}{_GAP}{seen}".rstrip()

    def cancelled(self) -> None:
        """Report that cleanup takes a moment."""
        sys.stderr.write("\ninterrupted: unpreparing devices and deleting claims\n")

    def end(self, rows: Sequence[CheckResult]) -> None:
        """Print the failures and the summary."""
        for row in rows:
            if row.result in ("FAIL", "warn"):
                self._explain(row)
        counts = {result: sum(row.result == result for row in rows) for result in _COLOURS}
        parts = [f"{counts['pass']} passed", f"{counts['FAIL']} failed"]
        parts += [f"{counts['warn']} with warnings"] if counts["warn"] else []
        parts += [f"{counts['skipped']} skipped"] if counts["skipped"] else []
        self._screen.line()
        self._screen.line(", ".join(parts))

    def _explain(self, row: CheckResult) -> None:
        screen = self._screen
        screen.line()
        screen.line(screen.paint(f"{row.result} {row.check.name}", _COLOURS[row.result]))
        observed = row.seen.splitlines()
        for word, text in (
            ("expected", row.expected),
            ("observed", observed[0]),
            ("fix", row.remedy),
            ("source", row.check.source),
        ):
            for line in folded(f"{word + ':':10}{text}", screen.width, "  "):
                screen.line(line)
            if word == "observed":
                for line in observed[1:]:
                    screen.line(f"  {line}")
