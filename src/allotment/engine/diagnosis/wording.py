"""How reasons put numbers, devices and holders into words."""

from __future__ import annotations

from allotment.engine.diagnosis.holders import Holder, among
from allotment.engine.diagnosis.visible_devices import Seen
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
    return named + (f" and {plural(len(holders) - most, 'more claim')}" if len(holders) > most else "")


def freed(holders: list[Holder]) -> str:
    """What has to end before these claims are free again.

    >>> freed([Holder("ml/a", ("a-0",)), Holder("ml/b", ("b-0", "b-1"))])
    'wait for pods a-0, b-0, b-1 to end (claims ml/a, ml/b)'
    >>> freed([Holder("ml/a")])
    'free claim ml/a'
    """
    pods = tuple(dict.fromkeys(pod for one in holders for pod in one.pods))
    claims = f"claim{'s' * (len(holders) > 1)} {', '.join(one.claim for one in holders)}"
    if not all(one.pods for one in holders):
        return f"free {claims}"
    return f"wait for {among('pod', pods)} to end ({claims})"


def amount_text(nano: int) -> str:
    """Nano units as a quantity."""
    whole, rest = divmod(nano, 10**9)
    if rest:
        return str(Quantity.parse(f"{nano}n"))
    return str(Quantity.binary(whole))
