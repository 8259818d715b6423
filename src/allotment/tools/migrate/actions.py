"""What is to be done with one workload: the facts that it is decided on, and the few ways that a decision can go."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.tools.migrate.claim_plan import Kind, Plan, Use, planned, turns
from allotment.tools.migrate.decision import Decision, Needs, Outcome
from allotment.tools.migrate.node_affinity import Where
from allotment.tools.migrate.plugin_requests import Ask, WorkloadAsk
from allotment.tools.migrate.report import Label
from allotment.tools.migrate.request_mapping import HAMI, Sharer, kind_of
from allotment.tools.migrate.resource_names import in_words
from allotment.tools.migrate.target import Target

EXTENDED: Final = "DRAExtendedResource"


class Course(NamedTuple):
    """What is to be done with one workload.

    ``plan`` and ``uses`` where its pods get a claim. ``slots``: with outcome ``claim``, how many shares of the GPU all
    its pods take together; which workloads name one claim is decided later, with all of them known. ``tolerations``:
    the taints that its pods must say themselves to tolerate.
    """

    workload: WorkloadAsk
    decision: Decision
    where: Where = Where()
    plan: Plan | None = None
    uses: tuple[Use, ...] = ()
    slots: int = 0
    tolerations: tuple[str, ...] = ()


class Case(NamedTuple):
    """A workload with what was found out about it. ``where``: what its labels become."""

    workload: WorkloadAsk
    target: Target
    where: Where
    sharer: Sharer | None

    @property
    def asks(self) -> tuple[Ask, ...]:
        """All asks of the pod."""
        return self.workload.asks

    def sorts(self) -> frozenset[str]:
        """The sorts of asks that the pod has."""
        return frozenset(ask.sort for ask in self.asks)

    def basis(self, *more: str) -> tuple[str, ...]:
        """The facts that a decision is made on."""
        labels = tuple(f"label {label.term}" for label in self.where.labels)
        return (in_words(self.workload.containers), *labels, *(fact for fact in more if fact))


SEVERAL: Final = (
    "A container requests devices of several kinds, and another container requests more. A container can name one "
    "request of a claim or the whole claim, but not two requests."
)


def is_unwritable(uses: tuple[Use, ...]) -> bool:
    """Whether a container would have to name several requests and not the whole claim."""
    return any(len(use.requests) > 1 for use in uses)


def stays(case: Case, outcome: Outcome, reason: str, *basis: str, hint: str = "") -> Course:
    """The workload stays, and so do its labels."""
    return Course(
        case.workload, Decision(outcome=outcome, reason=reason, basis=case.basis(*basis), hint=hint), _kept(case.where)
    )


def served(case: Case, reason: str, *basis: str) -> Course:
    """A class serves it under the old name."""
    needs = Needs(kube_gates=(EXTENDED,))
    decision = Decision(outcome="class", reason=reason, basis=case.basis(*basis), needs=needs)
    return Course(case.workload, decision, _kept(case.where))


def _kept(where: Where) -> Where:
    """Nothing of the manifest changes, labels neither."""
    return Where(labels=tuple(Label(term=label.term, why="the manifest stays as it is") for label in where.labels))


def templated(
    case: Case, reason: str, *basis: str, sharer: Sharer | None = None, gates: tuple[str, ...] = (), hint: str = ""
) -> Course:
    """Each of its pods gets a claim of its own; ``sharer`` serves parts of GPUs, ``gates`` are what that needs."""
    plan, uses = planned_for(case, sharer)
    if is_unwritable(uses):
        return stays(case, "cannot", SEVERAL, *basis)
    classes = tuple(dict.fromkeys(request.kind.class_name for request in plan.requests))
    mode = "shared" if sharer is not None and sharer.driver != HAMI else ""
    needs = Needs(kube_gates=gates, classes=classes, mode=mode)
    decision = Decision(outcome="template", reason=reason, basis=case.basis(*basis), hint=hint, needs=needs)
    return Course(case.workload, decision, case.where, plan, uses)


def planned_for(case: Case, sharer: Sharer | None) -> tuple[Plan, tuple[Use, ...]]:
    """The claim for all asks of a pod, and which container names what of it."""

    def kind(ask: Ask) -> Kind:
        return kind_of(ask, case.target, case.where.conditions, sharer if ask.sort in ("share", "fraction") else None)

    if sharer is None and "share" in case.sorts():
        return turns(case.workload.containers, kind)
    return planned(case.workload.containers, kind, case.target.same)
