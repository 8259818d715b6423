"""The command line of a driver program, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.drivers.main import parse_arguments, run
from tests.unit.drivers.fake_driver import FakeDriver

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:9"}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    return str(path)


def test_the_defaults_come_from_the_pod_s_environment(monkeypatch: pytest.MonkeyPatch, kubeconfig: str) -> None:
    monkeypatch.setenv("NODE_NAME", "n1")
    monkeypatch.setenv("POD_UID", "u1")
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    place, target = parse_arguments("d", [])
    assert (place.node, place.pod_uid, target.server) == ("n1", "u1", "http://127.0.0.1:9")
    assert place.registry == Path("/var/lib/kubelet/plugins_registry")


def test_folders_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kubeconfig: str) -> None:
    monkeypatch.chdir(tmp_path)
    place, _ = parse_arguments(
        "d", ["--kubeconfig", kubeconfig, "--kubelet-root", "k", "--cdi-root", "k/cdi", "--node", "n"]
    )
    assert (place.plugins, place.cdi) == (tmp_path / "k" / "plugins", tmp_path / "k" / "cdi")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--context", "elsewhere"], "context 'elsewhere' is not there"),
        (["--kubelet-root", "/proc/none"], "127.0.0.1:9"),
    ],
)
def test_errors_are_one_line(kubeconfig: str, words: list[str], wanted: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(FakeDriver(), [*words, "--kubeconfig", kubeconfig])
    told_to_the_user = str(ended.value.code)
    assert wanted in told_to_the_user
    assert "\n" not in told_to_the_user
