"""The inputs of a plan: pending pods, existing cluster, catalog and limits; and the search for the machines."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from msgspec import structs

from allotment.api.objects.unread_resources import NEEDED, OF_DEVICES, OF_PODS, must_know
from allotment.api.plans.catalog import Catalog
from allotment.api.plans.search_control import SearchControl, steps_for
from allotment.api.question import Question
from allotment.cluster.inspection.snapshot import DEVICES, PODS, VOLUMES, SnapshotResource
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.packing.step_limit import StepLimit
from allotment.planning.comparison import compare
from allotment.planning.limits import PlanLimits
from allotment.planning.machine_plan import MachinePlan
from allotment.planning.pending_pods.demand import ClusterDemand, read_demand
from allotment.planning.pending_pods.selection import select_objects
from allotment.planning.placement.nominations import place_nominated_pods
from allotment.planning.planner import plan_demand
from allotment.planning.reasons.type_verdicts import MAX_GROUPS, group_verdicts
from allotment.planning.relaxations.savings import relaxations
from allotment.planning.relaxations.uncordoning import cordoned_nodes_that_fit
from allotment.planning.report import PodPlacement, ProvisioningPlan, UntriedRelaxations
from allotment.tools.unread import unread_notes, unread_resources

_KINDS: Final = (*DEVICES, *PODS, *VOLUMES, SnapshotResource("apps", "daemonsets"))


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """``values``: the objects to plan for, and those of the cluster. ``placed``: pods that preemption will place."""

    values: tuple[Object, ...]
    features: Features
    demand: ClusterDemand
    catalog: Catalog
    limits: PlanLimits
    placed: tuple[PodPlacement, ...] = ()
    notes: tuple[str, ...] = ()

    def plan(
        self, search: SearchControl, *, seed: int = 0, comparison: bool = False, most_groups: int = MAX_GROUPS
    ) -> MachinePlan:
        """Return the plan with verdicts per type, for ``most_groups`` groups of pods, and the savings of relaxations.

        Without a time limit, the work is limited in steps, so that the plan is the same on every machine.
        """
        types, limits, features = self.catalog.types, self.limits, self.features
        found = self._cheapest(search, seed)
        cordoned = (each.note for each in cordoned_nodes_that_fit(self.values, found, limits, features))
        found = structs.replace(found, notes=(*cordoned, *found.notes))
        found = structs.replace(found, choices=group_verdicts(self.demand, types, limits, features, most_groups))
        compared = compare(self.demand, types, limits) if comparison else None
        if search.stopped:
            found = structs.replace(found, untried=UntriedRelaxations(limit="time"))
        elif search.seconds:  # with a time limit of 0, relaxations are skipped
            search.restart()
            search.show("evaluating relaxations")
            more = relaxations(self.values, found, types, limits, features, keep_going=search.keep_going)
            found = structs.replace(found, relaxations=more.relaxations, untried=more.untried)
        found = structs.replace(
            found, notes=tuple(dict.fromkeys((*self.notes, *found.notes))), existing=(*self.placed, *found.existing)
        )
        return MachinePlan(**structs.asdict(found), catalog_problems=self.catalog.problems, compared=compared)

    def _cheapest(self, search: SearchControl, seed: int) -> ProvisioningPlan:
        limit = StepLimit(steps_for(self.values), search.keep_going)
        keep_going = limit if search.seconds == inf else search.keep_going
        found = plan_demand(
            self.demand, self.catalog.types, self.limits, keep_going=keep_going, seed=seed, progress=search.progress
        )
        if not search.seconds or found.total <= found.bound or not (limit.exhausted or not search.keep_going()):
            return found
        end = f"after {limit.count} steps" if limit.exhausted else f"after {search.seconds:g} s"
        end = "by Ctrl-C" if search.stopped else end
        note = f"the search for machines was ended {end}; with a longer time limit the plan may be cheaper"
        return structs.replace(found, notes=(*found.notes, note))


def plan_inputs(question: Question, catalog: Catalog, limits: PlanLimits, only: str = "") -> PlanInputs:
    """Read the cluster, and select the objects to plan for. Raises InputError, and StatusError of a cluster."""
    question = question.read(_KINDS)
    question.require_objects()
    inputs = question.inputs
    must_know(inputs.cluster, *OF_DEVICES, *OF_PODS)
    unread = unread_resources(inputs.cluster, NEEDED)
    chosen = select_objects(inputs.cluster, inputs.queried, only)
    nominated = place_nominated_pods(chosen.values, inputs.features)
    return PlanInputs(
        tuple(nominated.objects),
        inputs.features,
        read_demand(nominated.objects, inputs.features),
        catalog,
        limits,
        nominated.placements,
        (*inputs.notes, *unread_notes(unread), *chosen.notes),
    )
