"""The application without sockets: the response to each path.

>>> site = Site({"WIDTH": "64", "HEIGHT": "40", "SAMPLES": "1", "FORCE_CPU": "true"})
>>> status, kind, body = site.respond("/image.png")
>>> status, kind, body[1:4]
(200, 'image/png', b'PNG')
>>> site.close()

A picture is drawn when :meth:`Site.refresh` is called, or on request if the last one is older than the interval. A
simulated container, which has no process for the application, thus draws only the pictures that are requested.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gpu_fractal.backends import choose_backend
from gpu_fractal.device_info import DeviceInfo
from gpu_fractal.drawing import UnavailableError
from gpu_fractal.on_simulation import GpuError, SimulatedGpu
from gpu_fractal.page import PAGE
from gpu_fractal.picture_generator import Picture, PictureGenerator
from gpu_fractal.settings import SettingError, Settings, settings_of

#: Errors of the application's settings and device; their messages are for users.
ERRORS: Final = (SettingError, UnavailableError, GpuError)

#: The number of recent pictures from which the rate per minute is computed.
_RECENT_PICTURES: Final = 30

_TEXT: Final = "text/plain; charset=utf-8"


class Response(NamedTuple):
    """A response: HTTP status, content type, body."""

    status: int
    content_type: str
    body: bytes


class Site:
    """The application. Safe for use by several threads; a call that draws can take seconds.

    ``about``: the device in captions, if it cannot be detected. ``on_demand``: draw a new picture on request; otherwise
    only :meth:`refresh` draws, except for the first picture.
    """

    def __init__(
        self, environment: Mapping[str, str], about: DeviceInfo | None = None, *, on_demand: bool = True
    ) -> None:
        """Create the application; :meth:`open` reads the settings and opens the device."""
        self._environment = dict(environment)
        self._about = about
        self._on_demand = on_demand
        self._lock = threading.Lock()
        self._device_lock = threading.Lock()  # held while the device is opened
        self._settings = Settings()
        self._generator: PictureGenerator | None = None
        self._gpu: SimulatedGpu | None = None
        self._closed = False
        self._backend = ""
        self._picture: Picture | None = None
        self._recent: deque[float] = deque(maxlen=_RECENT_PICTURES)
        self._started = time.monotonic()

    def open(self) -> Settings:
        """Read the settings and open the device, unless it is open. Raises one of ERRORS."""
        with self._lock:
            self._open()
            return self._settings

    def refresh(self) -> Picture:
        """Draw the next picture. Raises one of ERRORS."""
        with self._lock:
            return self._draw_next()

    def close(self) -> None:
        """Close the device permanently, without waiting; pending requests fail."""
        self._closed = True
        if self._gpu is not None:
            self._gpu.close()

    def leave(self) -> None:
        """Close the device permanently, and return when it is free: a simulated one takes a moment to notice."""
        self._closed = True
        with self._device_lock:  # also waits for a thread that is opening the device
            if self._gpu is not None:
                self._gpu.leave()

    def respond(self, path: str) -> Response:
        """Return the response to a GET."""
        path = path.partition("?")[0]
        try:
            if path == "/":
                return Response(200, "text/html; charset=utf-8", PAGE.encode())
            if path == "/image.png":
                return Response(200, "image/png", self._current().png)
            if path == "/healthz":
                return Response(200, _TEXT, b"ok\n")
            if path == "/stats":
                return Response(200, "application/json", json.dumps(self.stats(), indent=2).encode() + b"\n")
        except ERRORS as error:
            return Response(503, _TEXT, f"{error}\n".encode())
        return Response(404, _TEXT, b"not found; available: /, /image.png, /stats, /healthz\n")

    def stats(self) -> dict[str, Any]:
        """Return the number of pictures, their rate, and the device. ``seconds``: the time for the last picture.

        ``per_minute`` includes pauses between pictures; 0 before the second one.
        """
        picture = self._current() if self._on_demand else self._picture
        about = self._about or DeviceInfo("")
        recent = list(self._recent)
        elapsed = recent[-1] - recent[0] if len(recent) > 1 else 0.0
        return {
            "images": picture.number if picture else 0,
            "seconds": round(picture.seconds, 4) if picture else 0.0,
            "per_minute": round(60 * (len(recent) - 1) / elapsed, 2) if elapsed else 0.0,
            "interval": self._settings.interval,
            "device": about.device,
            "share": about.share,
            "strategy": about.strategy,
            "backend": self._backend,
            "place": picture.view.place if picture else "",
            "zoom": round(picture.view.zoom) if picture else 0,
            "scheme": picture.scheme.name if picture else "",
            "seed": self._settings.seed,
            "uptime": round(time.monotonic() - self._started, 1),
        }

    def _current(self) -> Picture:
        """Return the latest picture; draws the next one only if it is too old."""
        if self._picture is None or self._is_old(self._picture):
            with self._lock:
                if self._picture is None or self._is_old(self._picture):
                    return self._draw_next()
        return self._picture

    def _is_old(self, picture: Picture) -> bool:
        return self._on_demand and time.monotonic() - picture.drawn >= self._settings.interval

    def _open(self) -> PictureGenerator:
        if self._generator is None:
            self._settings = settings_of(self._environment)
            with self._device_lock:
                self._check_open()
                backend, about, self._gpu = choose_backend(self._settings)
                if self._closed and self._gpu is not None:  # closed in the meantime
                    self._gpu.leave()
            self._about = self._about or about
            self._backend = backend.name
            self._generator = PictureGenerator(backend, self._about, self._settings.size, self._settings.seed)
        return self._generator

    def _draw_next(self) -> Picture:
        self._check_open()
        self._picture = self._open().draw()
        self._recent.append(self._picture.drawn)
        return self._picture

    def _check_open(self) -> None:
        if self._closed:
            raise GpuError("the application has ended")
