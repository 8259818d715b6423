"""The action for one workload, the input of the decision, and functions that build each kind of action."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.tools.migrate.claim_plan import ClaimPlan, ContainerUse, RequestKind, plan_claim, plan_shared_claim
from allotment.tools.migrate.decision import Decision, Needs, Outcome
from allotment.tools.migrate.node_affinity import MigratedAffinity
from allotment.tools.migrate.plugin_requests import PluginRequest, WorkloadRequests
from allotment.tools.migrate.report import Label
from allotment.tools.migrate.request_mapping import HAMI, Sharer, kind_of
from allotment.tools.migrate.resource_names import format_requests
from allotment.tools.migrate.target import Target

EXTENDED: Final = "DRAExtendedResource"


class Action(NamedTuple):
    """The decision for one workload with the changes that implement it.

    ``plan`` and ``uses``: set if its pods get a claim. ``slots``: with outcome ``claim``, the number of GPU shares that
    its pods take in total; workloads are grouped into claims later, when all are known. ``tolerations``: keys of taints
    that its pods must tolerate explicitly.
    """

    workload: WorkloadRequests
    decision: Decision
    affinity: MigratedAffinity = MigratedAffinity()
    plan: ClaimPlan | None = None
    uses: tuple[ContainerUse, ...] = ()
    slots: int = 0
    tolerations: tuple[str, ...] = ()


class WorkloadCase(NamedTuple):
    """The input of the decision for one workload. ``affinity``: its migrated node requirements."""

    workload: WorkloadRequests
    target: Target
    affinity: MigratedAffinity
    sharer: Sharer | None

    @property
    def requests(self) -> tuple[PluginRequest, ...]:
        """The device plugin requests of all containers."""
        return self.workload.requests

    def usages(self) -> frozenset[str]:
        """The kinds of use that the pod requests."""
        return frozenset(request.usage for request in self.requests)

    def basis(self, *more: str) -> tuple[str, ...]:
        """The facts behind a decision: requests, GPU labels and ``more``."""
        labels = tuple(f"label {label.term}" for label in self.affinity.labels)
        return (format_requests(self.workload.containers), *labels, *(fact for fact in more if fact))


SEVERAL: Final = (
    "One container requests several kinds of devices, and another container requests devices of its own. A container "
    "can reference one request of a claim or the whole claim, but not two requests."
)


def is_unwritable(uses: tuple[ContainerUse, ...]) -> bool:
    """Whether a container would have to name several requests but not the whole claim."""
    return any(len(use.requests) > 1 for use in uses)


def keep_manifest(case: WorkloadCase, outcome: Outcome, reason: str, *basis: str, hint: str = "") -> Action:
    """Leave the manifest and its labels unchanged."""
    return Action(
        case.workload,
        Decision(outcome=outcome, reason=reason, basis=case.basis(*basis), hint=hint),
        _kept_labels(case.affinity),
    )


def serve_by_class(case: WorkloadCase, reason: str, *basis: str) -> Action:
    """Leave the manifest unchanged; a DeviceClass serves the old resource name."""
    needs = Needs(kube_gates=(EXTENDED,))
    decision = Decision(outcome="class", reason=reason, basis=case.basis(*basis), needs=needs)
    return Action(case.workload, decision, _kept_labels(case.affinity))


def _kept_labels(affinity: MigratedAffinity) -> MigratedAffinity:
    """The node requirements, all kept."""
    return MigratedAffinity(
        labels=tuple(Label(term=label.term, why="the manifest stays as it is") for label in affinity.labels)
    )


def use_template(
    case: WorkloadCase,
    reason: str,
    *basis: str,
    sharer: Sharer | None = None,
    gates: tuple[str, ...] = (),
    hint: str = "",
) -> Action:
    """Give each pod its own claim. ``sharer`` serves parts of GPUs; ``gates``: the Kubernetes gates that it needs."""
    plan, uses = plan_for(case, sharer)
    if is_unwritable(uses):
        return keep_manifest(case, "cannot", SEVERAL, *basis)
    classes = tuple(dict.fromkeys(request.kind.class_name for request in plan.requests))
    mode = "shared" if sharer is not None and sharer.driver != HAMI else ""
    needs = Needs(kube_gates=gates, classes=classes, mode=mode)
    decision = Decision(outcome="template", reason=reason, basis=case.basis(*basis), hint=hint, needs=needs)
    return Action(case.workload, decision, case.affinity, plan, uses)


def plan_for(case: WorkloadCase, sharer: Sharer | None) -> tuple[ClaimPlan, tuple[ContainerUse, ...]]:
    """The claim for all requests of a pod, and the requests that each container names."""

    def kind(request: PluginRequest) -> RequestKind:
        return kind_of(
            request, case.target, case.affinity.conditions, sharer if request.usage in ("share", "fraction") else None
        )

    if sharer is None and "share" in case.usages():
        return plan_shared_claim(case.workload.containers, kind)
    return plan_claim(case.workload.containers, kind, case.target.same)
