"""Programs of a context end with it, in whatever way it ends, and their output is in the error when they fail."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench.processes import ProcessEnded, processes
from tests.polling import wait_until

#: Its program keeps a connection open while it runs, so the test needs neither its process ID nor a clock.
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
def test_programs_end_when_the_process_that_started_them_dies(how: signal.Signals) -> None:
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
            wait_until(lambda: not folder.exists(), "the folder is removed")
        finally:
            parent.kill()


def test_they_end_with_the_context() -> None:
    with processes("here-") as running:
        process = running.start("sleeper", ["sleep", "100"])
        assert process.poll() is None
        folder = running.folder
    assert process.poll() == -signal.SIGKILL
    assert not folder.exists()


def test_a_port_stays_reserved_while_its_program_is_stopped() -> None:
    with processes("here-") as running:
        address = ("127.0.0.1", running.port())
        for _ in range(2):
            with socket.create_server(address, reuse_port=True), pytest.raises(OSError, match="in use"):
                socket.create_server(address)
            with pytest.raises(OSError, match="in use"):
                socket.create_server(address)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address)


def test_a_failed_program_is_reported_with_its_output() -> None:
    with processes("here-") as running:
        running.start("broken", ["sh", "-c", "echo no such flag; exit 3"])
        with pytest.raises(ProcessEnded, match=r"(?s)broken ended with 3; output:\nno such flag"):
            running.await_("broken", lambda: False)


def test_a_program_that_is_not_ready_in_time_is_reported_and_can_be_stopped() -> None:
    with processes("here-") as running:
        running.start("slow", ["sleep", "100"], environment={"A": "b"})
        with pytest.raises(ProcessEnded, match=r"slow was not ready after 0\.1 s"):
            running.await_("slow", lambda: False, 0.1)
        assert running.stop("slow") == -signal.SIGTERM
        assert running.log("slow").parent == running.folder
