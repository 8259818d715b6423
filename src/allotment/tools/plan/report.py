"""A plan as a value: what to buy, who goes where, how good that is, and why everything else was not taken.

Prices are USD per hour, exact decimals. The screens, the JSON, the pictures and the autoscaler read this and nothing
else.
"""

from __future__ import annotations

from decimal import Decimal

from allotment.engine.refusal import Diagnosis
from allotment.fleet.catalog.instance_type import CapacityType
from allotment.model.core import Taint
from allotment.model.meta import ObjectKey, Value
from allotment.tools.explain.report import GivenClaim


class Seat(Value, frozen=True):
    """A pod and where it goes: with which devices, claim by claim. ``owner``: the workload; ``pod``: namespace/name."""

    pod: ObjectKey
    node: str
    owner: str = ""
    claims: tuple[GivenClaim, ...] = ()
    cpu_milli: int = 0
    memory: int = 0
    """Bytes."""


class PlannedMachine(Value, frozen=True):
    """A machine to buy. ``node``: its name in the plan. ``form``: hardware and mode, as ``--fleet`` says it."""

    node: str
    instance: str
    """Key in the catalogue: ``aws/g5.xlarge``."""
    form: str
    zone: str
    capacity_type: CapacityType
    usd_per_hour: Decimal
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    seats: tuple[Seat, ...] = ()
    layout: tuple[tuple[str, ...], ...] = ()
    """MIG profiles by GPU, where the layout was a decision; an empty tuple is a whole GPU."""
    drivers: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory: int = 0
    """What it has for pods; memory in bytes."""


class Unserved(Value, frozen=True):
    """A pod that gets nothing in this plan. ``nearest``: keys of types that come closest.

    ``code``: never (no type can), limits (of the user, or no known price), architecture (only machines that its images
    may not be built for), full (others have all that it could use, and no more of it can be bought), neighbours (other
    pods keep it away), run-time-only, undecided (a search for devices was given up), order (others must come first, and
    it hangs on when it is tried again), gang, not-ready, error (one that ends every attempt), or a code of the engine's
    refusals.
    """

    pod: ObjectKey
    owner: str
    code: str
    text: str
    nearest: tuple[str, ...] = ()
    reasons: Diagnosis | None = None


class TypeVerdict(Value, frozen=True):
    """What one type of the catalogue is for one group of equal pods. ``code`` empty: it serves; else why not.

    ``text``: the first thing in the way with both values (``L4 has 23034Mi, 24Gi asked``). ``per_hour``: price of the
    cheapest allowed offering, None if not known. ``holds``: most of these pods on one machine. ``borderline``: the
    answer hangs on a figure that is not the driver's own.
    """

    instance: str
    code: str
    text: str
    per_hour: Decimal | None = None
    holds: int = 0
    mode: str = ""
    borderline: bool = False


class Choice(Value, frozen=True):
    """For one group of equal pods: every type, the cheapest that serves first, then the nearest misses."""

    pods: tuple[ObjectKey, ...]
    owner: str
    verdicts: tuple[TypeVerdict, ...]


class Relaxation(Value, frozen=True):
    """One concession and what the plan would cost with it. ``what``: in words; ``object`` and ``path``: where."""

    what: str
    object: str
    path: str
    total: Decimal
    saves: Decimal


class Plan(Value, frozen=True):
    """``existing``: seats on nodes that are there. ``total`` and ``bound`` are of the new machines, per hour.

    No set of machines of this catalogue, within these limits, that serves the same pods costs less than ``bound``.
    """

    machines: tuple[PlannedMachine, ...] = ()
    existing: tuple[Seat, ...] = ()
    unserved: tuple[Unserved, ...] = ()
    total: Decimal = Decimal(0)
    bound: Decimal = Decimal(0)
    choices: tuple[Choice, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """How far the total is above the bound, as a fraction of the bound."""
        return float(self.total / self.bound - 1) if self.bound else 0.0
