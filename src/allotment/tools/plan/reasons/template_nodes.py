"""What would fit on a new machine of each type, and why it would not: the planner's templates, asked group by group.

Types with the same GPUs share what is known of them. Why claims do not fit is found on one GPU of the model, since most
that can be wrong is wrong with each; what depends on how many there are is found on the whole machine.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.layout import NodeState, NodeView
from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.diagnosis.published_names import PublishedNames, published_names
from allotment.engine.refusal import AllocationRefusal
from allotment.engine.search.verdict import Solution
from allotment.fleet.catalog.instance_type import InstanceType, Template
from allotment.fleet.errors import FleetError
from allotment.model.features import Features
from allotment.model.resource import DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from allotment.tools.plan.formulation.candidate_nodes import run_time_dependency, unmeasured_match
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.offerings.hypothetical_nodes import (
    ClaimShapes,
    HypotheticalCluster,
    NodeDevices,
    template_cluster,
)
from allotment.tools.plan.offerings.mig_layouts import allocated_layout, filled_layout, is_possible, mode_of
from allotment.tools.plan.offerings.modes import RelevantModes
from allotment.tools.plan.offerings.templates import UNDECIDED, sample_node_name, sample_slices, template
from allotment.tools.plan.pending_pods.demand import ClusterDemand

#: Refusals that are about what a device is, and so the same however many there are of it.
PER_DEVICE_CODES: Final = frozenset(
    ("class-matches-nothing", "selector-matches-nothing", "not-enough-capacity", "driver-missing", "unknown-attribute",
     "unknown-driver", "type-mismatch", "capacity-read-as-attribute", "attribute-read-as-capacity", "selector-fails")
)  # fmt: skip
#: What is allocated one after the other on a machine: the claims of each pod.
ClaimsByPod = Sequence[tuple[ResourceClaim, ...]]


@dataclass(frozen=True, slots=True)
class ItemCount:
    """How many times the claims fit, and the mode to buy the machine in: with a layout where one is to be cut."""

    times: int
    mode: str


class _SampleGpus:
    """One GPU of each model in each mode, for diagnoses, kept as long as the process lives."""

    def __init__(self, features: Features) -> None:
        self.cluster = HypotheticalCluster(Inventory(features))
        self._names: PublishedNames | None = None

    def put(self, accelerator: str, mode: str, kube: str) -> str:
        """The name of the node with such a GPU; empty if the model has no such mode."""
        name = sample_node_name(accelerator, mode)
        if name not in self.cluster.inventory.nodes:
            slices = sample_slices(accelerator, mode, kube)
            if slices is None:
                return ""
            self.cluster.view_of(name, {}, lambda: slices)
            self._names = None
        return name

    def names(self) -> PublishedNames:
        """All that these GPUs publish."""
        if self._names is None:
            self._names = published_names(self.cluster.inventory.slices.values())
        return self._names


#: Samples that nobody uses just now; see `cluster.templates`, which does the same.
_IDLE: Final[dict[Features, list[_SampleGpus]]] = {}


def _sample_gpus(features: Features, owner: object) -> _SampleGpus:
    """Samples for the owner alone as long as that lives; whoever comes next finds what it has asked about."""
    idle = _IDLE.setdefault(features, [])
    try:
        result = idle.pop()
    except IndexError:
        result = _SampleGpus(features)
    weakref.finalize(owner, idle.append, result)
    return result


class TemplateNodes:
    """The types of a catalogue, asked about one group of claims after the other."""

    def __init__(self, demand: ClusterDemand, catalog: Iterable[InstanceType]) -> None:
        self._demand = demand
        self._kube = demand.features.kube
        self._cluster = template_cluster(demand.features, self)
        self._samples = _sample_gpus(demand.features, self)
        self._claims_by_pod: ClaimsByPod = ()
        self._single_gpu_refusals: dict[tuple[str, str], AllocationRefusal | None] = {}
        self._modes: RelevantModes | None = None
        self._claim_shapes = ClaimShapes(demand.classes)
        self._shapes: range = range(0)
        for model in {class_or_item.accelerator.id for class_or_item in catalog if class_or_item.accelerator is not None and class_or_item.hardware}:
            self._samples.put(model, "", self._kube)

    def set_claims(self, claims_by_pod: ClaimsByPod, limits: PlanLimits) -> None:
        """Go on with the claims of another group."""
        self._claims_by_pod = claims_by_pod
        self._single_gpu_refusals.clear()
        self._claim_shapes = ClaimShapes(self._demand.classes)
        for number, claims in enumerate(claims_by_pod):
            self._claim_shapes.shape_number(number, claims)
        self._shapes = range(len(self._claim_shapes.shapes))
        self._modes = RelevantModes(self._cluster, self._claim_shapes, limits, self._kube)

    # --- what there is -------------------------------------------------------------------------------------------

    def modes(self, instance: InstanceType) -> tuple[str, ...]:
        """The modes that concern the claims, whole GPUs first."""
        assert self._modes is not None
        if instance.accelerator is None:
            return ("",)
        return ("", *self._modes.of_accelerator(instance.accelerator, self._shapes))

    def template(self, instance: InstanceType, mode: str) -> Template | None:
        """What a machine of the type publishes in a mode; None if its GPUs do not have it."""
        try:
            return template(instance, mode, _form(instance, mode), self._kube)
        except FleetError:
            return None

    def _view(self, instance: InstanceType, mode: str) -> NodeView | None:
        template = self.template(instance, mode)
        return None if template is None else self._cluster.view_of(_form(instance, mode), {}, lambda: template.slices)

    def lacks_devices(self, instance: InstanceType, mode: str) -> bool:
        """Whether some request finds no device at all on such a GPU, however many of them there are."""
        model = instance.accelerator
        slices = sample_slices(model.id, mode, self._kube) if model is not None else None
        if model is None or slices is None:
            return False
        view = self._cluster.view_of(sample_node_name(model.id, mode), {}, lambda: slices)
        for claims in self._claims_by_pod:
            work = self._cluster.shape_cache(claims, self._demand.classes)
            eligible = work.pattern(view).eligible
            for claim in work.shape.claims:
                for request in claim.requests:
                    if request.subrequests and not any(eligible[ask.number] for ask in request.subrequests):
                        return True
        return False

    # --- what fits -----------------------------------------------------------------------------------------------

    def fits(self, instance: InstanceType, mode: str, most: int) -> ItemCount | None:
        """How often the claims fit on a new machine, at most ``most`` times; None if not once."""
        view = self._view(instance, mode)
        if view is None:
            return None
        state = view.state(self._cluster.inventory.usage)
        times = 0
        while times < most and (after := self._after(view, state)) is not None:
            state = after
            times += 1
        return ItemCount(times, _decided_mode(instance, mode, view, state)) if times else None

    def _after(self, view: NodeView, state: NodeState) -> NodeState | None:
        """The state once an item has its devices; None if there are none for it."""
        for claims in self._claims_by_pod:
            work = self._cluster.shape_cache(claims, self._demand.classes)
            verdict = work.verdict_in(view, state)
            if not isinstance(verdict, Solution):
                return None
            state = work.state_after(view, state, verdict)
        return state

    # --- why not -------------------------------------------------------------------------------------------------

    def why_not(self, instance: InstanceType, mode: str) -> AllocationRefusal:
        """What keeps the claims from a type in a mode that its GPUs have."""
        assert instance.accelerator is not None
        model = instance.accelerator.id
        key = (model, mode)
        if key not in self._single_gpu_refusals:
            single = self._samples.put(model, mode, self._kube)
            self._single_gpu_refusals[key] = self._diagnose(single) if single else None
        single_refusal = self._single_gpu_refusals[key]
        if single_refusal is not None and single_refusal.code in PER_DEVICE_CODES:
            return single_refusal
        form = _form(instance, mode)
        template = self.template(instance, mode)
        assert template is not None
        self._samples.cluster.view_of(form, {}, lambda: template.slices)
        result = self._diagnose(form)
        assert result is not None
        return result

    def _diagnose(self, node: str) -> AllocationRefusal | None:
        """What keeps the first pod whose claims do not fit even alone, else all of them together; None if they fit."""
        cluster = self._samples.cluster
        view = cluster.inventory.view(node)
        for claims in self._claims_by_pod:
            work = cluster.shape_cache(claims, self._demand.classes)
            if not isinstance(work.verdict_in(view, view.state(cluster.inventory.usage)), Solution):
                return self._refusal(claims, node)
        together = tuple(claim for claims in self._claims_by_pod for claim in claims)
        refused = self._refusal(together, node)
        return None if refused.code == "not-explained" else refused

    def _refusal(self, claims: tuple[ResourceClaim, ...], node: str) -> AllocationRefusal:
        diagnoser = Diagnoser(self._samples.cluster.inventory, tries=0, names=self._samples.names())
        diagnosis = diagnoser.diagnose(claims, [node])
        return next((class_or_item.refused for class_or_item in diagnosis.nodes), diagnosis.headline)

    # --- what they read ------------------------------------------------------------------------------------------

    def expressions(self) -> list[str]:
        """The selectors of the claims and of the classes that they name."""
        result: dict[str, None] = {}
        for class_or_item in self._requests():
            class_ = self._demand.classes.get(class_or_item.device_class_name)
            for selector in (*(class_.spec.selectors if class_ is not None else ()), *class_or_item.selectors):
                if selector.cel is not None:
                    result[selector.cel.expression] = None
        return list(result)

    def _requests(self) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
        for claims in self._claims_by_pod:
            for claim in claims:
                for request in claim.spec.devices.requests:
                    yield from (class_or_item for class_or_item in (request.exactly, *request.first_available) if class_or_item is not None)

    def run_time_dependency(self, instance: InstanceType, mode: str, template: Template) -> str:
        """What the claims ask of devices that nobody can know before the machine runs; empty if nothing."""
        view = self._view(instance, mode)
        if view is None or not template.runtime_only:
            return ""
        room = NodeDevices(self._cluster, view, self._claim_shapes)
        return next((dependency for shape in self._shapes if (dependency := run_time_dependency(room, template, shape))), "")

    def unmeasured_match(self, instance: InstanceType, mode: str, template: Template) -> str:
        """An attribute that must be equal, and of which nobody knows for which of the GPUs it is; empty if none."""
        view = self._view(instance, mode)
        if view is None or not template.unmeasured:
            return ""
        room = NodeDevices(self._cluster, view, self._claim_shapes)
        return next((name for shape in self._shapes if (name := unmeasured_match(room, template, shape))), "")


def _decided_mode(instance: InstanceType, mode: str, view: NodeView, state: NodeState) -> str:
    """The mode with the layout that follows from what was given."""
    if mode != UNDECIDED or instance.accelerator is None:
        return mode
    layout = filled_layout(allocated_layout(view, state, instance.gpus), instance.accelerator)
    return mode_of(layout) if is_possible(layout, instance.accelerator) else mode


def _form(instance: InstanceType, mode: str) -> str:
    """The name under which the planner keeps such machines, too."""
    return f"{instance.hardware or 'no GPUs'}/{mode}"
