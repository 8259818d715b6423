"""client-go's shared informer, the basis of controllers written in Go, watches claims in a running lab."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Lab, Run

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""


@pytest.fixture(scope="session")
def informer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the program."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go not found: client-go is not tested")
    program = tmp_path_factory.mktemp("informer") / "informer"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."], cwd=Path(__file__).parent / "informer", capture_output=True, check=False
    )
    if built.returncode:
        pytest.skip(f"the Go program cannot be built: {built.stderr.decode()[-500:]}")
    return program


def test_an_informer_lists_and_watches(informer: Path, lab: Lab, kubectl: Run, namespace: str) -> None:
    ns = ("-n", namespace)
    kubectl(*ns, "apply", "-f", "-", input=CLAIM % "before")
    with subprocess.Popen(
        [str(informer), str(lab.kubeconfig), namespace, "4"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = {process.stdout.readline(), process.stdout.readline()}
        kubectl(*ns, "apply", "-f", "-", input=CLAIM % "after")
        kubectl(*ns, "label", "resourceclaim", "after", "a=b")
        kubectl(*ns, "delete", "resourceclaim", "before")
        rest = process.stdout.read().splitlines()
        assert process.wait(55) == 0, process.stderr.read()
    events = [line.strip() for line in [*lines, *rest]]
    assert "SYNCED" in events
    assert [line for line in events if line != "SYNCED"] == [
        "ADDED before pending", "ADDED after pending", "MODIFIED after pending", "DELETED before pending",
    ]  # fmt: skip
