"""The answers to programs, as they decode from JSON, where a result of the Python API cannot be restored from it.

The other answers are values of the Python API: `Explanation`, `FreeReport`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeAlias

from allotment.engine.refusal import NearestMiss
from allotment.explanation.matches import NodeMatches
from allotment.explanation.report import ClaimAllocation
from allotment.model.meta import ObjectKey, Value
from allotment.planning.comparison import BaselineResult
from allotment.planning.report import PlannedMachine, PodPlacement, Relaxation, UnservedPod, UntriedRelaxations
from allotment.tools.check.rule import Level

# --- why -------------------------------------------------------------------------------------------------------------


class ClassReason(Value, frozen=True):
    """The reason why a DeviceClass selects no device."""

    code: str
    summary: str
    nearest: NearestMiss | None = None


class SelectedDevices(Value, frozen=True):
    """The devices that a DeviceClass selects, by node. ``matched``: their number; ``devices``: that of all devices."""

    name: str
    matched: int
    devices: int
    nodes: tuple[NodeMatches, ...] = ()
    reason: ClassReason | None = None


class ClassSelections(Value, frozen=True):
    """The answer for each DeviceClass, if the manifests contain nothing else."""

    classes: tuple[SelectedDevices, ...]
    next: str = ""


# --- would-fit -------------------------------------------------------------------------------------------------------


class FittingPod(Value, frozen=True):
    """A pod that would get its devices. ``waits``: why it would still be pending."""

    pod: str
    node: str
    claims: tuple[ClaimAllocation, ...] = ()
    waits: str = ""


class RefusedPods(Value, frozen=True):
    """Pods that would not get their devices for the same reason. ``first``: the first of ``count`` pods.

    ``remedies``: what would help, all of it together; each was tried.
    """

    code: str
    summary: str
    count: int
    first: str
    remedies: tuple[str, ...] = ()
    kubernetes: str = ""
    next: str = ""


class FitAnswer(Value, frozen=True):
    """Whether pods would get their devices now. ``fitting``: how many of the ``pods`` fit at the same time.

    ``manifests``: those that were written for the requested devices, if the request had none.
    """

    fits: bool
    pods: int
    fitting: int
    placements: tuple[FittingPod, ...] = ()
    refused: tuple[RefusedPods, ...] = ()
    notes: tuple[str, ...] = ()
    manifests: str = ""


# --- check and fix ---------------------------------------------------------------------------------------------------


class TextChange(Value, frozen=True):
    """A part of a file and its new text. Lines and columns count from 1; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class OfferedFix(Value, frozen=True):
    """A fix of a finding. ``safe``: the author can have intended nothing else."""

    text: str
    safe: bool
    replacements: tuple[TextChange, ...] = ()


class LocatedFinding(Value, frozen=True):
    """A finding of ``check`` with its place. Lines and columns count from 1; the end is exclusive."""

    code: str
    name: str
    level: Level
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    path: str = ""
    subject: str = ""
    help: str = ""
    url: str = ""
    fix: OfferedFix | None = None


class FixedFinding(Value, frozen=True):
    """A finding that was fixed. ``text``: what the fix did."""

    code: str
    name: str
    file: str
    line: int
    message: str
    text: str
    safe: bool


class CheckSummary(Value, frozen=True):
    """The number of findings by level, and of what was checked. ``place``: the cluster in which everything ``fits``."""

    errors: int
    warnings: int
    notes: int
    fixable: int
    fixable_unsafely: int
    silenced: int
    objects: int
    files: int
    left_out: tuple[str, ...] = ()
    place: str = ""
    fits: bool | None = None


class CheckAnswer(Value, frozen=True):
    """The mistakes in manifests. ``texts``: the files that fixes changed, of ``fix`` only."""

    findings: tuple[LocatedFinding, ...]
    summary: CheckSummary
    fixed: tuple[FixedFinding, ...] = ()
    unread: dict[str, str] = {}
    next: str = ""
    texts: dict[str, str] = {}


# --- plan ------------------------------------------------------------------------------------------------------------


class InstanceVerdict(Value, frozen=True):
    """Whether an instance type fits a group of equal pods. ``holds``: how many of them; ``code``: why it does not."""

    instance: str
    serves: bool
    code: str = ""
    text: str = ""
    per_hour: Decimal | None = None
    holds: int = 0
    mode: str = ""
    borderline: bool = False


class GroupChoice(Value, frozen=True):
    """The instance types for one group of equal pods: those that fit by price, then the nearest ones."""

    pods: tuple[ObjectKey, ...]
    owner: str = ""
    verdicts: tuple[InstanceVerdict, ...] = ()


class IgnoredRow(Value, frozen=True):
    """A row of a catalog that is ignored."""

    code: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""
    hint: str = ""
    suggestion: str = ""


class PlanAnswer(Value, frozen=True):
    """The cheapest machines for pods. Prices are USD per hour; nothing that serves the pods costs less than ``bound``.

    ``gap``: the distance of ``total`` from ``bound``, as a fraction.
    """

    verdict: str
    total: Decimal
    bound: Decimal | None = None
    gap: float | None = None
    machines: tuple[PlannedMachine, ...] = ()
    existing: tuple[PodPlacement, ...] = ()
    unserved: tuple[UnservedPod, ...] = ()
    choices: tuple[GroupChoice, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    untried: UntriedRelaxations = UntriedRelaxations()
    notes: tuple[str, ...] = ()
    catalog_problems: tuple[IgnoredRow, ...] = ()
    compared: tuple[BaselineResult, ...] | None = None
    next: str = ""


# --- explain-code ----------------------------------------------------------------------------------------------------

#: What has a code: the reason of a refusal, a rule of ``check``, a check of ``doctor``.
CodeKind: TypeAlias = Literal["reason", "rule", "check"]


class CodeMeaning(Value, frozen=True):
    """The meaning of a code. ``advice``: what to do about a reason; ``kubernetes``: what Kubernetes says instead of it.

    ``why``: the cause, of rules and checks; ``bad`` and ``good``: an example of a rule, before and after.
    """

    code: str
    kind: CodeKind
    summary: str
    advice: str = ""
    kubernetes: str = ""
    why: str = ""
    name: str = ""
    family: str = ""
    level: str = ""
    severity: str = ""
    bad: str = ""
    good: str = ""
    fixable: str = ""
    see: str = ""
    url: str = ""
