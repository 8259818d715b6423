"""A lab that runs as users run it, and the clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.tools import FOLDER

FLEET = "dgx-a100-40gb:1,t4-4x-pcie:1"
_READY_SECONDS = 120


class CommandResult(NamedTuple):
    """Output and exit code of a command."""

    code: int
    out: str
    err: str


class Lab(NamedTuple):
    """A running lab."""

    process: subprocess.Popen[bytes]
    kubeconfig: Path
    log: Path


Run = Callable[..., CommandResult]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """``allot up`` on a free port; stopped at the end."""
    folder = tmp_path_factory.mktemp("lab")
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    command = [
        sys.executable, "-m", "allotment.cli.main", "up", "--ephemeral", "--name", f"test-{os.getpid()}", "--port", "0",
        "--fleet", FLEET, "--kubeconfig", str(kubeconfig), "--speed", "10",
    ]  # fmt: skip
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_DATA_HOME": str(folder / "data")}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while not kubeconfig.is_file() or "allotment" not in kubeconfig.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the lab did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)
        yield Lab(process, kubeconfig, log)
        assert process.poll() is None, f"the lab ended unexpectedly:\n{log.read_text(errors='replace')[-3000:]}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    output_text = log.read_text(errors="replace")
    assert "Traceback" not in output_text, output_text[-5000:]


def _client(name: str, lab: Lab, home: Path) -> Run:
    program = FOLDER / name
    found = str(program) if program.is_file() else shutil.which(name)
    if found is None or not program.is_file():
        pytest.skip(f"{name} not found: `python -m tests.clients.tools` downloads it")
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(lab.kubeconfig), "KUBECACHEDIR": str(home),
        "EDITOR": "true",
    }  # fmt: skip

    def run(*arguments: str, input: str = "", timeout: float = 240, fails: bool = False, **extra: str) -> CommandResult:
        done = subprocess.run(
            [found, *arguments],
            input=input.encode(),
            check=False,
            capture_output=True,
            timeout=timeout,
            env={**environment, **extra},
        )
        ran = CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())
        if not fails:
            assert ran.code == 0, f"{name} {' '.join(arguments)}: {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    return run


@pytest.fixture(scope="session")
def kubectl(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``kubectl(*arguments, input=, fails=)`` with the lab; an unexpected exit code fails the test."""
    return _client("kubectl", lab, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def helm(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``helm(*arguments, input=, fails=)`` with the lab."""
    return _client("helm", lab, tmp_path_factory.mktemp("helm"))


@pytest.fixture
def namespace(kubectl: Run, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for one test."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50].strip("-")
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
