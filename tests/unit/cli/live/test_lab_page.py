"""The process of a lab's page: its address is reported, and it ends with the lab."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from allotment.cli.live import lab_page as module
from allotment.cli.live.lab_page import lab_page

#: Stands for ``allot web --with-parent``: prints its address, and ends when the pipe closes.
_SERVING = "print('http://127.0.0.1:1/?token=x', flush=True); sys.stdin.read(); open(log, 'a').write('ended\\n')"


class Addresses:
    """Receives the address, in the thread that reads it."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._arrived = Event()

    def __call__(self, address: str) -> None:
        self.found.append(address)
        self._arrived.set()

    def wait(self) -> list[str]:
        assert self._arrived.wait(120)
        return self.found


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, code: str) -> Path:
    """Replace the program by a script; return the file that it may write to."""
    log = folder / "log"
    script = folder / "page.py"
    script.write_text(f"import sys\nlog = {str(log)!r}\n{code}\n")
    monkeypatch.setattr(module, "program", lambda: (str(script),))
    return log


def test_the_address_is_reported_and_the_page_ends_with_the_lab(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log, addresses = stand_in(monkeypatch, tmp_path, _SERVING), Addresses()
    with lab_page("config", "allotment", addresses):
        assert addresses.wait() == ["http://127.0.0.1:1/?token=x"]
        assert not log.exists()
    assert log.read_text() == "ended\n"


def test_the_page_gets_the_kubeconfig_and_context_of_the_lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, "print(' '.join(sys.argv[1:]))")
    addresses = Addresses()
    with lab_page(tmp_path / "config", "allotment-two", addresses):
        assert addresses.wait() == [f"web --kubeconfig {tmp_path / 'config'} --with-parent --context allotment-two"]


def test_a_page_that_cannot_be_served_has_no_address_and_its_error_is_logged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in(monkeypatch, tmp_path, "sys.exit('allot: error: no')")
    addresses, log = Addresses(), tmp_path / "lab.log"
    with lab_page("config", "", addresses, log):
        assert addresses.wait() == [""]
    assert "allot: error: no" in log.read_text()


def test_a_lab_that_ends_first_reports_no_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, "sys.stdin.read()")
    addresses = Addresses()
    with lab_page("config", "", addresses):
        pass
    assert addresses.found == []


def test_the_program_is_started_by_its_module() -> None:
    assert module.program() == ("-m", "allotment.cli.main")
