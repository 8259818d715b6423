"""How reasons put numbers, devices and holders into words."""

from __future__ import annotations

from allotment.engine.diagnosis.holders import Holder
from allotment.engine.diagnosis.view import Seen
from allotment.model.quantity import Quantity


def plural(count: int, one: str, more: str = "") -> str:
    """A number with its noun."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def named(devices: tuple[Seen, ...], most: int = 3) -> str:
    """The first few device names."""
    names = [s.name for s in devices]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def listed(holders: list[Holder], most: int = 3) -> str:
    """The first few holders."""
    named = ", ".join(str(h) for h in holders[:most])
    return named + (f" and {len(holders) - most} more claims" if len(holders) > most else "")


def amount_text(nano: int) -> str:
    """Nano units as a quantity."""
    whole, rest = divmod(nano, 10**9)
    if rest:
        return str(Quantity.parse(f"{nano}n"))
    return str(Quantity.binary(whole))
