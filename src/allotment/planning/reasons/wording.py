"""The format of prices, names and counts of a plan in the CLI, charts and events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

from allotment.phrases import counted, listed
from allotment.planning.reasons.machine_layout import GpuPart
from allotment.planning.report import PodPlacement, ProvisioningPlan, UntriedRelaxations

_ORDINAL = re.compile(r"(?P<stem>.*?)-?(?P<number>[0-9]+)")


def dollars(price: Decimal | None, rounding: str = ROUND_HALF_UP) -> str:
    """A price per hour, with 3 decimals below 100 USD and 2 above; "unknown" for None.

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
    """The number of machines, their cost, and the gap to the lower bound.

    >>> from allotment.planning.report import ProvisioningPlan
    >>> plan_summary(ProvisioningPlan())
    'no machine is needed'
    """
    count = len(plan.machines)
    if not count:
        return "no machine fits the pods" if plan.unserved and not plan.existing else "no machine is needed"
    return f"{counted(count, 'machine')}, {dollars(plan.total)} USD/h ({proof_text(plan)})"


def proof_text(plan: ProvisioningPlan) -> str:
    """The lower bound on a plan's cost, as text."""
    if not plan.bound:
        return "no lower bound"
    if plan.gap < 0.0005:
        return "proven optimal"
    # Rounded down, it is still a lower bound.
    return f"lower bound {dollars(plan.bound, ROUND_FLOOR)}, gap {plan.gap:.1%}".replace("%", " %")


def saving_text(before: Decimal, after: Decimal) -> str:
    """The total before and after a relaxation.

    >>> saving_text(Decimal("3.673385"), Decimal("1.92802"))
    '3.673 → 1.928 USD/h'
    """
    return f"{dollars(before)} → {dollars(after)} USD/h"


def untried_text(untried: UntriedRelaxations) -> str:
    """The relaxations that the search left out, as one line; empty if there are none.

    >>> untried_text(UntriedRelaxations(relaxations=2, groups=1, limit="work"))
    'Not tried, because the limit of work was reached: 2 more relaxations; 1 group of pods'
    >>> untried_text(UntriedRelaxations(limit="time"))
    'The search for savings ended early (--time-limit or Ctrl-C); others may exist'
    """
    if not untried.limit:
        return ""
    parts = [counted(untried.relaxations, "more relaxation")] if untried.relaxations else []
    parts += [counted(untried.groups, "group of pods", "groups of pods")] if untried.groups else []
    better = counted(untried.shortened, "relaxation") if untried.shortened else ""
    if untried.limit == "time":
        left = f" before it tried {listed(parts)}" if parts else ""
        return f"The search for savings ended early{left} (--time-limit or Ctrl-C); others may exist"
    parts = [f"Not tried, because the limit of work was reached: {'; '.join(parts)}"] if parts else []
    parts += [f"With more work, {better} may save more"] if better else []
    return ". ".join(parts)


def workload_of(part: PodPlacement | GpuPart) -> str:
    """The name of the workload of a placement or GPU part; for a bare pod its name without the ordinal."""
    if part.owner:
        return part.owner.rpartition(" ")[2].rpartition("/")[2]
    name = part.pod.name if isinstance(part, PodPlacement) else (part.pods[0] if part.pods else "").rpartition("/")[2]
    match = _ORDINAL.fullmatch(name)
    return match["stem"] or name if match else name


def abbreviated_names(names: Sequence[str]) -> str:
    """Names with consecutive numbers at their end as ranges.

    >>> abbreviated_names(["train-0", "train-1", "train-2", "web-7", "job-a"])
    'train-0..2, web-7, job-a'
    >>> abbreviated_names(["pod-0099", "pod-0100", "pod-9", "pod-10"])
    'pod-0099..0100, pod-9..10'
    """
    runs: list[tuple[str, str, str]] = []  # first name, its stem, last number as written
    for name in names:
        number = name[len(name.rstrip("0123456789")) :]
        stem = name[: len(name) - len(number)]
        if number and runs and runs[-1][1] == stem and _follows(runs[-1][2], number):
            runs[-1] = (runs[-1][0], stem, number)
        else:
            runs.append((name, stem, number))
    return ", ".join(first if first == stem + last else f"{first}..{last}" for first, stem, last in runs)


def _follows(number: str, other: str) -> bool:
    """Whether a number follows another and has the same format: equal digits, or no leading zeros."""
    if not number or int(other) != int(number) + 1:
        return False
    return len(number) == len(other) or (number, other) == (str(int(number)), str(int(other)))


def total(prices: Iterable[Decimal]) -> Decimal:
    return sum(prices, Decimal(0))
