"""Drawing on a simulated GPU: the processor draws, and the picture is done when the GPU would have been.

The GPU is at the other end of a unix socket; ``ALLOTMENT_GPU`` is ``<path>#<token>``. It makes the program wait for as
long as its kernel would take on its share, beside whoever else computes there.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any, Final

from gpu_fractal.drawing import Backend, Size, Tones, Unavailable
from gpu_fractal.places import View

_DIAL_SECONDS: Final = 10.0
#: So long a GPU may take to notice that a program has left.
_LEAVE_SECONDS: Final = 5.0


class Refused(Exception):
    """The GPU refused; the text is CUDA's name of the error and what it says."""


class SimulatedGpu:
    """A program's connection to its simulated GPU, for one thread. ``described`` is what the GPU says of itself."""

    def __init__(self, address: str, threads: int | None = None) -> None:
        """Open it. Raises Unavailable when nobody answers, Refused when it may not be used."""
        path, _, token = address.rpartition("#")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_DIAL_SECONDS)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise Unavailable(f"no simulated GPU at {path}: {error.strerror or error}") from None
        self._lines = self._socket.makefile("rb")
        asked: dict[str, Any] = {"open": token}
        self.described: Mapping[str, Any] = self.ask(asked if threads is None else asked | {"threads": threads})
        self._socket.settimeout(None)

    def ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request and wait for the answer. Raises Refused."""
        self.send(request)
        return self.receive()

    def send(self, request: Mapping[str, Any]) -> None:
        """Send a request; :meth:`receive` must follow. Raises Refused when the GPU is gone."""
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            raise Refused("CUDA_ERROR_DEVICE_UNAVAILABLE: the simulated GPU is gone") from None

    def receive(self) -> Mapping[str, Any]:
        """Wait for the answer to what was sent. Raises Refused."""
        try:
            line = self._lines.readline()
        except (OSError, ValueError):  # ValueError: it was closed here
            line = b""
        if not line:
            raise Refused("CUDA_ERROR_DEVICE_UNAVAILABLE: the simulated GPU is gone")
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise Refused(f"{answer['error']}: {answer['message']}")
        return answer

    def leave(self) -> None:
        """Leave the GPU and wait until it has noticed: from then on the device may be taken away. From any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_LEAVE_SECONDS)
            while self._socket.recv(1 << 16):  # answers that nobody wants any more
                pass
        self.close()

    def close(self) -> None:
        """Leave the GPU; from any thread. Whoever waits for an answer gets none."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._lines.close()
        self._socket.close()


def simulated_backend(gpu: SimulatedGpu, by: Backend, work: float, breadth: int) -> Backend:
    """Drawing by ``by``, as fast as a GPU to which a picture is so much work on so many multiprocessors."""

    def draw(view: View, size: Size, tones: Tones, palette: bytes) -> bytearray:
        gpu.send({"run": work, "width": breadth})
        pixels = by.draw(view, size, tones, palette)
        gpu.receive()
        return pixels

    return Backend("simulated", str(gpu.described["product"]), by.counts, draw)
