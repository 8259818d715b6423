"""``allot driver verify``: tests a driver by calling it as a kubelet does, and prints a table of results.

Exit codes: 0 all tests that could run passed, 1 a test failed, 2 no test could run.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import textwrap
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from allotment.cli.live.connection import announce, cluster_errors, connected, way_to
from allotment.cli.output.console import Screen, folded, open_screen
from allotment.drivers.verify.observer import RunObserver
from allotment.extras import require

if TYPE_CHECKING:
    from allotment.drivers.verify.check import CheckResult, DriverCheck
    from allotment.drivers.verify.driver_session import DriverSession
    from allotment.drivers.verify.report import VerifyReport

_COLOURS = {"pass": "green", "FAIL": "red", "warn": "yellow", "skipped": "dim"}
_GAP = "   "


def run_verify(arguments: Namespace) -> int:
    """Run the tests and print the results as they arrive."""
    require("allot driver verify", "drivers")
    from allotment.drivers.verify.run import DriverNotStarted, VerifiedDriver, run

    way = way_to(arguments)
    announce(arguments, way)
    screen = open_screen()
    driver = VerifiedDriver(
        Path(arguments.socket), arguments.command or "", arguments.node_name or "", arguments.device_class or "",
        tuple(map(Path, arguments.cdi_root or ())),
    )  # fmt: skip
    table = None if arguments.output == "json" else _Table(screen)

    async def work() -> VerifyReport:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with connected(way) as client:
            return await run(client, driver, table or RunObserver())

    with cluster_errors(way):
        try:
            report = asyncio.run(work())
        except asyncio.CancelledError:  # by SIGTERM
            raise KeyboardInterrupt from None
        except DriverNotStarted as error:
            if error.output:
                sys.stderr.write(f"output of the driver:\n{error.output}\n")
            raise
    if table is None:
        screen.data(report.to_dict(), "json")
    else:
        table.end(report)
    return 0 if report.passed else 1


class _Table(RunObserver):
    """A table with a row per test as it finishes, then the failures in detail."""

    def __init__(self, screen: Screen) -> None:
        from allotment.drivers.verify.suite import CHECKS

        self._screen = screen
        self._names = max(len(check.name) for check in CHECKS)
        self._terminal = screen.out.isatty()

    def connected(self, session: DriverSession) -> None:
        """Print the driver and the headers."""
        for line in folded(f"{session.driver} on node {session.node}, at {session.info.endpoint}", self._screen.width):
            self._screen.line(line)
        self._screen.line()
        self._screen.line(self._line("CHECK", "RESULT", "DETAILS"))

    def starting(self, check: DriverCheck) -> None:
        """Show the running test on a terminal."""
        if self._terminal:
            self._screen.out.write(self._line(check.name, "…", ""))
            self._screen.out.flush()

    def finished(self, result: CheckResult) -> None:
        """Print the row of a test."""
        if self._terminal:
            self._screen.out.write("\r\x1b[K")
        indent = " " * (self._names + 7 + 2 * len(_GAP))
        room = None if self._screen.width is None else max(self._screen.width - len(indent), 20)
        seen = " ".join(result.seen.split())
        first, *rest = textwrap.wrap(seen, room) if room and seen else [seen]
        painted = self._screen.paint(result.result.ljust(7), _COLOURS[result.result])
        self._screen.line(self._line(result.check.name, painted, first))
        for line in rest:
            self._screen.line(indent + line)
        self._screen.out.flush()

    def _line(self, name: str, result: str, seen: str) -> str:
        return f"{name.ljust(self._names)}{_GAP}{result.ljust(7)}{_GAP}{seen}".rstrip()

    def canceled(self) -> None:
        """Report that cleaning up takes a moment."""
        sys.stderr.write("\ninterrupted: unpreparing devices and deleting claims\n")

    def end(self, report: VerifyReport) -> None:
        """Print the failures and the summary."""
        for result in report.results:
            if result.result in ("FAIL", "warn"):
                self._explain(result)
        counts = report.summary
        parts = [f"{counts['pass']} passed", f"{counts['FAIL']} failed"]
        parts += [f"{counts['warn']} with warnings"] if counts["warn"] else []
        parts += [f"{counts['skipped']} skipped"] if counts["skipped"] else []
        self._screen.line()
        self._screen.line(", ".join(parts))

    def _explain(self, result: CheckResult) -> None:
        screen = self._screen
        screen.line()
        screen.line(screen.paint(f"{result.result} {result.check.name}", _COLOURS[result.result]))
        observed = result.seen.splitlines()
        for word, text in (
            ("expected", result.expected),
            ("observed", observed[0]),
            ("fix", result.remedy),
            ("source", result.check.source),
        ):
            for line in folded(f"{word + ':':10}{text}", screen.width, "  "):
                screen.line(line)
            if word == "observed":
                for line in observed[1:]:
                    screen.line(f"  {line}")
