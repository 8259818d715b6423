"""The fake NVML, compiled and installed under a driver root, and its controls."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from ctypes import CDLL, c_char_p, c_uint, c_ulonglong
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake.c")

A100, T4, H100 = 0, 1, 2


def compiled(folder: Path) -> Path:
    """Compile the library; skips the test with a message if there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("NOT TESTED: NVML, because there is no C compiler to build the fake library")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O0", "-Wall", "-Werror", "-o", str(library), str(SOURCE)], check=True
    )
    return library


def preset(folder: Path, gpus: Iterable[tuple[int, int, str, bool]]) -> dict[str, str]:
    """The environment in which a process finds these GPUs: model, bus, UUID, and whether MIG is enabled.

    Its changes to them are stored in a file of ``folder``, where the next process finds them.
    """
    state = folder / "nvml"
    state.write_text("".join(f"gpu {model} {bus} {uuid} {int(mig)}\n" for model, bus, uuid, mig in gpus))
    return {"FAKE_NVML_STATE": str(state)}


def instances(variables: Mapping[str, str]) -> frozenset[str]:
    """UUIDs of the existing MIG devices that processes created, ``-`` for incomplete ones."""
    lines = Path(variables["FAKE_NVML_STATE"]).read_text().splitlines()
    return frozenset(line.split(" ")[-1] for line in lines if line.startswith("instance "))


class Fake:
    """The controls of one loaded library: its GPUs, and injected failures."""

    def __init__(self, path: Path) -> None:
        self._library = CDLL(str(path))

    def gpu(self, model: int, bus: int, uuid: str, *, mig: bool = False) -> None:
        """Add a GPU at ``0000:<bus>:00.0``."""
        self._library.fake_gpu(model, c_uint(bus), c_char_p(uuid.encode()), int(mig))

    def clear(self) -> None:
        """Remove all GPUs."""
        self._library.fake_clear()

    def old_driver(self) -> None:
        """Support only the functions of drivers of 2020."""
        self._library.fake_old_driver(1)

    def absent(self, yes: bool = True) -> None:
        """Unload the kernel module."""
        self._library.fake_driver_absent(int(yes))

    def fail_compute(self, times: int) -> None:
        """Let the creation of the next compute instances fail."""
        self._library.fake_fail_compute(times)

    def fail_destroy(self, times: int) -> None:
        """Let the destruction of the next GPU instances fail."""
        self._library.fake_fail_destroy(times)

    def xid(self, gpu: int, number: int) -> None:
        """Report a critical event."""
        self._library.fake_xid(c_uint(gpu), c_ulonglong(number))

    def fall_off_bus(self, gpu: int) -> None:
        """Let a GPU fall off the bus."""
        self._library.fake_lose(c_uint(gpu))

    def coherent(self, gpu: int) -> None:
        """Make a GPU's memory part of the CPU's."""
        self._library.fake_coherent(c_uint(gpu))

    def fabric(self, gpu: int, clique: int) -> None:
        """Put a GPU into a multi-node NVLink domain."""
        self._library.fake_fabric(c_uint(gpu), c_uint(clique))

    def mig_mode(self, gpu: int) -> bool:
        """Whether MIG is enabled."""
        return bool(self._library.fake_mig_mode(c_uint(gpu)))

    def instances(self, gpu: int) -> int:
        """The number of GPU instances, incomplete ones included."""
        return int(self._library.fake_instances(c_uint(gpu)))

    def registered(self, gpu: int) -> bool:
        """Whether a client registered for the GPU's critical events."""
        return bool(self._library.fake_registered(c_uint(gpu)))

    def started(self) -> int:
        """The number of clients that started NVML and did not stop it."""
        return int(self._library.fake_started())
