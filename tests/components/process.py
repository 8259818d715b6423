"""``allot run`` as processes of their own, as in a cluster."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from tests.polling import wait_until

#: Lease settings that are short enough for a test, and survive a machine that pauses for a moment.
LEASE_FLAGS: Final = ("--leader-elect", "--lease-duration=12s", "--renew-deadline=8s", "--retry-period=300ms")
_TIMEOUT_SECONDS: Final = 120.0


class Component:
    """A process of a component. ``lines``: the lines of its log so far."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "allotment.cli.main", "run", *arguments, "--health-bind-address=127.0.0.1:0"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.lines.append(line.rstrip("\n"))

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def wait_for_log(self, pattern: str, seconds: float = _TIMEOUT_SECONDS) -> re.Match[str]:
        """Wait for a line of the log."""
        found: list[re.Match[str]] = []

        def look() -> bool:
            found[:] = [match for line in self.lines if (match := re.search(pattern, line))]
            return bool(found)

        wait_until(look, lambda: f"{pattern!r} is not in its log:\n{self.log}", seconds)
        return found[0]

    def wait_for_lease(self) -> None:
        """Wait until it leads."""
        self.wait_for_log(r" is the leader$")

    def health(self, path: str) -> tuple[int, str]:
        """The answer to a health probe."""
        return get(self.wait_for_log(r"health: (\S+)/livez")[1] + path)

    def metrics(self) -> str:
        """The metrics as Prometheus gets them."""
        return get(self.wait_for_log(r'metrics: ([^\s"]+)')[1])[1]

    def wait_exit(self, seconds: float = _TIMEOUT_SECONDS) -> int:
        """Wait until it has ended; return its exit code."""
        code = self.process.wait(seconds)
        self._reading.join()
        return code

    def stop(self) -> int:
        """Stop it as a kubelet does."""
        self.process.terminate()
        return self.wait_exit()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.process.kill()
        self.wait_exit()


@contextmanager
def running(*arguments: str) -> Iterator[Component]:
    """``allot run WORDS``, stopped at the end of the context."""
    with ExitStack() as stack:
        component = Component(*arguments)
        stack.callback(component.kill)
        yield component


def get(url: str, token: str = "", context: ssl.SSLContext | None = None) -> tuple[int, str]:
    """Code and text of an answer."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def value(metrics: str, series: str) -> float:
    """The value of a series."""
    found = re.search(rf"^{re.escape(series)} (\S+)$", metrics, re.MULTILINE)
    assert found is not None, f"not found: {series} in:\n{metrics}"
    return float(found[1])
