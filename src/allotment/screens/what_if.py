"""The result of hypothetical changes: pods that lose devices, move or fit nowhere, with the reasons; machines to add.

The pods that lose their node are placed again together with all pending ones, in scheduling order, by the same engine
that explains pending pods. Node rules and devices decide; cpu and memory of nodes are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace as replace_fields
from typing import Final

import msgspec
from msgspec.structs import replace

from allotment.api.plan import plan
from allotment.engine.refusal import CODES, AllocationRefusal, SuggestedChange
from allotment.errors import InputError
from allotment.explanation.pending_run import PendingRun
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.fleet import servers
from allotment.model.core import Pod
from allotment.model.meta import Object, ObjectKey, Value
from allotment.model.releases import RELEASES
from allotment.model.resource import ResourceClaim
from allotment.screens.device_map import DeviceMap, device_map, totals
from allotment.screens.header import Screen, command, header
from allotment.screens.holders import workload_of
from allotment.screens.hypothetical_changes import Change, make
from allotment.screens.hypothetical_cluster import HypotheticalCluster
from allotment.screens.money import PlannedCost, planned_cost
from allotment.screens.pending_pods import pending_pods
from allotment.screens.remedies import in_one_sentence
from allotment.screens.visibility import readers_of
from allotment.watched.view import CarriedValues, ClusterView

#: Rows of each list; the others are counted.
MAX_ROWS: Final = 500
MAX_CHANGES: Final = 50
_NOTE: Final = "cpu and memory of nodes are not counted: only devices and the rules for nodes decide"
_MODES: Final = ("full", "static-mig=1g.5gb:7", "dynamic-mig", "shared", "spx", "cpx")


class WhatIfRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The changes, in the order in which they are made."""

    changes: tuple[Change, ...] = ()


class LosingPod(Value, frozen=True):
    """A pod that loses the devices of a claim, each as ``POOL/DEVICE``."""

    pod: str
    claim: str
    devices: tuple[str, ...] = ()
    workload: str = ""


class MovingPod(Value, frozen=True):
    """A pod that gets another node. ``source``: empty if it had none; ``from`` in JSON."""

    pod: str
    source: str = msgspec.field(name="from", default="")
    to: str = ""
    workload: str = ""
    devices: tuple[str, ...] = ()


class StrandedPod(Value, frozen=True):
    """A pod that fits nowhere after the changes, with the code and sentence of `allot explain`.

    ``remedy``: the first one that undoes none of the assumed changes.
    """

    pod: str
    code: str
    summary: str
    workload: str = ""
    remedy: str = ""


class WhatIfTargets(Value, frozen=True):
    """The choices on the page."""

    nodes: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()


class WhatIfScreen(Screen, frozen=True):
    """The result. ``change_command``: the command line that makes the changes in the cluster; empty if none does.

    ``before`` and ``after``: devices by state. ``map``: the nodes that are different after the changes. ``purchase``:
    machines for the stranded pods; None if there are none, or if it was not requested. ``counts``: the length of each
    list, of which only the first rows are here.
    """

    changes: tuple[str, ...] = ()
    change_command: str = ""
    losing: tuple[LosingPod, ...] = ()
    moving: tuple[MovingPod, ...] = ()
    stranded: tuple[StrandedPod, ...] = ()
    counts: dict[str, int] = {}
    purchase: PlannedCost | None = None
    before: dict[str, int] = {}
    after: dict[str, int] = {}
    map: DeviceMap | None = None
    notes: tuple[str, ...] = ()
    targets: WhatIfTargets | None = None


def what_if(view: ClusterView, request: WhatIfRequest, *, purchase: bool = True) -> WhatIfScreen:
    """Return what happens after changes. Raises InputError if a target or value does not exist."""
    before = totals(view.free)
    if len(request.changes) > MAX_CHANGES:
        raise InputError(f"expected at most {MAX_CHANGES} changes, found {len(request.changes)}", argument="changes")
    if not request.changes:
        return WhatIfScreen(
            cluster=header(view), command=command(view, "free"), before=before, after=before, targets=targets(view)
        )
    cluster = HypotheticalCluster(view)
    made = []
    for number, change in enumerate(request.changes):
        try:
            made.append(make(cluster, change))
        except InputError as error:
            raise InputError(str(error.problem), error.hint, argument=f"changes[{number}]") from None
    placed = _Placement(cluster)
    after_view = _view_after(view, cluster, placed.objects())
    changed = device_map(after_view, names=_changed_nodes(view, after_view))
    gone = {node.node for node in view.free.nodes} - {node.node for node in after_view.free.nodes}
    losing = [
        LosingPod(pod=str(lost.pod), claim=str(lost.claim), devices=lost.devices, workload=lost.workload)
        for lost in cluster.lost
    ]
    moving, stranded = placed.moving(), placed.stranded()
    counts = {"losing": len(losing), "moving": len(moving), "stranded": len(stranded)}
    needed = _purchase(view, cluster, placed) if purchase and stranded else None
    commands = [each.command for each in made if each.command]
    return WhatIfScreen(
        cluster=header(view),
        command="",
        changes=tuple(each.sentence for each in made),
        change_command=" && ".join(commands) if len(commands) == len(made) else "",
        losing=tuple(losing[:MAX_ROWS]),
        moving=tuple(moving[:MAX_ROWS]),
        stranded=tuple(stranded[:MAX_ROWS]),
        counts=counts,
        purchase=needed,
        before=before,
        after=totals(after_view.free),
        map=replace(changed, removed=tuple(sorted(gone))),
        notes=(_NOTE,) if moving or stranded else (),
        targets=targets(view),
    )


