"""Checks the claims of a pod group on a new machine of each type, and diagnoses why they do not fit.

Types with equal GPUs share the results. Claims that do not fit are diagnosed on a single GPU of the model first, as
most reasons apply to every GPU; reasons that depend on the number of GPUs are diagnosed on the whole machine.
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
from allotment.planning.formulation.candidate_nodes import run_time_dependency, unmeasured_match
from allotment.planning.limits import PlanLimits
from allotment.planning.offerings.hypothetical_nodes import (
    ClaimShapes,
    HypotheticalCluster,
    NodeDevices,
    template_cluster,
)
from allotment.planning.offerings.mig_layouts import allocated_layout, filled_layout, is_possible, mode_of
from allotment.planning.offerings.modes import RelevantModes
from allotment.planning.offerings.templates import UNDECIDED, sample_node_name, sample_slices, template
from allotment.planning.pending_pods.demand import ClusterDemand

#: Refusals that depend on properties of a single device and not on the number of devices.
PER_DEVICE_CODES: Final = frozenset(
    ("class-matches-nothing", "selector-matches-nothing", "not-enough-capacity", "driver-missing", "unknown-attribute",
     "unknown-driver", "type-mismatch", "capacity-read-as-attribute", "attribute-read-as-capacity", "selector-fails")
)  # fmt: skip
#: The claims of each pod, in the order of allocation.
ClaimsByPod = Sequence[tuple[ResourceClaim, ...]]


@dataclass(frozen=True, slots=True)
class ItemCount:
    """The number of items that fit a machine, and the mode of its GPUs, including a chosen MIG layout."""

    times: int
    mode: str


class _SampleGpus:
    """One GPU of each model in each mode, for diagnoses; kept for the lifetime of the process."""

    def __init__(self, features: Features) -> None:
        self.cluster = HypotheticalCluster(Inventory(features))
        self._names: PublishedNames | None = None

    def put(self, accelerator: str, mode: str, kube: str) -> str:
        """The name of the node with this GPU; empty if the model does not have the mode."""
        name = sample_node_name(accelerator, mode)
        if name not in self.cluster.inventory.nodes:
            slices = sample_slices(accelerator, mode, kube)
            if slices is None:
                return ""
            self.cluster.view_of(name, {}, lambda: slices)
            self._names = None
        return name

    def names(self) -> PublishedNames:
        """The names that these GPUs publish."""
        if self._names is None:
            self._names = published_names(self.cluster.inventory.slices.values())
        return self._names


#: Sample GPUs that are not in use; see `hypothetical_nodes.template_cluster`.
_IDLE: Final[dict[Features, list[_SampleGpus]]] = {}


def _sample_gpus(features: Features, owner: object) -> _SampleGpus:
    """Sample GPUs for exclusive use by the owner during its lifetime; later owners reuse its results."""
    idle = _IDLE.setdefault(features, [])
    try:
        result = idle.pop()
    except IndexError:
        result = _SampleGpus(features)
    weakref.finalize(owner, idle.append, result)
    return result


class TemplateNodes:
    """The templates of a catalog's types, checked for one group of claims at a time."""

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
        for model in {type_.accelerator.id for type_ in catalog if type_.accelerator is not None and type_.hardware}:
            self._samples.put(model, "", self._kube)

    def set_claims(self, claims_by_pod: ClaimsByPod, limits: PlanLimits) -> None:
        """Continue with the claims of another group."""
        self._claims_by_pod = claims_by_pod
        self._single_gpu_refusals.clear()
        self._claim_shapes = ClaimShapes(self._demand.classes)
        for number, claims in enumerate(claims_by_pod):
            self._claim_shapes.shape_number(number, claims)
        self._shapes = range(len(self._claim_shapes.shapes))
        self._modes = RelevantModes(self._cluster, self._claim_shapes, limits, self._kube)

    # --- templates -----------------------------------------------------------------------------------------------

    def modes(self, instance: InstanceType) -> tuple[str, ...]:
        """The modes that are relevant to the claims, whole GPUs first."""
        assert self._modes is not None
        if instance.accelerator is None:
            return ("",)
        return ("", *self._modes.of_accelerator(instance.accelerator, self._shapes))

    def template(self, instance: InstanceType, mode: str) -> Template | None:
        """The template of the type in a mode; None if its GPUs do not have the mode."""
        try:
            return template(instance, mode, _form(instance, mode), self._kube)
        except FleetError:
            return None

    def _view(self, instance: InstanceType, mode: str) -> NodeView | None:
        template = self.template(instance, mode)
        return None if template is None else self._cluster.view_of(_form(instance, mode), {}, lambda: template.slices)

    def lacks_devices(self, instance: InstanceType, mode: str) -> bool:
        """Whether some request matches no device on such a GPU, regardless of the number of GPUs."""
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
                    if request.subrequests and not any(
                        eligible[subrequest.number] for subrequest in request.subrequests
                    ):
                        return True
        return False

    # --- fit -----------------------------------------------------------------------------------------------------

    def fits(self, instance: InstanceType, mode: str, most: int) -> ItemCount | None:
        """The number of items that fit a new machine, at most ``most``; None if none fits."""
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
        """The state after allocating one item; None if it finds no devices."""
        for claims in self._claims_by_pod:
            work = self._cluster.shape_cache(claims, self._demand.classes)
            verdict = work.verdict_in(view, state)
            if not isinstance(verdict, Solution):
                return None
            state = work.state_after(view, state, verdict)
        return state

    # --- diagnosis -----------------------------------------------------------------------------------------------

    def why_not(self, instance: InstanceType, mode: str) -> AllocationRefusal:
        """The refusal of the claims on a type in one of its modes."""
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
        """The refusal of the first pod whose claims do not fit by themselves, else of all claims; None if they fit."""
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
        diagnoser = Diagnoser(self._samples.cluster.inventory, tries=0, names=self._samples.names)
        diagnosis = diagnoser.diagnose(claims, [node])
        return next((node_.refused for node_ in diagnosis.nodes), diagnosis.headline)

    # --- attributes that claims read -----------------------------------------------------------------------------

    def expressions(self) -> list[str]:
        """The selectors of the claims and of their classes."""
        result: dict[str, None] = {}
        for request in self._requests():
            class_ = self._demand.classes.get(request.device_class_name)
            for selector in (*(class_.spec.selectors if class_ is not None else ()), *request.selectors):
                if selector.cel is not None:
                    result[selector.cel.expression] = None
        return list(result)

    def _requests(self) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
        for claims in self._claims_by_pod:
            for claim in claims:
                for request in claim.spec.devices.requests:
                    yield from (each for each in (request.exactly, *request.first_available) if each is not None)

    def run_time_dependency(self, instance: InstanceType, mode: str, template: Template) -> str:
        """The part of the claims that depends on attributes known only on a running machine, as text; empty if none."""
        view = self._view(instance, mode)
        if view is None or not template.runtime_only:
            return ""
        room = NodeDevices(self._cluster, view, self._claim_shapes)
        return next(
            (dependency for shape in self._shapes if (dependency := run_time_dependency(room, template, shape))), ""
        )

    def unmeasured_match(self, instance: InstanceType, mode: str, template: Template) -> str:
        """An attribute of a matchAttribute constraint whose values are not measured; empty if there is none."""
        view = self._view(instance, mode)
        if view is None or not template.unmeasured:
            return ""
        room = NodeDevices(self._cluster, view, self._claim_shapes)
        return next((name for shape in self._shapes if (name := unmeasured_match(room, template, shape))), "")


def _decided_mode(instance: InstanceType, mode: str, view: NodeView, state: NodeState) -> str:
    """The mode, with the layout that follows from the allocations if it was undecided."""
    if mode != UNDECIDED or instance.accelerator is None:
        return mode
    layout = filled_layout(allocated_layout(view, state, instance.gpus), instance.accelerator)
    return mode_of(layout) if is_possible(layout, instance.accelerator) else mode


def _form(instance: InstanceType, mode: str) -> str:
    """The node name under which `Formulation` keeps these machines, so that both share results."""
    return f"{instance.hardware or 'no GPUs'}/{mode}"
