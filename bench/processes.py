"""Programs that run for as long as a context: their logs kept, and none left behind, however we end.

Each program is alone in a session, so that Ctrl-C does not take it away from under those who use it. A keeper, a shell
that waits for us, kills them all when we are killed ourselves, and removes the folder.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

#: For machines that have much to do: nothing is concluded from it.
_PATIENCE_SECONDS: Final = 300
_TAIL_BYTES: Final = 3000
#: Reads the programs' numbers until there is nobody who could tell more; then who told them is gone.
_KEEPER: Final = 'ids=; while read -r id; do ids="$ids $id"; done; [ -z "$ids" ] || kill -9 $ids; rm -rf -- "$1"'


class Ended(RuntimeError):
    """A program that is needed did not come up, or is gone; the text tells the end of its log."""


class Processes:
    """Programs in a folder; their logs lie there as ``NAME.log``. Use :func:`processes`."""

    def __init__(self, folder: Path, keeper: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self._keeper = keeper
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._held: list[socket.socket] = []

    def start(
        self, name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program; a log that is there from an earlier start goes on. ``environment`` is added to ours."""
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                list(command), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
                start_new_session=True, env={**os.environ, **environment} if environment else None,
            )  # fmt: skip
        assert self._keeper.stdin is not None, "the keeper listens"
        self._keeper.stdin.write(b"%d\n" % process.pid)
        self._keeper.stdin.flush()
        self._running[name] = process
        return process

    def port(self) -> int:
        """A port of loopback for a program that listens with SO_REUSEPORT: nobody else is given it until the end."""
        held = socket.socket()
        self._held.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])

    def log(self, name: str) -> Path:
        """Where a program writes what it says."""
        return self.folder / f"{name}.log"

    def cpu_seconds(self, name: str) -> float:
        """How long a program that runs has had a processor."""
        fields = Path(f"/proc/{self._running[name].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def tail(self, name: str) -> str:
        """The end of what a program said."""
        with suppress(FileNotFoundError):
            return self.log(name).read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        return ""

    def tails(self) -> dict[str, str]:
        """The end of what each program said."""
        return {name: self.tail(name) for name in self._running}

    def await_(self, name: str, ready: Callable[[], bool], seconds: float = _PATIENCE_SECONDS) -> None:
        """Wait until a program is ready; :class:`Ended` when it ends instead, or takes too long."""
        deadline = time.monotonic() + seconds
        while not ready():
            status = self._running[name].poll()
            if status is not None:
                raise Ended(f"{name} ended with {status}; it said:\n{self.tail(name)}")
            if time.monotonic() > deadline:
                raise Ended(f"{name} was not ready after {seconds:g} s; it said:\n{self.tail(name)}")
            time.sleep(0.03)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM, seconds: float = 15) -> int:
        """Stop one program, by force when it takes too long. Returns its exit status."""
        process = self._running.pop(name)
        process.send_signal(how)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def kill(self, name: str) -> Callable[[], subprocess.Popen[bytes]]:
        """Kill one program (SIGKILL). What is returned starts it again as it was started."""
        process = self._running[name]
        self.stop(name, signal.SIGKILL)
        assert isinstance(process.args, list)
        command = [str(word) for word in process.args]
        return lambda: self.start(name, command)

    @contextmanager
    def still(self, name: str) -> Iterator[None]:
        """A program stands still (SIGSTOP): what listens goes on to accept, and says nothing."""
        self._running[name].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running[name].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop everything at once: what they would still like to write is thrown away with the folder."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()
        for held in self._held:
            held.close()
        self._keeper.kill()
        self._keeper.communicate()


@contextmanager
def processes(prefix: str) -> Iterator[Processes]:
    """A folder for programs and what they write; both are gone at the end."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", folder], stdin=subprocess.PIPE, start_new_session=True
        )
        running = Processes(Path(folder), keeper)
        try:
            yield running
        finally:
            running.close()
