"""Limits for the number of series and for label values, independent of what drivers and users write."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from allotment.exporter.definitions import DROPPED
from allotment.exporter.metric import Family, Sample

#: Default maximum number of series of one metric.
MAX_SERIES: Final = 50_000
#: Maximum length in characters of a label value that a driver or a user chose.
_MAX_LABEL_LENGTH: Final = 128
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]+")


def label(text: str) -> str:
    r"""Return a text as a label value: on one line, of limited length.

    >>> label("Tesla\nT4 ")
    'Tesla T4'
    """
    plain = _CONTROL.sub(" ", text).strip()
    return plain if len(plain) <= _MAX_LABEL_LENGTH else f"{plain[: _MAX_LABEL_LENGTH - 1]}…"


def limit_series(families: Iterable[Family], max_series: int) -> tuple[Family, ...]:
    """Return the first ``max_series`` series of each metric, and the number of dropped series by metric."""
    kept: list[Family] = []
    dropped: list[Sample] = []
    for family in families:
        over = len(family.samples) - max_series
        if over > 0:
            family = Family(family.metric, family.samples[:max_series])
            dropped.append(Sample((family.metric.name,), over))
        kept.append(family)
    return (*kept, Family(DROPPED, dropped))
