"""How reasons put numbers, devices and holders into words."""

from __future__ import annotations

from allotment.engine.diagnosis.holders import Holder, among
from allotment.engine.diagnosis.visible_devices import Seen
from allotment.model.quantity import Quantity
from allotment.phrases import first_few


def named(devices: tuple[Seen, ...], most: int = 3) -> str:
    """The first few device names."""
    return first_few([device.name for device in devices], most)


def holding(holders: list[Holder]) -> str:
    """The first few holders."""
    return first_few([str(holder) for holder in holders], noun="claim")


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
