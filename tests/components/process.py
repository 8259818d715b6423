"""``allot run`` as processes of their own, as a cluster runs them."""

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

from tests.waiting import wait_until

#: Terms of the Lease that a test can wait for, and that a machine which stands still for a moment keeps.
LED: Final = ("--leader-elect", "--lease-duration=12s", "--renew-deadline=8s", "--retry-period=300ms")
_PATIENCE_SECONDS: Final = 120.0


class Component:
    """A process. ``said``: the lines of its log so far."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "allotment.cli.main", "run", *words, "--health-bind-address=127.0.0.1:0"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.said: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.said.append(line.rstrip("\n"))

    @property
    def log(self) -> str:
        return "\n".join(self.said)

    def says(self, pattern: str, seconds: float = _PATIENCE_SECONDS) -> re.Match[str]:
        """Wait for a line of the log."""
        found: list[re.Match[str]] = []

        def look() -> bool:
            found[:] = [match for line in self.said if (match := re.search(pattern, line))]
            return bool(found)

        wait_until(look, lambda: f"{pattern!r} is not in its log:\n{self.log}", seconds)
        return found[0]

    def leads(self) -> None:
        """Wait until it leads."""
        self.says(r" is the leader$")

    def health(self, path: str) -> tuple[int, str]:
        """What a probe gets."""
        return get(self.says(r"health: (\S+)/livez")[1] + path)

    def metrics(self) -> str:
        """What Prometheus gets."""
        return get(self.says(r'metrics: ([^\s"]+)')[1])[1]

    def ends(self, seconds: float = _PATIENCE_SECONDS) -> int:
        """Wait until it has ended; its exit code."""
        code = self.process.wait(seconds)
        self._reading.join()
        return code

    def stop(self) -> int:
        """As a kubelet stops it."""
        self.process.terminate()
        return self.ends()

    def kill(self) -> None:
        """As nobody should."""
        self.process.kill()
        self.ends()


@contextmanager
def running(*words: str) -> Iterator[Component]:
    """``allot run WORDS``, gone at the end."""
    with ExitStack() as stack:
        component = Component(*words)
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
    """A value of an exposition."""
    found = re.search(rf"^{re.escape(series)} (\S+)$", metrics, re.MULTILINE)
    assert found is not None, f"there is no {series} in:\n{metrics}"
    return float(found[1])
