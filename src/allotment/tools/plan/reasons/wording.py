"""How prices, names and numbers of a plan are written, wherever they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

from allotment.phrases import counted
from allotment.tools.plan.reasons.machine_layout import GpuPart
from allotment.tools.plan.report import PodPlacement, ProvisioningPlan

_ORDINAL = re.compile(r"(?P<stem>.*?)-?(?P<number>[0-9]+)")


def dollars(price: Decimal | None, rounding: str = ROUND_HALF_UP) -> str:
    """A price per hour as people read it; what is not known is said so.

    >>> dollars(Decimal("1.006")), dollars(Decimal("3.6730")), dollars(Decimal("131.44444")), dollars(None)
    ('1.006', '3.673', '131.44', 'unknown')
    """
    if price is None:
        return "unknown"
    places = "0.001" if price < 100 else "0.01"
    text = f"{price.quantize(Decimal(places), rounding):f}"
    whole, _, rest = text.partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def plan_summary(plan: ProvisioningPlan) -> str:
    """How many machines, what they cost, and how far from the least that is possible.

    >>> from allotment.tools.plan.report import Plan
    >>> verdict(Plan())
    'no machine is needed'
    """
    count = len(plan.machines)
    if not count:
        return "no machine serves them" if plan.unserved and not plan.existing else "no machine is needed"
    return f"{counted(count, 'machine')}, {dollars(plan.total)} USD/h ({proof_text(plan)})"


def proof_text(plan: ProvisioningPlan) -> str:
    """What is proven of a plan's cost."""
    if not plan.bound:
        return "how far from the cheapest is not known"
    if plan.gap < 0.0005:
        return "proven the cheapest"
    # A bound is rounded down, never up: it must stay one.
    return f"at least {dollars(plan.bound, ROUND_FLOOR)}: gap {plan.gap:.1%}".replace("%", " %")


def saving_text(before: Decimal, after: Decimal) -> str:
    """A total before and after a concession, as the plan with that concession will say it.

    >>> saved(Decimal("3.673385"), Decimal("1.92802"))
    '3.673 → 1.928 USD/h'
    """
    return f"{dollars(before)} → {dollars(after)} USD/h"


def workload_of(seat: PodPlacement | GpuPart) -> str:
    """The workload of a seat or piece by its bare name; for a pod of its own the pod's name without its number."""
    if seat.owner:
        return seat.owner.rpartition(" ")[2].rpartition("/")[2]
    name = seat.pod.name if isinstance(seat, PodPlacement) else (seat.pods[0] if seat.pods else "").rpartition("/")[2]
    match = _ORDINAL.fullmatch(name)
    return match["stem"] or name if match else name


def abbreviated_names(names: Sequence[str]) -> str:
    """Names that differ in a number at their end, as ranges.

    >>> names_in_short(["train-0", "train-1", "train-2", "web-7", "job-a"])
    'train-0..2, web-7, job-a'
    >>> names_in_short(["pod-0099", "pod-0100", "pod-9", "pod-10"])
    'pod-0099..0100, pod-9..10'
    """
    runs: list[tuple[str, str, str]] = []  # name of the first, its stem, number of the last as it is written
    for name in names:
        number = name[len(name.rstrip("0123456789")) :]
        stem = name[: len(name) - len(number)]
        if number and runs and runs[-1][1] == stem and _follows(runs[-1][2], number):
            runs[-1] = (runs[-1][0], stem, number)
        else:
            runs.append((name, stem, number))
    return ", ".join(first if first == stem + last else f"{first}..{last}" for first, stem, last in runs)


def _follows(number: str, other: str) -> bool:
    """Whether a number comes next after another and is written alike: with as many digits, or without leading zeros."""
    if not number or int(other) != int(number) + 1:
        return False
    return len(number) == len(other) or (number, other) == (str(int(number)), str(int(other)))


def total(prices: Iterable[Decimal]) -> Decimal:
    """Exact."""
    return sum(prices, Decimal(0))
