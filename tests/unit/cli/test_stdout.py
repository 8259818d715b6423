"""Output of a library on file descriptor 1 never reaches standard output."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import termios

import pytest

#: ``allot version`` with a library that writes in every way C knows; the last line waits in C's own buffer until exit.
_NOISY = """
import ctypes, os, subprocess, sys
from allotment.cli import main as cli, version

answer = version.run

def noisy(arguments):
    os.write(1, b"from a library\\n")
    subprocess.run(["echo", "from a child process"], check=True)
    ctypes.CDLL(None).puts(b"from a buffer of C")
    return answer(arguments)

version.run = noisy
sys.argv = ["allot", "version", "-o", "json"]
sys.exit(cli.main())
"""
_NOISE = ["from a library", "from a child process", "from a buffer of C"]


def allot(*flags: str, script: str = _NOISY) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("flags", [(), ("-u",)])
def test_stdout_contains_only_the_result(flags: tuple[str, ...]) -> None:
    done = allot(*flags)
    assert done.returncode == 0, done.stderr
    assert "allotment" in json.loads(done.stdout)
    assert done.stderr.splitlines() == _NOISE


def test_without_stderr_library_output_is_discarded() -> None:
    done = allot(script=f"import os, sys\nos.close(2)\nsys.stderr = None\n{_NOISY}")
    assert done.returncode == 0
    assert "allotment" in json.loads(done.stdout)
    assert done.stderr == ""


def test_terminal_width_is_still_detected() -> None:
    terminal, other_end = os.openpty()
    fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 61, 0, 0))
    script = (
        "from allotment.cli.stdout import reserve_stdout\nreserve_stdout()\n"
        "from allotment.cli.output.console import open_screen\nscreen = open_screen()\nscreen.line(f'{screen.width}')\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=other_end, stderr=subprocess.PIPE, env=environment, timeout=120,
        check=False,
    )  # fmt: skip
    os.close(other_end)
    assert done.stderr == b""
    assert os.read(terminal, 100) == b"61\r\n"
    os.close(terminal)
