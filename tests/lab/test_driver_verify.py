"""``allot driver verify`` from the command line: a driver that is killed, a lab over HTTP, the output."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import allotment
from allotment.cli.main import main
from allotment.drivers.verify import driver_session
from allotment.drivers.verify.suite import CHECKS
from allotment.lab.lab import Lab
from allotment.model.trees import Tree
from tests.api.json_rows import without
from tests.polling import wait_until

NODE = "t4-4x-pcie-1"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(fleet="t4-4x-pcie") as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="al-"))  # a socket's path must be short
    yield path
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_session, "DEFAULT_TIMEOUTS", driver_session.Timeouts(stable=0.5, interrupt_at=(0.5,)))
    monkeypatch.setenv("COLUMNS", "80")


def command(lab: Lab, folder: Path, *how: str) -> list[str]:
    return [sys.executable, "-m", "tests.lab.verified_driver", str(folder), lab.url, NODE, *how]


def verify(lab: Lab, folder: Path, *arguments: str, socket: str = "plugins_registry/gpu.example.com-reg.sock") -> int:
    given = ("--kubeconfig", str(lab.kubeconfig), "--cdi-root", str(folder / "cdi"), *arguments)
    return main(["driver", "verify", str(folder / socket), *given])


def check_nothing_left(lab: Lab, folder: Path) -> bool:
    names = {tree["metadata"]["name"] for tree in lab.list("namespace")}
    files = list((folder / "cdi").iterdir()) if (folder / "cdi").exists() else []
    return not lab.list("resourceclaim") and not any("verify" in name for name in names) and not files


def test_a_driver_that_is_started_stopped_and_killed(
    lab: Lab, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(lab, folder, "--command", " ".join(command(lab, folder))) == 0
    out = capsys.readouterr().out
    assert out.endswith(f"\n\n{len(CHECKS)} passed, 0 failed\n")
    assert max(map(len, out.splitlines())) <= 80
    assert [line.split()[0] for line in out.splitlines()[4:-2] if not line.startswith(" ")] == [
        check.name for check in CHECKS
    ]
    wait_until(lambda: check_nothing_left(lab, folder))


def test_a_running_driver_with_defects(lab: Lab, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = subprocess.Popen(command(lab, folder, "breaks"))
    try:
        registration = folder / "plugins_registry" / "gpu.example.com-reg.sock"
        wait_until(registration.exists)
        # The other socket belongs to the same driver.
        assert verify(lab, folder, "-o", "json", socket="plugins/gpu.example.com/dra.sock") == 1
        report = json.loads(capsys.readouterr().out)
        returned = allotment.verify_driver(registration, allotment.Cluster.lab(lab), cdi_roots=[folder / "cdi"])
        assert verify(lab, folder, "--command", "true") == 2
        assert "omit the command" in capsys.readouterr().err
    finally:
        process.terminate()
        process.wait()
    assert _repeatable(report) == _repeatable(returned.to_dict())
    assert not returned.passed
    assert report["registration"] == str(registration)
    assert report["node"] == NODE
    rows = {row["name"]: row for row in report["checks"]}
    assert rows["prepare"]["result"] == "FAIL"
    assert "out of order" in rows["prepare"]["seen"]
    assert rows["prepare"]["remedy"]
    assert rows["cdi"]["result"] == "skipped"
    assert rows["kill-prepare"]["seen"] == "requires the driver's command: this check starts and stops it"
    assert report["summary"]["FAIL"] == 1
    assert sum(report["summary"].values()) == len(CHECKS)


def _repeatable(report: Tree) -> object:
    """A report without durations and generated names."""
    return json.loads(re.sub(r"allotment-verify-[0-9a-f]+", "NAMESPACE", json.dumps(without(report, ["seconds"]))))


def test_an_unusable_driver_is_an_input_error(lab: Lab, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(lab, folder) == 2
    assert "gpu.example.com-reg.sock does not exist" in " ".join(capsys.readouterr().err.split())
    assert verify(lab, folder, "--command", "/nowhere/driver") == 2
    assert "--command: '/nowhere/driver': " in capsys.readouterr().err
    assert verify(lab, folder, "--command", "sh -c 'echo no hardware; exit 3'") == 2
    error = capsys.readouterr().err
    assert "exited with code 3" in error
    assert "no hardware" in error


def test_errors_name_the_argument_and_have_the_output_of_the_driver(lab: Lab, folder: Path) -> None:
    socket, cluster = folder / "plugins_registry" / "x-reg.sock", allotment.Cluster.lab(lab)
    with pytest.raises(allotment.InputError, match="command: the driver exited with code 3") as raised:
        allotment.verify_driver(socket, cluster, command="sh -c 'echo no hardware; exit 3'")
    assert "no hardware" in "".join(raised.value.__notes__)
    with pytest.raises(allotment.InputError, match="cluster: expected a running cluster"):
        allotment.verify_driver(socket, allotment.Cluster.fleet("t4"))
