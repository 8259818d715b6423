"""Parses the seeds and the demand of a replay."""

from __future__ import annotations

import re
from typing import Final

from allotment.errors import InputError

#: Maximum number of seeds.
_MOST_SEEDS: Final = 1000
_MOST_SHARE: Final = 10

_SEEDS: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_SHARE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)%?")


def seeds_of(text: str) -> tuple[int, ...]:
    """Parse seeds: ``42-51`` or ``1,2,7``.

    >>> seeds_of("42-44,7")
    (42, 43, 44, 7)
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        match = _SEEDS.fullmatch(part.strip())
        if match is None:
            raise InputError(f"--seeds {text!r}: expected numbers and ranges", "for example 42-51 or 1,2,7")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InputError(f"--seeds {text!r}: {part.strip()} ends before it begins", f"did you mean {last}-{first}?")
        if last - first + len(found) >= _MOST_SEEDS:
            raise InputError(f"--seeds {text!r}: expected at most {_MOST_SEEDS:,} seeds")
        found.update(dict.fromkeys(range(first, last + 1)))
    return tuple(found)


def share_of(text: str) -> float:
    """Parse the total demand as a fraction of the GPUs.

    >>> share_of("130%"), share_of("95")
    (1.3, 0.95)
    """
    match = _SHARE.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 100 * _MOST_SHARE:
        raise InputError(
            f"--load {text!r}: expected a percentage of the GPUs, at most {100 * _MOST_SHARE} %", "for example 130%"
        )
    return float(match[1]) / 100
