"""The application without its sockets: what it answers to each path.

>>> site = Site({"WIDTH": "64", "HEIGHT": "40", "SAMPLES": "1", "FORCE_CPU": "true"})
>>> status, kind, body = site.respond("/image.png")
>>> status, kind, body[1:4]
(200, 'image/png', b'PNG')
>>> site.close()

A picture is drawn when :meth:`Site.refresh` is called, or when somebody asks for one and the last is older than the
interval. Whoever has no process to run the application in, such as a simulated container, thus pays only for pictures
that are looked at.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gpu_fractal.about import About
from gpu_fractal.backends import choose
from gpu_fractal.drawing import Unavailable
from gpu_fractal.on_simulation import Refused, SimulatedGpu
from gpu_fractal.page import PAGE
from gpu_fractal.settings import Settings, Unreadable, settings_of
from gpu_fractal.studio import Picture, Studio

#: What can go wrong with what the application was given; each has a text for people.
TROUBLES: Final = (Unreadable, Unavailable, Refused)

#: So many pictures are looked at for how many there are in a minute.
_RECENT: Final = 30

_TEXT: Final = "text/plain; charset=utf-8"


class Response(NamedTuple):
    """An answer: HTTP status, content type, body."""

    status: int
    content_type: str
    body: bytes


class Site:
    """The application. May be used by several threads; a call that draws takes its time (up to seconds).

    ``about``: what pictures say of the device, where that is known better than by looking. ``on_demand``: draw a new
    picture when somebody asks; otherwise only :meth:`refresh` does, but for the first.
    """

    def __init__(self, environment: Mapping[str, str], about: About | None = None, *, on_demand: bool = True) -> None:
        """Nothing is read or opened yet, so that this never fails; :meth:`open` does."""
        self._environment = dict(environment)
        self._about = about
        self._on_demand = on_demand
        self._lock = threading.Lock()
        self._door = threading.Lock()  # held while the device is taken
        self._settings = Settings()
        self._studio: Studio | None = None
        self._gpu: SimulatedGpu | None = None
        self._closed = False
        self._backend = ""
        self._picture: Picture | None = None
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._began = time.monotonic()

    def open(self) -> Settings:
        """Read the settings and take the device. Twice is once. Raises one of TROUBLES."""
        with self._lock:
            self._open()
            return self._settings

    def refresh(self) -> Picture:
        """Draw the next picture. Raises one of TROUBLES."""
        with self._lock:
            return self._drawn()

    def close(self) -> None:
        """Leave the device, for good; waits for nobody, and who waits for a picture is told."""
        self._closed = True
        if self._gpu is not None:
            self._gpu.close()

    def leave(self) -> None:
        """As :meth:`close`, but returns when the device is free: a simulated one takes a moment to notice."""
        self._closed = True
        with self._door:  # who is about to take it is waited for, too
            if self._gpu is not None:
                self._gpu.leave()

    def respond(self, path: str) -> Response:
        """The answer to a GET."""
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
        except TROUBLES as trouble:
            return Response(503, _TEXT, f"{trouble}\n".encode())
        return Response(404, _TEXT, b"There are /, /image.png, /stats and /healthz.\n")

    def stats(self) -> dict[str, Any]:
        """How many pictures, how fast, on what. ``seconds``: the mean time the device took for the last ones.

        ``per_minute`` counts from picture to picture, and so with pauses; 0 before the second.
        """
        picture = self._current() if self._on_demand else self._picture
        about = self._about or About("")
        recent = list(self._recent)
        passed = recent[-1] - recent[0] if len(recent) > 1 else 0.0
        return {
            "images": picture.number if picture else 0,
            "seconds": round(picture.seconds, 4) if picture else 0.0,
            "per_minute": round(60 * (len(recent) - 1) / passed, 2) if passed else 0.0,
            "interval": self._settings.interval,
            "device": about.device,
            "share": about.share,
            "strategy": about.strategy,
            "backend": self._backend,
            "place": picture.view.place if picture else "",
            "zoom": round(picture.view.zoom) if picture else 0,
            "scheme": picture.scheme.name if picture else "",
            "seed": self._settings.seed,
            "uptime": round(time.monotonic() - self._began, 1),
        }

    def _current(self) -> Picture:
        """The newest picture; nobody waits for the next one while there is one that will do."""
        if self._picture is None or self._is_old(self._picture):
            with self._lock:
                if self._picture is None or self._is_old(self._picture):
                    return self._drawn()
        return self._picture

    def _is_old(self, picture: Picture) -> bool:
        return self._on_demand and time.monotonic() - picture.drawn >= self._settings.interval

    def _open(self) -> Studio:
        if self._studio is None:
            self._settings = settings_of(self._environment)
            with self._door:
                self._refuse_if_closed()
                backend, about, self._gpu = choose(self._settings)
                if self._closed and self._gpu is not None:  # meanwhile
                    self._gpu.leave()
            self._about = self._about or about
            self._backend = backend.name
            self._studio = Studio(backend, self._about, self._settings.size, self._settings.seed)
        return self._studio

    def _drawn(self) -> Picture:
        self._refuse_if_closed()
        self._picture = self._open().draw()
        self._recent.append(self._picture.drawn)
        return self._picture

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise Refused("the application has ended")
