"""Amounts and values as people write them: ``80GB``, ``80 gb`` and ``40GiB``, of which Kubernetes accepts none, ``40``
for 40 GiB, and ``.string`` for the value of an attribute."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from allotment.model.quantity import Quantity, QuantityError

#: Bare numbers up to this one are GiB; from 2**20 on they are bytes.
_MAX_GIB: Final = 4096
#: Field names of typed values in slices, which are not part of a selector.
ACCESSORS: Final = frozenset({"string", "int", "bool", "version", "quantity", "value", "strings", "ints", "versions"})
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(i?)(b|bytes?|o)?\s*", re.IGNORECASE)


def intended_amount(written: str) -> str:
    """The quantity that a written amount stands for; empty if it is unclear.

    A unit that Kubernetes does not have stands for the one with the same prefix: GB are 10^9 bytes, as the vendors of
    cards count, and GiB are Gi.

    >>> [intended_amount(written) for written in ("80GB", "80 gb", "40GiB", "512KB", "80Gi")]
    ['80G', '80G', '40Gi', '512k', '80Gi']
    >>> intended_amount("40"), intended_amount("much")
    ('40', '')
    """
    if is_quantity(written):
        return written
    match = _SIZE.fullmatch(written)
    if match is None:
        return ""
    number, prefix, binary, _ = match.groups()
    unit = f"{prefix.upper()}i" if binary else prefix.upper().replace("K", "k")
    return f"{number}{unit}" if prefix or not binary else ""


def is_quantity(text: str) -> bool:
    """Whether a string is a quantity: Kubernetes accepts it."""
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


class QuantityGuess(NamedTuple):
    """A quantity, and whether no other one can be meant."""

    text: str
    is_certain: bool


def quantity_of_number(written: str, name: str) -> QuantityGuess | None:
    """The quantity that a bare number stands for as the value of a capacity.

    >>> quantity_of_number("40", "memory"), quantity_of_number("7", "shares")
    (QuantityGuess(text='40Gi', is_certain=False), QuantityGuess(text='7', is_certain=True))
    >>> quantity_of_number("42949672960", "memory")
    QuantityGuess(text='42949672960', is_certain=True)
    """
    if not is_quantity(written):
        return None
    if "memory" not in name.lower() or "slice" in name.lower():
        return QuantityGuess(written, True)
    number = float(written)
    if number >= 1 << 20:
        return QuantityGuess(written, True)
    return QuantityGuess(f"{written}{'Gi' if number <= _MAX_GIB else 'Mi'}", number == 0)
