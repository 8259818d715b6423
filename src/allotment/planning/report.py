"""The result of planning: machines, pod placements, cost and lower bound, unserved pods, and a verdict for each type.

Prices are in USD per hour, as exact decimals. The CLI output, the charts and the autoscaler are built from these
values.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from msgspec import field

from allotment.engine.refusal import Diagnosis
from allotment.explanation.report import ClaimAllocation
from allotment.fleet.catalog.instance_type import CapacityType
from allotment.model.core import Taint
from allotment.model.meta import ObjectKey, Value


class PodPlacement(Value, frozen=True):
    """A pod with its node and, claim by claim, its devices. ``owner``: the workload."""

    pod: ObjectKey
    node: str
    owner: str = ""
    claims: tuple[ClaimAllocation, ...] = ()
    cpu_milli: int = 0
    memory: int = 0
    """Requested memory in bytes."""


class PlannedMachine(Value, frozen=True):
    """A machine to provision. ``node``: its name in the plan. ``form``: hardware and mode, as in ``--fleet``.

    ``placements``: its pods; in JSON, ``seats``.
    """

    node: str
    instance: str
    """The type's key in the catalog: ``aws/g5.xlarge``."""
    form: str
    zone: str
    capacity_type: CapacityType
    usd_per_hour: Decimal
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    placements: tuple[PodPlacement, ...] = field(name="seats", default=())
    layout: tuple[tuple[str, ...], ...] = ()
    """MIG profiles by GPU, if the plan chose the layout; an empty tuple is a whole GPU."""
    drivers: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory: int = 0
    """Bytes. Like ``cpu_milli``, the amount that is available to pods."""


class UnservedPod(Value, frozen=True):
    """A pod that this plan does not place. ``nearest``: keys of the types that come closest.

    ``code``: never (no type fits), limits (of the user, or no known price), architecture (its images may not be built
    for the machines that fit), full (other pods use all that fits, and no more can be provisioned), neighbours (other
    pods exclude it), run-time-only, undecided (the search for devices reached its limit), order (its placement depends
    on when the scheduler retries it), gang, not-ready, error (one that ends every scheduling attempt), or a code of the
    engine's refusals.
    """

    pod: ObjectKey
    owner: str
    code: str
    text: str
    nearest: tuple[str, ...] = ()
    reasons: Diagnosis | None = None


class TypeVerdict(Value, frozen=True):
    """Whether one type of the catalog fits one group of equal pods. ``code``: the reason if not, else empty.

    ``text``: the first shortfall with both values (``L4 has 23034Mi; 24Gi requested``). ``per_hour``: price of the
    cheapest allowed offering, None if unknown. ``holds``: maximum number of these pods on one machine. ``borderline``:
    the verdict depends on a figure that the driver does not publish.
    """

    instance: str
    code: str
    text: str
    per_hour: Decimal | None = None
    holds: int = 0
    mode: str = ""
    borderline: bool = False


class GroupVerdicts(Value, frozen=True):
    """The instance types for one group of equal pods, each with the reason why it was chosen or not.

    ``pods``: those of the group; ``owner``: their workload. ``verdicts``: first the types on which they fit, by price,
    then the others, nearest first.
    """

    pods: tuple[ObjectKey, ...]
    owner: str
    verdicts: tuple[TypeVerdict, ...]


class Relaxation(Value, frozen=True):
    """One relaxed requirement or limit, and the cost of the plan with it. ``object`` and ``path`` locate the change."""

    what: str
    object: str
    path: str
    total: Decimal
    saves: Decimal


class UntriedRelaxations(Value, frozen=True):
    """The relaxations that the search left out, because it reached a limit.

    ``relaxations``: those that were not planned; ``groups``: pod groups whose claims were not relaxed; ``shortened``:
    those whose plan was not improved until the end, so that their saving may be higher. ``limit``: ``work``, which is
    equal on every machine, or ``time``: the time limit or Ctrl-C ended the search; empty if nothing was left out.
    """

    relaxations: int = 0
    groups: int = 0
    shortened: int = 0
    limit: Literal["", "work", "time"] = ""


class ProvisioningPlan(Value, frozen=True):
    """``existing``: placements on existing nodes. ``total`` and ``bound``: of the new machines, per hour.

    Within the limits, no set of machines from the catalog that serves the same pods costs less than ``bound``.
    """

    machines: tuple[PlannedMachine, ...] = ()
    existing: tuple[PodPlacement, ...] = ()
    unserved: tuple[UnservedPod, ...] = ()
    total: Decimal = Decimal(0)
    bound: Decimal = Decimal(0)
    choices: tuple[GroupVerdicts, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    """The nearest to what was requested first, then by saving."""
    untried: UntriedRelaxations = UntriedRelaxations()
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """The total above the bound, as a fraction of the bound; 0 without a bound."""
        return float(self.total / self.bound - 1) if self.bound else 0.0
