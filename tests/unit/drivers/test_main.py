"""The command line of a driver program, and its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from allotment.drivers import main
from allotment.drivers.device_values import InvalidDevice
from allotment.drivers.driver import DevicePool
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
    options, target = parse_arguments("d", [])
    assert (options.node, options.pod_uid, target.server) == ("n1", "u1", "http://127.0.0.1:9")
    assert options.registry == Path("/var/lib/kubelet/plugins_registry")


def test_folders_are_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kubeconfig: str) -> None:
    monkeypatch.chdir(tmp_path)
    options, _ = parse_arguments(
        "d", ["--kubeconfig", kubeconfig, "--kubelet-root", "k", "--cdi-root", "k/cdi", "--node", "n"]
    )
    assert (options.plugins, options.cdi) == (tmp_path / "k" / "plugins", tmp_path / "k" / "cdi")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--context", "elsewhere"], "context 'elsewhere' not found; available: here"),
        (["--kubelet-root", "/proc/none"], "127.0.0.1:9"),
    ],
)
def test_errors_are_one_line(kubeconfig: str, arguments: list[str], expected: str) -> None:
    with pytest.raises(SystemExit) as exit_error:
        run(FakeDriver(), [*arguments, "--kubeconfig", kubeconfig])
    message = str(exit_error.value.code)
    assert expected in message
    assert "\n" not in message


def test_missing_methods_are_one_line() -> None:
    class Unfinished:
        name = "fpga.example.com"
        configs: Mapping[tuple[str, str], type] = {}

        async def discover(self) -> Sequence[DevicePool]:
            return []

    with pytest.raises(SystemExit) as exit_error:
        run(Unfinished(), [])  # type: ignore[arg-type]
    assert exit_error.value.code == (
        "Unfinished: missing config_applies, validate, plan, prepare, unprepare, watch: "
        "a driver has all members of drivers.Driver"
    )


def test_a_device_with_a_wrong_type_is_one_line(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ExceptionGroup("", [ExceptionGroup("", [InvalidDevice("device 'fpga-0': expected str, found None")])])

    monkeypatch.setattr(main, "run_until_signal", fails)
    with pytest.raises(SystemExit) as exit_error:
        run(FakeDriver(), ["--kubeconfig", kubeconfig])
    assert exit_error.value.code == "gpu.test: device 'fpga-0': expected str, found None"
