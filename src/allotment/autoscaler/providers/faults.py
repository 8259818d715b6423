"""Faults of a simulated cloud, as given on the command line: ``aws/g4dn.*:us-east-1a=no-capacity``."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from allotment.errors import InputError
from allotment.planning.report import PlannedMachine

#: Kinds of faults, and the amount that each takes.
KINDS: Final = {
    "no-capacity": "optional share of the orders: no-capacity:50%",
    "stock": "number of machines available: stock:2",
    "refused": "optional share of the orders",
    "slow": "seconds until the node exists: slow:600",
    "fail": "optional share of the machines: fail:10%",
    "lost": "optional share of the machines",
    "bare": "optional share of the machines",
}
_COUNTED: Final = ("slow", "stock")


class InvalidFault(InputError, ValueError):
    """Raised for an invalid fault; the hint is the expected format."""

    def __init__(self, words: str, problem: str) -> None:
        hint = f"expected TYPE[:ZONE]=FAULT, where FAULT is one of {', '.join(KINDS)}"
        super().__init__(f"{words!r}: {problem}", hint, argument="cloud")


class SimulatedFault(NamedTuple):
    """``amount``: seconds (slow), machines (stock), or the share of machines affected, 0 to 1."""

    pattern: str
    zone: str
    kind: str
    amount: float

    def matches(self, machine: PlannedMachine) -> bool:
        """Whether the fault applies to a machine."""
        return fnmatchcase(machine.instance, self.pattern) and fnmatchcase(machine.zone, self.zone)


def parse_faults(words: Iterable[str]) -> tuple[SimulatedFault, ...]:
    """Parse faults from the command line. Raises InvalidFault.

    >>> parse_faults(["aws/g4dn.*:us-east-1a=no-capacity", "*=slow:600", "*=fail:10%"])[0]
    SimulatedFault(pattern='aws/g4dn.*', zone='us-east-1a', kind='no-capacity', amount=1.0)
    """
    return tuple(_parsed(word) for word in words)


def _parsed(words: str) -> SimulatedFault:
    where, equals, effect = words.partition("=")
    pattern, _, zone = where.partition(":")
    kind, _, amount = effect.partition(":")
    if not equals or not pattern:
        raise InvalidFault(words, "the instance type is missing")
    if kind not in KINDS:
        raise InvalidFault(words, f"unknown fault {kind!r}")
    return SimulatedFault(pattern, zone or "*", kind, _amount(words, kind, amount))


def _amount(words: str, kind: str, text: str) -> float:
    try:
        if kind in _COUNTED:
            number = float(text)
            if number < 0 or number != number or (kind == "stock" and number != int(number)):
                raise ValueError
            return number
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text or "1")
        if not 0 <= share <= 1:
            raise ValueError
        return share
    except ValueError:
        wanted = {"slow": "seconds", "stock": "a whole number"}.get(kind, "a share such as 10%")
        raise InvalidFault(words, f"{kind}: expected {wanted}, found {text!r}") from None
