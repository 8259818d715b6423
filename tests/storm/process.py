"""A lab in a process that can be killed, on a data folder that stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from allotment.lab.state import Register

_NAME = "storm"
_START_SECONDS = 120.0  # for machines under load


class LabProcess:
    """Starts and kills labs on one folder; ``url`` is the address of the current one. ``options``: those of ``up``.

    ``module``: the program to start, with the arguments of ``allot``.
    """

    def __init__(
        self, folder: Path, fleet: str, options: Sequence[str] = ("--http",), *, module: str = "allotment.cli.main"
    ) -> None:
        self.folder = folder
        self.log = folder / "output.log"
        self.url = ""
        self.kubeconfig = folder / "config"
        self._module = module
        self._arguments = ["--fleet", fleet, *options]
        self._process: subprocess.Popen[bytes] | None = None
        self._register = Register(folder / "state" / "allotment")

    def start(self, environment: Mapping[str, str] = MappingProxyType({})) -> float:
        """Start a lab; return the seconds until it was ready. ``environment``: variables to add."""
        start_time = time.monotonic()
        command = [
            sys.executable, "-m", self._module, "--debug", "up", "--name", _NAME,
            "--data-dir", str(self.folder / "data"), "--kubeconfig", str(self.kubeconfig), *self._arguments,
        ]  # fmt: skip
        variables = os.environ | {"XDG_STATE_HOME": str(self.folder / "state")} | dict(environment)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables
            )
        while True:
            status = self._register.status(_NAME)
            if status is not None and status.pid == self._process.pid:
                self.url = status.url
                return time.monotonic() - start_time
            if self._process.poll() is not None:
                raise RuntimeError(f"the lab did not start:\n{self.tail()}")
            if time.monotonic() - start_time > _START_SECONDS:
                self.kill()
                raise RuntimeError(f"the lab was not ready after {_START_SECONDS:g} s:\n{self.tail()}")
            time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM, as ``allot down`` does; return the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait()

    def tail(self, lines: int = 40) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])

    def first_traceback(self) -> str:
        """The first traceback in its log, if any."""
        _, found, rest = self.log.read_text("utf-8", "replace").partition("Traceback")
        return found + "\n".join(rest.splitlines()[:60])
