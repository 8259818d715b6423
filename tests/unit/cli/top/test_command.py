"""``allot top`` on snapshots and hardware: printed once, and in a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from allotment.cli.main import main
from tests.polling import wait_until

PENDING = Path(__file__).parents[3] / "corpus" / "mixed" / "admin-access-not-allowed-beside-full-nodes.yaml"
#: Ends the second buffer, and shows the cursor.
RESTORED = b"\x1b[?25h\x1b[?1049l"


def test_once_prints_nodes_and_pending_groups_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", "--cluster", str(PENDING)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "2 devices: 2 in-use; 1 pod pending"
    assert lines[-2] == "PENDING 1"
    assert "which its namespace does not allow" in lines[-1]
    assert "\x1b" not in "".join(lines)


def test_once_shows_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", "--fleet", "t4-4x-pcie:2"]) == 0
    output = capsys.readouterr().out
    assert "8 devices: 8 free; 0 pods pending" in output
    assert "t4-4x-pcie-2  Tesla T4  ...." in output


def test_without_a_terminal_once_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--fleet", "t4"]) == 2
    assert "print it once with --once" in capsys.readouterr().err


def test_without_a_cluster_the_options_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["top", "--once"]) == 2
    assert "specify a snapshot with --cluster FILE or hardware with --fleet SPEC, or run allot up" in (
        capsys.readouterr().err
    )


class TerminalSession:
    """``allot top`` in a terminal of 80 columns and 24 lines."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.master = master
        self.output = b""
        os.set_blocking(master, False)

    def shows(self, text: str) -> None:
        """Wait until a text is written."""
        wait_until(lambda: text.encode() in self._read(), lambda: f"{text!r} is not in {self.output[-2000:]!r}")
        self.output = b""

    def press(self, keys: str) -> None:
        """Write keys to the terminal."""
        os.write(self.master, keys.encode())

    def ends(self) -> bytes:
        """Wait for the end, and return the rest of the output."""
        assert self.process.wait(60) == 0
        return self._read()

    def _read(self) -> bytes:
        with suppress(OSError):  # nothing to read yet, or the terminal is closed
            self.output += os.read(self.master, 65536)
        return self.output


@contextmanager
def terminal() -> Iterator[TerminalSession]:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    command = [sys.executable, "-m", "allotment.cli.main", "top", "--cluster", str(PENDING)]
    environment = {**os.environ, "TERM": "xterm"} | {"COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    try:
        yield TerminalSession(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_enter_shows_the_reason_of_explain_and_q_restores_the_terminal() -> None:
    with terminal() as session:
        session.shows("PENDING 1")
        session.press("\r")
        session.shows("does not fit")
        session.press("\x1b[B")
        session.press("\x1b")
        session.shows("NODES 2")
        session.press("\t\r")
        session.shows("0 of 1 devices free")
        session.press("q")
        assert session.ends().endswith(RESTORED)


def test_ctrl_c_restores_the_terminal() -> None:
    with terminal() as session:
        session.shows("PENDING 1")
        session.process.send_signal(signal.SIGINT)
        assert session.ends().endswith(RESTORED)
