"""The backend for simulated GPUs: the CPU draws, and the picture is finished when the GPU would have finished it.

The program reaches the GPU through a Unix socket; ``ALLOTMENT_GPU`` is ``<path>#<token>``. The GPU delays the program
for the time that its kernel would take on its share, alongside the other programs on the GPU.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any, Final

from gpu_fractal.drawing import Backend, Size, Tones, UnavailableError
from gpu_fractal.locations import View

_CONNECT_SECONDS: Final = 10.0
#: The maximum time that a GPU takes to notice that a program has left.
_RELEASE_SECONDS: Final = 5.0


class GpuError(Exception):
    """Raised for an error of the GPU; the message is CUDA's error name and its text."""


class SimulatedGpu:
    """A program's connection to its simulated GPU, for one thread. ``description`` is the GPU's data about itself."""

    def __init__(self, address: str, threads: int | None = None) -> None:
        """Connect. Raises UnavailableError if there is no GPU at the address, GpuError if it rejects the program."""
        path, _, token = address.rpartition("#")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_CONNECT_SECONDS)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise UnavailableError(f"no simulated GPU at {path}: {error.strerror or error}") from None
        self._lines = self._socket.makefile("rb")
        request: dict[str, Any] = {"open": token}
        self.description: Mapping[str, Any] = self.call(request if threads is None else request | {"threads": threads})
        self._socket.settimeout(None)

    def call(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request and wait for the response. Raises GpuError."""
        self.send(request)
        return self.receive()

    def send(self, request: Mapping[str, Any]) -> None:
        """Send a request; :meth:`receive` must follow. Raises GpuError if the GPU is gone."""
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            raise GpuError("CUDA_ERROR_DEVICE_UNAVAILABLE: the simulated GPU is gone") from None

    def receive(self) -> Mapping[str, Any]:
        """Wait for the response to the last request. Raises GpuError."""
        try:
            line = self._lines.readline()
        except (OSError, ValueError):  # ValueError: it was closed here
            line = b""
        if not line:
            raise GpuError("CUDA_ERROR_DEVICE_UNAVAILABLE: the simulated GPU is gone")
        response: Mapping[str, Any] = json.loads(line)
        if "error" in response:
            raise GpuError(f"{response['error']}: {response['message']}")
        return response

    def leave(self) -> None:
        """Leave the GPU and wait until it has noticed; then the device can be removed. Callable from any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_RELEASE_SECONDS)
            while self._socket.recv(1 << 16):  # discard remaining responses
                pass
        self.close()

    def close(self) -> None:
        """Leave the GPU; callable from any thread. A pending :meth:`receive` fails."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._lines.close()
        self._socket.close()


def simulated_backend(gpu: SimulatedGpu, renderer: Backend, work: float, breadth: int) -> Backend:
    """Draw with ``renderer`` at the speed of a GPU; a picture costs ``work`` on ``breadth`` multiprocessors."""

    def draw(view: View, size: Size, tones: Tones, palette: bytes) -> bytearray:
        gpu.send({"run": work, "width": breadth})
        pixels = renderer.draw(view, size, tones, palette)
        gpu.receive()
        return pixels

    return Backend("simulated", str(gpu.description["product"]), renderer.counts, draw)
