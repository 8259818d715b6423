"""The register of labs and the location of their data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from allotment.lab.state import InvalidName, LabRunningError, Register, Status, default_data

HOLDER = """
import pathlib, sys
from allotment.lab.state import Register
with Register(pathlib.Path(sys.argv[1])).hold("two"):
    print("held", flush=True)
    sys.stdin.read()
"""


def a_status(name: str = "two", pid: int = 17) -> Status:
    return Status(
        name=name, pid=pid, url="https://127.0.0.1:6443", context=f"allotment-{name}", kubeconfig="/k",
        started="2026-01-01T00:00:00Z", version="1", fleet=("dgx-a100-40gb:2",),
    )  # fmt: skip


def test_a_lab_is_listed_while_it_runs(tmp_path: Path) -> None:
    register = Register(tmp_path / "register")
    assert not register.runs("two")
    with register.hold("two"):
        assert register.runs("two")
        assert register.status("two") is None
        assert register.running() == ()
        register.write(a_status())
        assert register.status("two") == a_status()
        assert register.running() == (a_status(),)
    assert not register.runs("two")
    assert register.status("two") is None


def test_labs_with_different_names_run_concurrently(tmp_path: Path) -> None:
    register = Register(tmp_path)
    with register.hold("two"), register.hold("default"):
        register.write(a_status("two"))
        register.write(a_status("default"))
        assert [status.name for status in register.running()] == ["default", "two"]


def test_a_second_lab_of_the_same_name_reports_the_running_one(tmp_path: Path) -> None:
    register = Register(tmp_path)
    with register.hold("two"):
        register.write(a_status(pid=4711))
        with (
            pytest.raises(LabRunningError, match=r"lab 'two' is already running \(process 4711, https"),
            register.hold("two"),
        ):
            pytest.fail("held twice")
        assert register.status("two") == a_status(pid=4711)


def test_a_killed_lab_is_not_running_despite_its_files(tmp_path: Path) -> None:
    register = Register(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        register.write(a_status(pid=other.pid))
        assert register.runs("two")
        other.kill()
        other.wait()
    assert not register.runs("two")
    assert register.running() == ()
    with register.hold("two"):
        assert register.status("two") is None


@pytest.mark.parametrize("name", ["", "Two", "a/b", "-a", "a-", "..", "a" * 41, "a b"])
def test_invalid_lab_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidName, match="lower-case letters"):
        default_data(name)
    with pytest.raises(InvalidName):
        Register(tmp_path).runs(name)


def test_folders_follow_the_xdg_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_data("default").database == tmp_path / ".local/share/allotment/labs/default/lab.db"
    assert Register().folder == tmp_path / "state/allotment"


def test_without_a_home_directory_there_are_no_labs(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert (Register().running(), Register().status("two"), Register().runs("two")) == ((), None, False)
