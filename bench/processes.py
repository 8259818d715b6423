"""Programs that run until a context ends: their logs are kept, and no process remains, in whatever way the context
ends.

Each program has a session of its own, so that Ctrl-C does not end it before its users. A keeper, a shell that waits for
this process, kills them all when this process is killed, and removes the folder.
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

#: Long enough for loaded machines: it is not a measurement.
_TIMEOUT_SECONDS: Final = 300
_TAIL_BYTES: Final = 3000
#: Reads the programs' process IDs until the pipe is closed, which happens when this process is gone.
_KEEPER: Final = 'ids=; while read -r id; do ids="$ids $id"; done; [ -z "$ids" ] || kill -9 $ids; rm -rf -- "$1"'


class ProcessEnded(RuntimeError):
    """Raised when a required program did not start, or has ended; the text contains the end of its log."""


class Processes:
    """Programs in a folder; their logs are ``NAME.log`` in it. Use :func:`processes`."""

    def __init__(self, folder: Path, keeper: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self._keeper = keeper
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._held: list[socket.socket] = []

    def start(
        self, name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program; an existing log is appended to. ``environment`` is added to this process's."""
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                list(command), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
                start_new_session=True, env={**os.environ, **environment} if environment else None,
            )  # fmt: skip
        assert self._keeper.stdin is not None, "the keeper reads from the pipe"
        self._keeper.stdin.write(b"%d\n" % process.pid)
        self._keeper.stdin.flush()
        self._running[name] = process
        return process

    def port(self) -> int:
        """A loopback port for a program that listens with SO_REUSEPORT; it stays reserved until the end."""
        held = socket.socket()
        self._held.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])

    def log(self, name: str) -> Path:
        """The path of a program's log."""
        return self.folder / f"{name}.log"

    def cpu_seconds(self, name: str) -> float:
        """The processor time of a running program."""
        fields = Path(f"/proc/{self._running[name].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def tail(self, name: str) -> str:
        """The end of a program's log."""
        with suppress(FileNotFoundError):
            return self.log(name).read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        return ""

    def tails(self) -> dict[str, str]:
        """The end of each program's log."""
        return {name: self.tail(name) for name in self._running}

    def await_(self, name: str, ready: Callable[[], bool], seconds: float = _TIMEOUT_SECONDS) -> None:
        """Wait until a program is ready; raise :class:`Ended` when it ends instead, or takes too long."""
        deadline = time.monotonic() + seconds
        while not ready():
            status = self._running[name].poll()
            if status is not None:
                raise ProcessEnded(f"{name} ended with {status}; output:\n{self.tail(name)}")
            if time.monotonic() > deadline:
                raise ProcessEnded(f"{name} was not ready after {seconds:g} s; output:\n{self.tail(name)}")
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
        """Kill one program (SIGKILL). Returns a function that starts it again with the same arguments."""
        process = self._running[name]
        self.stop(name, signal.SIGKILL)
        assert isinstance(process.args, list)
        command = [str(word) for word in process.args]
        return lambda: self.start(name, command)

    @contextmanager
    def pause(self, name: str) -> Iterator[None]:
        """Pause a program (SIGSTOP): connections to it are accepted and get no answer."""
        self._running[name].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running[name].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill everything immediately: unwritten data is not needed, because the folder is removed."""
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
    """A folder for programs and their output; both are removed at the end."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", folder], stdin=subprocess.PIPE, start_new_session=True
        )
        running = Processes(Path(folder), keeper)
        try:
            yield running
        finally:
            running.close()
