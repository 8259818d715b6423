"""``allot up``, ``down`` and ``status``, as processes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from allotment.cli.main import main
from allotment.cli.up import fitted
from allotment.lab import up
from allotment.lab.state import Register
from allotment.model.loading import load_text
from tests.polling import wait_until

Allot = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_DATA_HOME": str(tmp_path / "share"), "KUBECONFIG": str(tmp_path / "kube" / "config"),
    }  # fmt: skip


@pytest.fixture
def allot(environment: dict[str, str], tmp_path: Path) -> Iterator[Allot]:
    """Runs ``allot`` with arguments; stops the labs that are left running."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "allotment.cli.main", *words],
            env=environment, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip

    yield run
    if any((tmp_path / "state").rglob("*.json")):  # the states of running labs
        run("down", "--all")


def nodes(url: str) -> list[str]:
    with urllib.request.urlopen(f"{url}/api/v1/nodes") as answer:
        return sorted(tree["metadata"]["name"] for tree in json.load(answer)["items"])


def test_detached_labs_are_started_listed_and_stopped(
    allot: Allot, environment: dict[str, str], tmp_path: Path
) -> None:
    nothing = allot("status")
    assert (nothing.returncode, nothing.stdout) == (1, "No lab is running.\n")
    started = allot("up", "--detach", "--http", "--name", "one", "--fleet", "t4-4x-pcie:2")
    assert started.returncode == 0, started.stderr
    two = allot("up", "--detach", "--http", "--name", "two", "--fleet", "big=dgx-a100-40gb", "--ephemeral")
    assert two.returncode == 0, two.stderr
    assert "only in memory" in two.stdout

    labs = {lab["name"]: lab for lab in json.loads(allot("status", "-o", "json").stdout)["labs"]}
    assert nodes(labs["one"]["url"]) == ["t4-4x-pcie-1", "t4-4x-pcie-2"]
    assert nodes(labs["two"]["url"]) == ["big"]
    assert labs["one"]["data"] == str(tmp_path / "share/allotment/labs/one")
    config = load_text(Path(environment["KUBECONFIG"]).read_bytes()).documents[0].tree
    assert [entry["name"] for entry in config["contexts"]] == ["allotment-one", "allotment-two"]
    assert config["current-context"] == "allotment-two"

    again = allot("up", "--detach", "--name", "one")
    assert again.returncode == 2
    assert f"lab 'one' is already running (process {labs['one']['pid']}" in again.stderr

    down = allot("down", "one")
    assert down.stdout == "Lab 'one' has stopped; its data is kept in ~/share/allotment/labs/one.\n"
    assert allot("down", "one").stdout == "Lab 'one' is not running.\n"
    assert [line.split()[0] for line in allot("status").stdout.splitlines()] == ["NAME", "two"]
    assert allot("down", "--all").stdout == "Lab 'two' has stopped.\n"
    config = load_text(Path(environment["KUBECONFIG"]).read_bytes()).documents[0].tree
    assert config["contexts"] == []

    back = allot("up", "--detach", "--http", "--name", "one")
    assert "fleet    as in the last run: t4-4x-pcie:2\n" in back.stdout, back.stderr
    (lab,) = json.loads(allot("status", "-o", "json").stdout)["labs"]
    assert nodes(lab["url"]) == ["t4-4x-pcie-1", "t4-4x-pcie-2"]
    assert lab["fleet"] == ["t4-4x-pcie:2"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_lab_in_the_foreground_stops_cleanly(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "allotment.cli.main", "up", "--ephemeral", "--fleet", "t4-4x-pcie"]
    register = Register(tmp_path / "state" / "allotment")
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as lab:
        assert lab.stdout is not None
        assert lab.stdout.readline().startswith("Ready in ")
        status = register.status("default")
        assert status is not None
        assert status.context == "allotment"
        lab.send_signal(number)
        rest = lab.stdout.read()
        assert lab.wait(120) == 0, rest
    assert rest.endswith("Lab 'default' stopped.\n")
    assert "Traceback" not in rest
    assert not register.runs("default")
    assert register.status("default") is None


def test_a_killed_lab_does_not_block_the_next_start(allot: Allot, tmp_path: Path) -> None:
    assert allot("up", "--detach", "--http", "--fleet", "t4-4x-pcie").returncode == 0
    (lab,) = json.loads(allot("status", "-o", "json").stdout)["labs"]
    os.kill(lab["pid"], signal.SIGKILL)
    wait_until(lambda: not Register(tmp_path / "state" / "allotment").runs("default"))
    assert allot("status").stdout == "No lab is running.\n"
    again = allot("up", "--detach", "--http")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--name", "A b"], "lab name: expected"),
        (["--fleet", "tpu-v7"], "tpu-v7"),
        (["--speed", "0"], "--speed: expected a positive number"),
        (["--speed", "1e308"], "--speed: expected a positive number up to 1000000, found 1e+308"),
        (["--port", "70000"], "--port: expected 0 to 65535"),
        (["--disable", "garbage,schedular"], "--disable: unknown program 'schedular'"),
        (["--kube-version", "1.10"], "--kube-version"),
        (["--ephemeral", "--data-dir", "x"], "not allowed with"),
        (["--bind-address", "203.0.113.1"], "cannot listen on 203.0.113.1: cannot assign requested address"),
        (["--data-dir", "/dev/null"], "--data-dir: /dev/null is not a directory"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    allot: Allot,
    words: list[str],
    complaint: str,
    environment: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    detached = allot("up", "--detach", *words)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    try:
        code = main(["up", *words])
    except SystemExit as end:
        code = int(str(end.code))
    for returned, errors in ((detached.returncode, detached.stderr), (code, capsys.readouterr().err)):
        assert returned == 2, errors
        assert complaint in errors
        assert "Traceback" not in errors


def test_other_users_cannot_read_files_of_a_lab(allot: Allot, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    for name, words in (("kept", ["--data-dir", str(data)]), ("lost", ["--ephemeral"])):
        done = allot("up", "--detach", "--http", "--name", name, "--fleet", "t4-4x-pcie", *words)
        assert done.returncode == 0, done.stderr
    files = [path for folder in (data, tmp_path / "state") for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"lab.db", "lab.db-wal", "lab.log", "lost.log", "lost.json", "accounts.key"}
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in files} == {path.name: "0o0" for path in files}


#: A process that is stopped, releases its lab, and exits when its input ends.
LINGERING = """
import os, pathlib, signal, sys
from allotment.lab.state import Register, Status
register = Register(pathlib.Path(sys.argv[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
with register.hold("one"):
    register.write(Status("one", os.getpid(), "http://127.0.0.1:1", "allotment-one", "/k", "2026-01-01T00:00:00Z", "1"))
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM})
print("released", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no descriptor of a process")
def test_a_lab_has_stopped_when_its_process_has_exited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LINGERING, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with monkeypatch.context() as patch:
            patch.setattr(up, "_STOP_SECONDS", 1.0)
            with pytest.raises(up.DidNotStop, match=f"is still running after 1 s: check process {process.pid}"):
                up.down(Register(tmp_path), "one")
        assert process.stdout.readline() == "released\n"
        process.stdin.close()
    with subprocess.Popen(
        [sys.executable, "-c", LINGERING, str(tmp_path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert up.down(Register(tmp_path), "one") is not None
        assert process.poll() == 0


def test_a_port_in_use_is_reported(allot: Allot) -> None:
    assert allot("up", "--detach", "--http", "--ephemeral", "--name", "one").returncode == 0
    (lab,) = json.loads(allot("status", "-o", "json").stdout)["labs"]
    port = lab["url"].rpartition(":")[2]
    taken = f"cannot listen on 127.0.0.1:{port}: address already in use\n"
    done = allot("up", "--http", "--ephemeral", "--name", "two", "--port", port)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith(f"allot: error: {taken}  use a different --port, or omit it to use a free port")
    done = allot("up", "--http", "--ephemeral", "--name", "two", "--port", port, "--detach")
    assert done.stderr.startswith(
        f"allot: error: the lab did not start: {taken}  use a different --port, or omit it to use a free port"
    )


def test_start_output_fits_the_terminal(allot: Allot, environment: dict[str, str]) -> None:
    environment["COLUMNS"] = "60"
    environment["XDG_STATE_HOME"] += "/a-long-name-for-a-folder" * 3
    done = allot("up", "--detach", "--http", "--ephemeral", "--fleet", ",".join(f"n{n}=t4-4x-pcie" for n in range(8)))
    assert done.returncode == 0, done.stderr
    (log,) = (line for line in done.stdout.splitlines() if len(line) > 60)
    assert log.endswith("a-long-name-for-a-folder/allotment/default.log")  # a path is not wrapped
    assert "  kubectl  context 'allotment' in ~/kube/config, now the\n           current context\n" in done.stdout


def test_the_live_line_fits_the_terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    for columns in (80, 50):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert len(fitted("x" * 100, out)) == columns


def test_an_invalid_kubeconfig_prevents_the_start(allot: Allot, environment: dict[str, str]) -> None:
    path = Path(environment["KUBECONFIG"])
    path.parent.mkdir()
    path.write_text("a: [")
    done = allot("up", "--http", "--ephemeral")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "fix the file, or use a different one with --kubeconfig" in done.stderr
    assert path.read_text() == "a: ["
