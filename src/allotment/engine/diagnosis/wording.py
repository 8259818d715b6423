"""Texts of devices, holders and amounts in reasons."""

from __future__ import annotations

from allotment.engine.diagnosis.holders import ClaimHolder, kind_and_names
from allotment.engine.diagnosis.reader import other_claims
from allotment.engine.diagnosis.visible_devices import VisibleDevice
from allotment.model.quantity import Quantity
from allotment.phrases import first_few


def device_names(devices: tuple[VisibleDevice, ...], most: int = 3) -> str:
    """The first few device names as a list."""
    return first_few([device.name for device in devices], most)


def holder_names(holders: list[ClaimHolder]) -> str:
    """The first few holders as a list, and the number of those that the reader may not see.

    >>> hidden = ClaimHolder("other/x", ("p",), is_hidden=True)
    >>> holder_names([ClaimHolder("ml/a", ("a-0",)), hidden])
    'claim ml/a (pod a-0), and 1 claim of another namespace'
    >>> holder_names([hidden])
    '1 claim of another namespace'
    """
    visible = [str(holder) for holder in holders if not holder.is_hidden]
    names = first_few(visible, noun="claim")
    hidden = len(holders) - len(visible)
    return ", and ".join([*([names] if visible else ()), *([other_claims(hidden)] if hidden else ())])


def freeing_text(holders: list[ClaimHolder]) -> str:
    """The instruction to release these claims; for those that the reader may not see, to wait.

    >>> freeing_text([ClaimHolder("ml/a", ("a-0",)), ClaimHolder("ml/b", ("b-0", "b-1"))])
    'wait for pods a-0, b-0, b-1 to finish (claims ml/a, ml/b)'
    >>> freeing_text([ClaimHolder("ml/a")])
    'release claim ml/a'
    >>> freeing_text([ClaimHolder("ml/a", ("a-0",)), ClaimHolder("other/x", is_hidden=True)])
    'wait for pod a-0 to finish (claim ml/a), and for 1 claim of another namespace to be released'
    """
    hidden = sum(holder.is_hidden for holder in holders)
    if hidden:
        others = f"for {other_claims(hidden)} to be released"
        own = freeing_text([holder for holder in holders if not holder.is_hidden]) if hidden < len(holders) else ""
        if not own.startswith("wait "):
            others = f"wait {others}"
        return f"{own}, and {others}" if own else others
    pods = tuple(dict.fromkeys(pod for holder in holders for pod in holder.pods))
    claims = f"claim{'s' * (len(holders) > 1)} {', '.join(holder.claim for holder in holders)}"
    if not all(holder.pods for holder in holders):
        return f"release {claims}"
    return f"wait for {kind_and_names('pod', pods)} to finish ({claims})"


def amount_text(nano: int) -> str:
    """An amount in nano units as a quantity."""
    whole, rest = divmod(nano, 10**9)
    if rest:
        return str(Quantity.parse(f"{nano}n"))
    return str(Quantity.binary(whole))
