"""Programs of a context: gone with it, however it ends, and what they said is told when they fail."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench.processes import Ended, processes
from tests.waiting import wait_until

#: Its program holds a connection for as long as it lives: whoever accepts it needs no process's number, and no clock.
PARENT = """
import signal, sys, time
from bench.processes import processes
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have what runs in the background ignore it
with processes("parent-") as running:
    held = "import socket, time; held = socket.create_connection(('127.0.0.1', %s)); time.sleep(100)" % sys.argv[1]
    running.start("sleeper", [sys.executable, "-c", held])
    print(running.folder, flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_whoever_started_them_dies_and_they_do(how: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, subprocess.Popen(
        [sys.executable, "-c", PARENT, str(server.getsockname()[1])],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=Path(__file__).parents[2],
    ) as parent:  # fmt: skip
        try:
            server.settimeout(30)
            sleeper, _ = server.accept()
            assert parent.stdout is not None
            folder = Path(parent.stdout.readline().strip())
            assert folder.is_dir()
            parent.send_signal(how)
            with sleeper:
                sleeper.settimeout(30)
                assert sleeper.recv(1) == b"", "it ended"
            wait_until(lambda: not folder.exists(), "the folder is gone")
        finally:
            parent.kill()


def test_they_end_with_the_context() -> None:
    with processes("here-") as running:
        process = running.start("sleeper", ["sleep", "100"])
        assert process.poll() is None
        folder = running.folder
    assert process.poll() == -signal.SIGKILL
    assert not folder.exists()


def test_a_port_is_nobody_elses_whether_its_program_runs_or_not() -> None:
    with processes("here-") as running:
        address = ("127.0.0.1", running.port())
        for _ in range(2):
            with socket.create_server(address, reuse_port=True), pytest.raises(OSError, match="in use"):
                socket.create_server(address)
            with pytest.raises(OSError, match="in use"):
                socket.create_server(address)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)


def test_one_that_fails_tells_why() -> None:
    with processes("here-") as running:
        running.start("broken", ["sh", "-c", "echo no such flag; exit 3"])
        with pytest.raises(Ended, match=r"(?s)broken ended with 3; it said:\nno such flag"):
            running.await_("broken", lambda: False)


def test_one_that_takes_too_long_is_told_of_and_can_be_stopped() -> None:
    with processes("here-") as running:
        running.start("slow", ["sleep", "100"], environment={"A": "b"})
        with pytest.raises(Ended, match=r"slow was not ready after 0\.1 s"):
            running.await_("slow", lambda: False, 0.1)
        assert running.stop("slow") == -signal.SIGTERM
        assert running.log("slow").parent == running.folder
