"""Programs of a context: gone with it, however it ends, and what they said is told when they fail."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.processes import Ended, processes

PARENT = """
import sys, time
from bench.processes import processes
with processes("parent-") as running:
    process = running.start("sleeper", ["sleep", "100"])
    print(process.pid, running.folder, flush=True)
    time.sleep(100)
"""


def _is_there(number: int) -> bool:
    try:
        return "sleep" in Path(f"/proc/{number}/cmdline").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="processes are looked for in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_whoever_started_them_dies_and_they_do(how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        cwd=Path(__file__).parents[2],
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        number, folder = parent.stdout.readline().split()
        assert _is_there(int(number))
        parent.send_signal(how)
        parent.wait(10)
    deadline = time.monotonic() + 10
    while (_is_there(int(number)) or Path(folder).exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_there(int(number))
    assert not Path(folder).exists()


def test_they_end_with_the_context() -> None:
    with processes("here-") as running:
        process = running.start("sleeper", ["sleep", "100"])
        assert process.poll() is None
        folder = running.folder
    assert process.poll() == -signal.SIGKILL
    assert not folder.exists()


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