def targets(view: ClusterView) -> WhatIfTargets:
    """Return what can be chosen."""
    return view.cached("screens.targets", lambda: _targets(view))


def _targets(view: ClusterView) -> WhatIfTargets:
    workloads: dict[str, None] = {}
    for value in view.inputs.cluster:
        if isinstance(value, Pod) and value.spec.resource_claims and (workload := workload_of(value)):
            kind, _, full = workload.partition(" ")
            namespace, _, name = full.partition("/")
            workloads[f"{namespace}/{kind}/{name}"] = None
    return WhatIfTargets(
        nodes=tuple(node.node for node in view.free.nodes if node.node),
        workloads=tuple(sorted(workloads)),
        machines=tuple(servers()),
        modes=_MODES,
        releases=tuple(reversed(RELEASES)),
    )


class _Placement:
    """The pods of a changed cluster, placed in scheduling order."""

    def __init__(self, cluster: HypotheticalCluster) -> None:
        self._cluster = cluster
        view, inputs = cluster.view, cluster.inputs()
        values = objects_to_explain(inputs.cluster, ())
        groups = pending_pods(view).groups
        self._was_pending = {name for group in groups for name in group.by_name}
        self._was_refused = {name for group in groups if not group.first.fits for name in group.by_name}
        self._run = PendingRun(
            values,
            inputs.features,
            other_pods(inputs.cluster, values),
            readers=readers_of(view),
            is_explained=lambda pod: str(pod.key) not in self._was_refused,
        )

    def moving(self) -> list[MovingPod]:
        """The pods that get a node because of the changes."""
        found = []
        for shape in self._run.answers:
            if shape.answer.fits and shape.pods and self._is_affected(shape.pods[0], fits=True):
                pod, answer = shape.pods[0], shape.answer
                devices = tuple(f"{d.pool}/{d.device}" for claim in answer.claims for d in claim.devices)
                source = self._cluster.sources.get(pod.key, "")
                found.append(
                    MovingPod(
                        pod=str(pod.key), source=source, to=answer.node, workload=workload_of(pod), devices=devices
                    )
                )
        return found

    def stranded(self) -> list[StrandedPod]:
        """The pods that fit nowhere because of the changes."""
        found = []
        for shape in self._run.answers:
            reasons = shape.answer.reasons
            for pod in shape.pods if reasons is not None else ():
                if reasons is not None and self._is_affected(pod, fits=False):
                    headline = reasons.headline
                    summary = headline.summary or CODES[headline.code].summary
                    remedy = in_one_sentence(self._remedy(headline, workload_of(pod)))
                    found.append(StrandedPod(str(pod.key), headline.code, summary, workload_of(pod), remedy))
        return found

    def _remedy(self, headline: AllocationRefusal, workload: str) -> Sequence[SuggestedChange]:
        """The first remedy that undoes none of the assumed changes."""

        def is_undone(change: SuggestedChange) -> bool:
            of = workload if change.remedy == "replicas" else change.object.removeprefix("Node ") or change.node
            return (change.remedy, of) in self._cluster.undone_by

        remedies = (headline.changes, headline.otherwise)
        return next((changes for changes in remedies if changes and not any(map(is_undone, changes))), ())

    def _is_affected(self, pod: Pod, *, fits: bool) -> bool:
        """Whether the changes are why a pod gets a node, or none."""
        name = str(pod.key)
        if pod.key in self._cluster.sources and name not in self._was_pending:
            return True
        return name in self._was_refused if fits else name in self._was_pending and name not in self._was_refused

    def objects(self) -> Iterable[Object]:
        """The objects after all pods were placed."""
        fitting = (shape for shape in self._run.answers if shape.answer.fits and shape.pods)
        nodes = {shape.pods[0].key: shape.answer for shape in fitting}
        claims = dict(self._run.claims)
        for value in self._cluster.objects.values():
            if isinstance(value, ResourceClaim):
                yield claims.pop(value.key, value)
            elif isinstance(value, Pod) and (answer := nodes.get(value.key)) is not None and answer.node:
                yield replace(value, spec=replace(value.spec, node_name=answer.node))
            else:
                yield value
        yield from claims.values()

    def stranded_keys(self) -> set[ObjectKey]:
        """The pods that need additional machines."""
        return {ObjectKey(*found.pod.split("/", 1)) for found in self.stranded()}


def _view_after(view: ClusterView, cluster: HypotheticalCluster, objects: Iterable[Object]) -> ClusterView:
    return replace_fields(
        view,
        inputs=cluster.inputs(list(objects)),
        kube=cluster.features.kube,
        devices=None,
        trees={},
        carried=CarriedValues(),
    )


def _changed_nodes(before: ClusterView, after: ClusterView) -> Sequence[str]:
    old = {node.node: node for node in before.free.nodes}
    return [node.node for node in after.free.nodes if old.get(node.node) != node]


def _purchase(view: ClusterView, cluster: HypotheticalCluster, placed: _Placement) -> PlannedCost:
    """The cheapest machines for the stranded pods; without a search for better ones, so that it takes no seconds."""
    wanted = placed.stranded_keys()
    kept = [
        value
        for value in placed.objects()
        if not (isinstance(value, Pod) and value.is_pending and value.key not in wanted)
    ]
    return planned_cost(plan(cluster=_view_after(view, cluster, kept).cluster, time_limit=0))
