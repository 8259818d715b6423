"""The fake NVML, compiled and installed under a driver root, and its switches."""

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
    """The library; skips the test, loudly, where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("NOT TESTED: NVML, for there is no C compiler to make a stand-in with")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O0", "-Wall", "-Werror", "-o", str(library), str(SOURCE)], check=True
    )
    return library


def preset(folder: Path, gpus: Iterable[tuple[int, int, str, bool]]) -> dict[str, str]:
    """What a process needs in its environment to find these GPUs: model, bus, UUID, and whether MIG is on.

    What it sets and makes on them is kept in a file of ``folder``, where the next process finds it.
    """
    state = folder / "nvml"
    state.write_text("".join(f"gpu {model} {bus} {uuid} {int(mig)}\n" for model, bus, uuid, mig in gpus))
    return {"FAKE_NVML_STATE": str(state)}


def instances(variables: Mapping[str, str]) -> frozenset[str]:
    """UUIDs of the MIG devices that processes made there, and did not destroy; empty ones are half made."""
    lines = Path(variables["FAKE_NVML_STATE"]).read_text().splitlines()
    return frozenset(line.split(" ")[-1] for line in lines if line.startswith("instance "))


class Fake:
    """The switches of one loaded copy: what GPUs there are, and what goes wrong."""

    def __init__(self, path: Path) -> None:
        self._library = CDLL(str(path))

    def gpu(self, model: int, bus: int, uuid: str, *, mig: bool = False) -> None:
        """Put a GPU in, at ``0000:<bus>:00.0``."""
        self._library.fake_gpu(model, c_uint(bus), c_char_p(uuid.encode()), int(mig))

    def clear(self) -> None:
        """Take all GPUs out."""
        self._library.fake_clear()

    def old_driver(self) -> None:
        """From now on only what drivers of 2020 knew."""
        self._library.fake_old_driver(1)

    def absent(self, yes: bool = True) -> None:
        """The kernel module is not loaded."""
        self._library.fake_driver_absent(int(yes))

    def fail_compute(self, times: int) -> None:
        """The next compute instances cannot be made."""
        self._library.fake_fail_compute(times)

    def fail_destroy(self, times: int) -> None:
        """The next GPU instances cannot be destroyed."""
        self._library.fake_fail_destroy(times)

    def xid(self, gpu: int, number: int) -> None:
        """A critical event."""
        self._library.fake_xid(c_uint(gpu), c_ulonglong(number))

    def lose(self, gpu: int) -> None:
        """A GPU falls off the bus."""
        self._library.fake_lose(c_uint(gpu))

    def coherent(self, gpu: int) -> None:
        """A GPU whose memory is the CPU's, too."""
        self._library.fake_coherent(c_uint(gpu))

    def fabric(self, gpu: int, clique: int) -> None:
        """A GPU of a multi-node NVLink domain."""
        self._library.fake_fabric(c_uint(gpu), c_uint(clique))

    def mig_mode(self, gpu: int) -> bool:
        """Whether MIG is on."""
        return bool(self._library.fake_mig_mode(c_uint(gpu)))

    def instances(self, gpu: int) -> int:
        """GPU instances there are, whole or half made."""
        return int(self._library.fake_instances(c_uint(gpu)))

    def registered(self, gpu: int) -> bool:
        """Whether somebody wants to know of its critical events."""
        return bool(self._library.fake_registered(c_uint(gpu)))

    def started(self) -> int:
        """How often NVML is started and not stopped."""
        return int(self._library.fake_started())
