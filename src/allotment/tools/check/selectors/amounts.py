"""Amounts as people write them, as quantities: ``40GB``, ``40 GiB``, 40."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from allotment.tools.check.selectors.operands import is_quantity

_WRITTEN: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?)(b|bytes?|o)?\s*", re.IGNORECASE)
#: A bare number up to here is a number of GiB; from 2**20 on it is one of bytes.
_MOST_GIB: Final = 4096


class Amount(NamedTuple):
    """A quantity, and whether it can be nothing else that was meant."""

    text: str
    certain: bool


def amount(written: str) -> Amount | None:
    """The quantity that a text means; None for none that could be guessed.

    >>> amount("40Gi"), amount("40GiB"), amount("40GB"), amount("80 gb"), amount("much")
    (Amount(text='40Gi', certain=True), Amount(text='40Gi', certain=True), Amount(text='40Gi', certain=False), \
Amount(text='80Gi', certain=False), None)
    """
    if is_quantity(written):
        return Amount(written, True)
    found = _WRITTEN.fullmatch(written)
    if found is None:
        return None
    number, prefix, binary, _ = found.groups()
    # GB on a card's box are GiB in its memory: drivers publish 40Gi of a card of 40 GB.
    text = f"{number}{prefix.upper()}i" if prefix else number
    return Amount(text, bool(binary) or not prefix) if is_quantity(text) else None


def amount_of_number(written: str, name: str) -> Amount | None:
    """The quantity that a bare number means as the value of a capacity.

    >>> amount_of_number("40", "memory"), amount_of_number("42949672960", "memory"), amount_of_number("7", "shares")
    (Amount(text='40Gi', certain=False), Amount(text='42949672960', certain=True), Amount(text='7', certain=True))
    """
    if not is_quantity(written):
        return None
    if "memory" not in name.lower() or "slice" in name.lower():
        return Amount(written, True)
    number = float(written)
    if number >= 1 << 20:
        return Amount(written, True)
    return Amount(f"{written}{'Gi' if number <= _MOST_GIB else 'Mi'}", number == 0)
