"""Time slices, compute modes and MPS daemons, set with the driver's own programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from allotment.drivers.nvidia.hardware import GpuLost, Hardware, HardwareError, MpsDaemon
from tests.nvml.library import A100
from tests.nvml.machine import Machine
from tests.unit.drivers.nvidia.host.hosting import run_on_host

PCI = "0000:07:00.0"
DAEMON = MpsDaemon("claim-1-abcde", ("GPU-a",), 33, {"GPU-a": 5120})


@pytest.fixture
def a100(host: Machine) -> Machine:
    host.gpu(A100, 7, "GPU-a")
    return host


def test_a_time_slice_is_set_with_the_compute_mode_that_allows_it(a100: Machine) -> None:
    run_on_host(a100, lambda hardware: hardware.set_time_slice(PCI, 3))
    run_on_host(a100, lambda hardware: hardware.set_compute_mode(PCI, "EXCLUSIVE_PROCESS"))
    assert a100.calls() == [
        "nvidia-smi -i GPU-a -c DEFAULT",
        "nvidia-smi compute-policy -i GPU-a --set-timeslice 3",
        "nvidia-smi -i GPU-a -c EXCLUSIVE_PROCESS",
    ]


def test_the_error_contains_the_output_of_the_program(a100: Machine) -> None:
    (a100.root / "smi-fails").write_text("Failed to set policy\nInsufficient Permissions\n")

    async def fail(hardware: Hardware) -> None:
        with pytest.raises(
            HardwareError, match=r"GPU GPU-a: nvidia-smi .* exited with code 3: Insufficient Permissions"
        ):
            await hardware.set_compute_mode(PCI, "DEFAULT")
        with pytest.raises(GpuLost, match=r"0000:99:00\.0"):
            await hardware.set_time_slice("0000:99:00.0", 1)

    run_on_host(a100, fail)


def test_missing_programs_are_reported_with_the_searched_root(a100: Machine) -> None:
    (a100.root / "usr/bin/nvidia-smi").unlink()

    async def fail(hardware: Hardware) -> None:
        with pytest.raises(HardwareError, match=f"no nvidia-smi under {a100.root}"):
            await hardware.set_time_slice(PCI, 1)

    run_on_host(a100, fail)


def test_a_daemon_is_started_waited_for_limited_and_stopped(a100: Machine) -> None:
    folder = a100.roots.state / "mps/claim-1-abcde"

    async def use(hardware: Hardware) -> None:
        await hardware.start_mps(DAEMON)
        assert await hardware.mps_daemons() == {"claim-1-abcde"}
        assert sorted(path.name for path in folder.iterdir()) == ["log", "pipe", "shm"]
        edits = hardware.mps_edits("claim-1-abcde")
        assert edits.env == ("CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps",)
        assert [(mount.host_path, mount.container_path) for mount in edits.mounts] == [
            (str(folder / "shm"), "/dev/shm"),
            (str(folder / "pipe"), "/tmp/nvidia-mps"),
        ]
        await hardware.stop_mps("claim-1-abcde")
        await hardware.stop_mps("claim-1-abcde")
        assert await hardware.mps_daemons() == frozenset()

    run_on_host(a100, use)
    assert not folder.exists()
    calls = [call for call in a100.calls() if not call.startswith("nvidia-") and call != "command get_server_list"]
    assert calls == [
        f"mount -t tmpfs -o rw,nosuid,nodev,noexec,relatime,size=33554432 shm {folder / 'shm'}",
        "daemon of GPU-a",
        "command set_default_device_pinned_mem_limit GPU-a 5120M",
        "command set_default_active_thread_percentage 33",
        "command quit",
    ]


def test_a_running_daemon_is_not_started_again(a100: Machine) -> None:
    run_on_host(a100, lambda hardware: hardware.start_mps(DAEMON))
    # The driver was restarted; the daemon is still running.
    run_on_host(a100, lambda hardware: hardware.start_mps(DAEMON._replace(threads=50, multi_user=True)))
    assert a100.calls().count("daemon of GPU-a") == 1
    assert "command set_default_active_thread_percentage 50" in a100.calls()


def test_options_of_a_multi_user_daemon(a100: Machine) -> None:
    daemon = MpsDaemon("k", ("GPU-a", "MIG-b"), multi_user=True)
    run_on_host(a100, lambda hardware: hardware.start_mps(daemon))
    assert {"nvidia-cuda-mps-control -d -M", "daemon of GPU-a,MIG-b"} < set(a100.calls())
    assert not any("set_default" in call for call in a100.calls())


@pytest.mark.parametrize(
    ("switch", "message", "mps_timeout"),
    [
        ("mps-fails", "did not start: An instance of this daemon is already running", 30),
        ("mps-hangs", "did not start: no reason given", 0.2),
        ("mps-refuses", "set_default_device_pinned_mem_limit GPU-a 5120M: Invalid device", 30),
    ],
)
def test_a_daemon_that_does_not_start_leaves_nothing(
    a100: Machine, switch: str, message: str, mps_timeout: float
) -> None:
    (a100.root / switch).touch()

    async def fail(hardware: Hardware) -> None:
        with pytest.raises(HardwareError, match=f"MPS control daemon claim-1-abcde.*{message}"):
            await hardware.start_mps(DAEMON)
        assert await hardware.mps_daemons() == frozenset()

    run_on_host(a100, fail, mps_timeout=mps_timeout)
    assert not (a100.roots.state / "mps/claim-1-abcde").exists()


def test_a_daemon_that_does_not_quit_is_killed(a100: Machine) -> None:
    run_on_host(a100, lambda hardware: hardware.start_mps(DAEMON))
    (a100.root / "mps-stubborn").touch()
    # The pid was reused by another program.
    (a100.roots.state / "mps/claim-1-abcde/pipe/nvidia-cuda-mps-control.pid").write_text("1\n")
    run_on_host(a100, lambda hardware: hardware.stop_mps(DAEMON.key), mps_timeout=0.2)
    assert not (a100.roots.state / "mps/claim-1-abcde").exists()


def test_only_the_daemon_is_killed_even_if_a_container_changed_its_pid_file(a100: Machine) -> None:
    pipe = a100.roots.state / "mps/claim-1-abcde/pipe"

    async def stop(pipe_of_process: Path, hardware: Hardware) -> int:
        process = await asyncio.create_subprocess_exec("sleep", "60")
        proc_folder = a100.roots.proc / str(process.pid)
        proc_folder.mkdir()
        (proc_folder / "comm").write_text("nvidia-cuda-mps\n")
        (proc_folder / "environ").write_text(f"HOME=/\0CUDA_MPS_PIPE_DIRECTORY={pipe_of_process}\0")
        (pipe / "nvidia-cuda-mps-control.pid").write_text(f"{process.pid}\n")
        await hardware.stop_mps(DAEMON.key)
        # Not process.terminate(): it polls first, and may so take the exit status of a killed process from asyncio,
        # which then reports 255 (python/cpython#87744).
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        return await process.wait()

    for named, number in ((pipe.parents[1] / "claim-2-abcde/pipe", signal.SIGTERM), (pipe, signal.SIGKILL)):
        (a100.root / "mps-stubborn").unlink(missing_ok=True)
        run_on_host(a100, lambda hardware: hardware.start_mps(DAEMON))
        (a100.root / "mps-stubborn").touch()
        assert run_on_host(a100, partial(stop, named), mps_timeout=0.1) == -number


def test_clients_of_any_user_can_share_memory(a100: Machine) -> None:
    async def use(hardware: Hardware) -> None:
        await hardware.start_mps(DAEMON)
        assert (a100.roots.state / "mps/claim-1-abcde/shm").stat().st_mode & 0o7777 == 0o1777
        await hardware.stop_mps(DAEMON.key)

    run_on_host(a100, use)


def test_a_key_is_a_name_and_not_a_path(a100: Machine) -> None:
    async def fail(hardware: Hardware) -> None:
        for key in ("../../etc", "", "a/b", "."):
            with pytest.raises(HardwareError, match="expected only letters"):
                await hardware.stop_mps(key)

    run_on_host(a100, fail)
