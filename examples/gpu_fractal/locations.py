"""Interesting locations on the boundary of the Mandelbrot set, each with its range of zoom."""

from __future__ import annotations

import math
from random import Random
from typing import Final, NamedTuple


class View(NamedTuple):
    """A part of the complex plane: its centre, its width, and the number of steps after which a point is inside."""

    place: str
    x: float
    y: float
    width: float
    limit: int

    @property
    def zoom(self) -> float:
        """The magnification relative to a picture of the whole set."""
        return WHOLE / self.width


class _Location(NamedTuple):
    name: str
    x: float
    y: float
    widest: float
    narrowest: float


#: The width of a picture of the whole set.
WHOLE: Final = 3.6

_LOCATIONS: Final = (
    _Location("seahorse valley", -0.743643887037151, 0.131825904205330, 8e-3, 2e-5),
    _Location("double spiral", -0.7453, 0.1127, 9e-3, 6e-4),
    _Location("elephant valley", 0.2925755, 0.0149977, 2e-2, 8e-4),
    _Location("triple spiral", -0.0880, 0.6565, 1e-2, 3e-3),
    _Location("scepter", -1.25066, 0.02012, 4e-3, 2e-4),
    _Location("crossroads", -0.10109636384562, 0.95628651080914, 5e-2, 1e-5),
    _Location("whirl", -0.77568377, 0.13646737, 4e-3, 1e-6),
    _Location("island", -1.7548776662466927, 0.0, 1e-1, 5.5e-2),
    _Location("northern island", -0.15652016683375, 1.03224710892283, 5e-2, 2.6e-2),
    _Location("lightning", -1.315180982097868, 0.073481649996795, 8e-3, 2e-7),
    _Location("spiral arm", -0.761574, -0.0847596, 4e-3, 1e-3),
    _Location("curl", 0.3602404434376144, -0.6413130610648032, 3e-3, 1e-6),
)


def random_view(random: Random) -> View:
    """Return a random view: a location, a log-uniform width, and a small offset."""
    location = random.choice(_LOCATIONS)
    width = math.exp(random.uniform(math.log(location.narrowest), math.log(location.widest)))
    x, y = (coordinate + random.uniform(-0.12, 0.12) * width for coordinate in (location.x, location.y))
    return View(location.name, x, y, width, limit_for(width))


def limit_for(width: float) -> int:
    """Return the maximum number of steps for a width: narrower views need more steps.

    >>> limit_for(WHOLE), limit_for(WHOLE / 1000)
    (250, 1150)
    """
    return round(250 + 300 * max(math.log10(WHOLE / width), 0.0))


def location_names() -> tuple[str, ...]:
    """Return the names of the locations."""
    return tuple(place.name for place in _LOCATIONS)
