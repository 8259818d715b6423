"""Rounding of quantities to the precision of the API."""

from __future__ import annotations

import functools
from typing import Any, Final

from allotment.model.quantity import Quantity, QuantityError

Amounts = dict[str, Any]

_MILLI: Final = 10**6


@functools.lru_cache(4096)
def _rounded(text: str) -> str:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return text
    if quantity.nano % _MILLI == 0:
        return text
    # Rounds away from zero, as Go does.
    millis = -(-abs(quantity.nano) // _MILLI) * quantity.sign()
    return str(Quantity.parse(f"{millis}m"))


def round_up(amounts: Amounts) -> Amounts:
    """Resource amounts, rounded up to a thousandth."""
    for value in amounts.values():
        text = value if type(value) is str else str(value)
        if _rounded(text) != text:
            return {name: _rounded(item if type(item) is str else str(item)) for name, item in amounts.items()}
    return amounts
