"""Where it is worth looking: places on the edge of the Mandelbrot set, and how far to go in at each."""

from __future__ import annotations

import math
from random import Random
from typing import Final, NamedTuple


class View(NamedTuple):
    """A part of the complex plane: its centre, its width, and after how many steps a point counts as inside."""

    place: str
    x: float
    y: float
    width: float
    limit: int

    @property
    def zoom(self) -> float:
        """How much larger than in a picture of the whole set."""
        return WHOLE / self.width


class _Place(NamedTuple):
    name: str
    x: float
    y: float
    widest: float
    narrowest: float


#: The width of a picture of the whole set.
WHOLE: Final = 3.6

_PLACES: Final = (
    _Place("seahorse valley", -0.743643887037151, 0.131825904205330, 8e-3, 2e-5),
    _Place("double spiral", -0.7453, 0.1127, 9e-3, 6e-4),
    _Place("elephant valley", 0.2925755, 0.0149977, 2e-2, 8e-4),
    _Place("triple spiral", -0.0880, 0.6565, 1e-2, 3e-3),
    _Place("scepter", -1.25066, 0.02012, 4e-3, 2e-4),
    _Place("crossroads", -0.10109636384562, 0.95628651080914, 5e-2, 1e-5),
    _Place("whirl", -0.77568377, 0.13646737, 4e-3, 1e-6),
    _Place("island", -1.7548776662466927, 0.0, 1e-1, 5.5e-2),
    _Place("northern island", -0.15652016683375, 1.03224710892283, 5e-2, 2.6e-2),
    _Place("lightning", -1.315180982097868, 0.073481649996795, 8e-3, 2e-7),
    _Place("spiral arm", -0.761574, -0.0847596, 4e-3, 1e-3),
    _Place("curl", 0.3602404434376144, -0.6413130610648032, 3e-3, 1e-6),
)


def anywhere(dice: Random) -> View:
    """A view at random: a place, a depth that is as likely deep as wide, and a little to the side."""
    place = dice.choice(_PLACES)
    width = math.exp(dice.uniform(math.log(place.narrowest), math.log(place.widest)))
    x, y = (at + dice.uniform(-0.12, 0.12) * width for at in (place.x, place.y))
    return View(place.name, x, y, width, limit_for(width))


def limit_for(width: float) -> int:
    """How many steps to wait for points to escape: the deeper, the longer they stay.

    >>> limit_for(WHOLE), limit_for(WHOLE / 1000)
    (250, 1150)
    """
    return round(250 + 300 * max(math.log10(WHOLE / width), 0.0))


def names() -> tuple[str, ...]:
    """The places."""
    return tuple(place.name for place in _PLACES)
