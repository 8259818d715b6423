"""How many series there may be and what labels may hold, whatever drivers and users write."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from allotment.exporter.definitions import DROPPED
from allotment.exporter.metric import Family, Sample

#: Series of one metric, unless somebody says otherwise.
MOST_SERIES: Final = 50_000
#: Characters of a label's value that a driver or a user chose.
_LONGEST: Final = 128
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]+")


def label(text: str) -> str:
    r"""A text as a label's value: on one line, of bounded length.

    >>> label("Tesla\nT4 ")
    'Tesla T4'
    """
    plain = _CONTROL.sub(" ", text).strip()
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"


def bounded(families: Iterable[Family], most: int) -> tuple[Family, ...]:
    """The first ``most`` series of each metric, and how many of each metric are dropped."""
    kept: list[Family] = []
    dropped: list[Sample] = []
    for family in families:
        over = len(family.samples) - most
        if over > 0:
            family = Family(family.metric, family.samples[:most])
            dropped.append(Sample((family.metric.name,), over))
        kept.append(family)
    return (*kept, Family(DROPPED, dropped))
