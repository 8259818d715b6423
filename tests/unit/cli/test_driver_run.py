"""If ``allot driver run`` cannot start, it prints one line with the reason, even for nested exceptions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from allotment.cli.driver import driver_of
from allotment.cli.main import _parsed, main
from allotment.drivers import program, vendors
from allotment.drivers.host import CheckpointLocked
from allotment.drivers.nvidia.host.roots import Roots
from allotment.drivers.simulation import SimulatedHardwareDriver
from allotment.kubelet_plugin.sockets import SocketError

_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SocketError("/x/dra.sock is served by another process"), "/x/dra.sock is served by another process"),
        (CheckpointLocked("process 7 holds /x/checkpoint.json.lock"), "process 7 holds /x/checkpoint.json.lock"),
        (PermissionError(13, "Permission denied", "/x/plugins"), "/x/plugins: Permission denied"),
    ],
)
def test_startup_error_is_one_line(
    error: Exception, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        # As it comes out of two task groups.
        raise ExceptionGroup("unhandled", [ExceptionGroup("unhandled", [error])])

    (tmp_path / "config").write_text(_KUBECONFIG)
    monkeypatch.setattr(program, "run_until_signal", fail)
    code = main(["driver", "run", "amd", "--kubeconfig", str(tmp_path / "config"), "--kubelet-root", str(tmp_path)])
    assert code == 2
    errors = capsys.readouterr().err
    assert words in errors
    assert "unhandled" not in errors


def test_runtimes_get_host_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Roots] = []
    monkeypatch.setattr(vendors, "HostHardware", given.append)
    vendors.HOST_DRIVERS["nvidia"].create("n", "", Path("/driver-root"), Path("/"))
    assert given[0].on_host(Path("/driver-root/usr/lib/libcuda.so.1")) == "/usr/lib/libcuda.so.1"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--simulate", "8xmi300x"], "found '8xmi300x' from amd\n  allot driver run amd --simulate 8xmi300x"),
        (["--simulate", "8xa100-40gb:2"], "expected [GPUSx]HARDWARE[/MODE], for this node"),
        (["--simulate", "a=8xa100-40gb"], "expected [GPUSx]HARDWARE[/MODE], for this node"),
        (["--simulate", "t4,t4"], "expected [GPUSx]HARDWARE[/MODE], for this node"),
        (["--simulate", "8xa100-41gb"], "--simulate: unknown hardware 'a100-41gb'"),
        (["--simulate", "2xt4/dynamic-mig"], "--simulate: Tesla T4 does not support MIG"),
        (["--simulate", "2xt4/full", "--mode", "shared"], "specify the mode only once\n  --simulate 2xt4/shared"),
        (["--simulate", "2xt4", "--mode", "nonsense"], "--simulate: unknown mode 'nonsense'"),
        (["--simulate", "2xt4", "--driver-root", "/run/nvidia"], "--driver-root: not allowed with --simulate"),
    ],
)
@pytest.mark.parametrize("command", [["driver", "run"], ["run", "driver"]], ids=" ".join)
def test_unsupported_hardware_is_rejected(
    command: list[str], words: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "nvidia", *words, "--kubelet-root", str(tmp_path)]) == 2
    assert expected.replace("driver run", " ".join(command)) in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_mode_applies_to_simulated_hardware(tmp_path: Path) -> None:
    node = ["--node-name", "n7", "--kubelet-root", str(tmp_path)]
    for words in (["--simulate", "2xa100-40gb/dynamic-mig"], ["--simulate", "2xa100-40gb", "--mode", "dynamic-mig"]):
        driver, place = driver_of(_parsed(["driver", "run", "nvidia", *words, *node]))
        assert isinstance(driver, SimulatedHardwareDriver)
        assert (driver.simulated_hardware, place.node) == ("2xa100-40gb/dynamic-mig", "n7")
        (offer,) = asyncio.run(driver.discover())
        names = [device.name for group in offer.groups for device in group]
        assert "gpu-1-mig-1g5gb-19-6" in names
        assert len(list(tmp_path.glob("plugins/gpu.nvidia.com/simulated/*/hardware.json"))) == 1
