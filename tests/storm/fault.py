"""A planted fault, which a storm must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Fault(NamedTuple):
    """``plant`` changes the process that calls it; ``noticed``: a part of the report, empty if there are several."""

    plant: Callable[[], None]
    noticed: str
