"""The page of an object: its state, references in both directions, its past, and its manifest."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.api.bound_pods import answer_of_claim, answers_of_bound, is_bound
from allotment.engine.cluster.identity import PoolID
from allotment.errors import InputError
from allotment.explanation.report import Answer, Explanation
from allotment.explanation.text import lines
from allotment.model.core import Node, Pod
from allotment.model.meta import Object, ObjectKey, Value
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.serialization import to_yaml
from allotment.phrases import counted
from allotment.screens.header import Screen, command, header
from allotment.screens.object_refs import (
    DEVICE,
    KINDS,
    POOL,
    WORKLOAD,
    ObjectRef,
    Relation,
    as_relations,
    incoming,
    outgoing,
)
from allotment.screens.object_states import DeviceSpot, ObjectStates, states_of
from allotment.screens.pending import answer_of
from allotment.screens.pending_pods import pending_pods
from allotment.screens.timeline import TimelineEntry, timeline
from allotment.screens.unprepared_pods import prepare_errors
from allotment.tools.free import DeviceReport
from allotment.watched.view import ClusterView

_ONE_LINE = 1_000_000


class Fact(Value, frozen=True, omit_defaults=False):
    """A property of an object."""

    name: str
    value: str


class ObjectPage(Screen, frozen=True):
    """An object; see `ObjectRef` for its name.

    ``sentence``: the first line of `allot explain` for pods and claims. ``group``: that of a pending pod, as in
    ``/pending/ID``. ``yaml``: the manifest, as far as it is known; empty for devices and pools.
    """

    kind: str
    namespace: str
    name: str
    state: str
    sentence: str = ""
    group: str = ""
    facts: tuple[Fact, ...] = ()
    refers_to: tuple[Relation, ...] = ()
    referred_by: tuple[Relation, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    yaml: str = ""


def object_page(view: ClusterView, kind: str, namespace: str, name: str) -> ObjectPage:
    """Return the page of an object. Raises InputError if there is none of this name."""
    ref, states = ObjectRef(kind, namespace, name), states_of(view)
    if kind == DEVICE:
        return _device_page(view, states, ref)
    if kind == POOL:
        return _pool_page(view, states, ref)
    value = _find(view, ref)
    if value is None and not (kind == WORKLOAD and states.pods_of(_workload(ref))):
        raise InputError(f"no {kind} {f'{namespace}/{name}' if namespace else name!r}", argument="name")
    answer = _answer(view, value)
    tree = view.tree(type(value).__name__, value.key) if value is not None else None
    return ObjectPage(
        cluster=header(view),
        command=_command(view, ref),
        kind=kind,
        namespace=namespace,
        name=name,
        state=states.of(value) if value is not None else states.of_workload(_workload(ref)),
        sentence=lines(Explanation((answer,)), width=_ONE_LINE)[0] if answer is not None else "",
        group=_group(states, ref),
        facts=tuple(_facts(states, value)) if value is not None else (),
        refers_to=as_relations(outgoing(value)) if value is not None else (),
        referred_by=as_relations(incoming(view).get(ref, ())),
        timeline=timeline(view, value) if value is not None else (),
        yaml=to_yaml([tree]) if tree is not None else "",
    )


def _workload(ref: ObjectRef) -> str:
    kind, _, name = ref.name.partition("/")
    return f"{kind} {ref.namespace}/{name}"


def _find(view: ClusterView, ref: ObjectRef) -> Object | None:
    if ref.kind == WORKLOAD:
        kind, _, name = ref.name.partition("/")
        return view.find(kind, ObjectKey(ref.namespace, name))
    found = next((type_ for type_, word in KINDS.items() if word == ref.kind), None)
    return view.find(found.__name__, ObjectKey(ref.namespace, ref.name)) if found is not None else None


def _group(states: ObjectStates, ref: ObjectRef) -> str:
    if ref.kind == "pod":
        return states.group_of(f"{ref.namespace}/{ref.name}")
    pods = states.pods_of(_workload(ref)) if ref.kind == WORKLOAD else ()
    return next(filter(None, (states.group_of(str(pod.key)) for pod in pods if not pod.spec.node_name)), "")


def _answer(view: ClusterView, value: Object | None) -> Answer | None:
    """The answer of `allot explain` for a pod or claim; None for other kinds, or if it cannot be given."""
    if isinstance(value, Pod) and is_bound(value):  # it may have devices that cannot be prepared
        return answers_of_bound((value,), view.inputs.cluster, prepare_errors(view))[0]
    if isinstance(value, ResourceClaim) and value.status.allocation is not None:
        return answer_of_claim(value, view.inputs.cluster)
    if isinstance(value, Pod | ResourceClaim):
        try:
            found = pending_pods(view)
        except InputError:
            return None
        group = found.group(found.group_of(str(value.key)))
        return answer_of(group, str(value.key)) if group is not None else None
    return None


def _command(view: ClusterView, ref: ObjectRef) -> str:
    if ref.kind in ("pod", "claim"):
        return command(view, "explain", f"{ref.kind}/{ref.name}", "-n", ref.namespace)
    if ref.kind == WORKLOAD:
        return command(view, "explain", ref.name.lower().partition("/")[0] + "/" + ref.name.partition("/")[2],
                       "-n", ref.namespace)  # fmt: skip
    if ref.kind == "class":
        return command(view, "explain", f"class/{ref.name}")
    return command(view, "free", "-o", "wide")


def _facts(states: ObjectStates, value: Object) -> Iterator[Fact]:
    if isinstance(value, Node):
        report = states.nodes.get(value.metadata.name)
        if report is not None:
            yield Fact("devices", str(len(report.devices)))
            yield Fact("free devices", str(sum(device.state == "free" for device in report.devices)))
            for problem in report.problems:
                yield Fact(f"pool {problem.pool}", f"{problem.why}: {problem.text}")
        for taint in value.spec.taints:
            yield Fact("taint", f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}")
        yield from (Fact(f"label {name}", text) for name, text in value.metadata.labels.items())
    elif isinstance(value, Pod):
        yield Fact("scheduler", value.spec.scheduler_name or "default-scheduler")
        if value.spec.priority:
            yield Fact("priority", str(value.spec.priority))
        for key, text in value.spec.node_selector.items():
            yield Fact(f"nodeSelector {key}", text)
    elif isinstance(value, ResourceClaim | ResourceClaimTemplate):
        spec = value.spec if isinstance(value, ResourceClaim) else value.spec.spec
        yield from (Fact("request", request.name) for request in spec.devices.requests)
    elif isinstance(value, ResourceSlice):
        pool = value.spec.pool
        yield Fact("driver", value.spec.driver)
        yield Fact("pool", f"{pool.name}, generation {pool.generation}, {counted(pool.resource_slice_count, 'slice')}")
        yield Fact("devices", str(len(value.spec.devices or ())))
    elif isinstance(value, DeviceClass):
        for selector in value.spec.selectors:
            if selector.cel is not None:
                yield Fact("selector", selector.cel.expression)
        if value.spec.extended_resource_name:
            yield Fact("extended resource", value.spec.extended_resource_name)


# --- devices and pools -----------------------------------------------------------------------------------------------


def _device_page(view: ClusterView, states: ObjectStates, ref: ObjectRef) -> ObjectPage:
    spot = states.devices.get((ref.namespace, ref.name)) or next(
        (each for each in states.devices.values() if (each.node, each.report.device) == (ref.namespace, ref.name)), None
    )
    if spot is None:
        raise InputError(f"no device {ref.namespace}/{ref.name}", argument="name")
    device = spot.report
    own = ObjectRef(DEVICE, device.pool, device.device)
    return ObjectPage(
        cluster=header(view),
        command=command(view, "free", "-o", "wide"),
        kind=DEVICE,
        namespace=device.pool,
        name=device.device,
        state=device.state,
        facts=tuple(_device_facts(device)),
        refers_to=as_relations(_of_device(spot)),
        referred_by=as_relations(incoming(view).get(own, ())),
    )


def _of_device(spot: DeviceSpot) -> Iterator[tuple[str, ObjectRef]]:
    if spot.node:
        yield "is on", ObjectRef("node", "", spot.node)
    yield "is part of", ObjectRef(POOL, spot.report.driver, spot.report.pool)
    for claim in spot.report.blocked_by:
        namespace, _, name = claim.rpartition("/")
        yield "is blocked by", ObjectRef("claim", namespace, name)


def _device_facts(device: DeviceReport) -> Iterator[Fact]:
    yield Fact("driver", device.driver)
    if device.kind:
        yield Fact("kind", device.kind)
    yield from (Fact("taint", taint) for taint in device.taints)
    for amount in device.capacity:
        yield Fact(f"capacity {amount.name}", f"{amount.left} of {amount.total} left")
    for name, value in device.attributes.items():
        text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        yield Fact(f"attribute {name}", text)


def _pool_page(view: ClusterView, states: ObjectStates, ref: ObjectRef) -> ObjectPage:
    pool = PoolID(ref.namespace, ref.name)
    slices = states.pools.get(pool)
    if slices is None:
        raise InputError(f"no pool {pool}", argument="name")
    current = [slice_ for slice_ in slices if slice_.spec.pool.generation == states.generation(pool)]
    facts = (
        Fact("generation", str(states.generation(pool))),
        Fact("slices", f"{len(current)} of {max(slice_.spec.pool.resource_slice_count for slice_ in current)}"),
        Fact("devices", str(sum(len(slice_.spec.devices or ()) for slice_ in current))),
    )
    nodes = dict.fromkeys(slice_.spec.node_name for slice_ in slices if slice_.spec.node_name)
    return ObjectPage(
        cluster=header(view),
        command=command(view, "free", "-o", "wide"),
        kind=POOL,
        namespace=ref.namespace,
        name=ref.name,
        state=states.of_pool(pool),
        facts=facts,
        refers_to=as_relations(tuple(("is of", ObjectRef("node", "", node)) for node in nodes)),
        referred_by=as_relations(incoming(view).get(ref, ())),
    )
