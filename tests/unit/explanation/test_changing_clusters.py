"""The explanations of a cluster that changes are those of the same cluster that is read as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, count
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.explanation import explain
from allotment.explanation.pending_run import NotApplicable, PendingRun, ShapeAnswer, is_applicable
from allotment.explanation.prepared_devices import PreparedDevices
from allotment.explanation.report import Answer
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.model.core import Node, Pod, Taint
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectMeta
from allotment.model.resource import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceSlice,
)
from tests.corpus.test_corpus import Scenario
from tests.unit.explanation.test_pending_run import NAMES
from tests.unit.screens.clusters import fleet, pod, request, template

pytestmark = pytest.mark.usefixtures("short_searches")

_NUMBERS = count(1)
#: Scenarios whose explanation takes seconds.
_SLOW = frozenset({"too-many-nodes"})


def identified(value: Object) -> Object:
    """The object as an API server returns it, with another identity than before."""
    return replace(value, metadata=replace(value.metadata, uid=value.metadata.uid or f"uid-{next(_NUMBERS)}"))


class World(NamedTuple):
    """A cluster of the corpus. ``states``: those of each object; None stands for an absent one."""

    features: Features
    states: tuple[tuple[Object | None, ...], ...]


@cache
def world(name: str) -> World:
    scenario = Scenario(name)
    values = [identified(value) for value in scenario.values]
    nodes = [value for value in values if isinstance(value, Node)]
    slices = [value for value in values if isinstance(value, ResourceSlice)]
    more: list[Object] = []
    if nodes and slices:
        more += _added(nodes[0], slices, "0-first") + _added(nodes[-1], slices, "zz-last")
    held = _claim_on(slices)
    states = [tuple(_states(value, held)) for value in (*values, *more)]
    rule = DeviceTaintRule(
        metadata=ObjectMeta(name="rule", uid="rule"),
        spec=DeviceTaintRuleSpec(
            device_selector=DeviceTaintSelector(), taint=DeviceTaint(key="k", value="v", effect="NoSchedule")
        ),
    )
    other = identified(ResourceClaim(metadata=ObjectMeta(name="other", namespace="other"), status=held))
    admin = replace(other, status=_with_admin_access(held))
    return World(scenario.features, (*states, (None, rule), (None, other, admin)))


def _added(node: Node, slices: Sequence[ResourceSlice], name: str) -> list[Object]:
    """Another node with the hardware of an existing one."""
    metadata = replace(node.metadata, name=name, uid=f"uid-{name}")
    own = [each for each in slices if each.spec.node_name == node.metadata.name]
    return [
        replace(node, metadata=metadata),
        *(
            replace(
                each,
                metadata=replace(each.metadata, name=f"{name}-{each.metadata.name}", uid=f"uid-{name}-{number}"),
                spec=replace(each.spec, node_name=name, pool=replace(each.spec.pool, name=name)),
            )
            for number, each in enumerate(own)
        ),
    ]


def _claim_on(slices: Sequence[ResourceSlice]) -> ResourceClaimStatus:
    """The status of a claim that holds the first device."""
    found = next(((each.spec, device) for each in slices for device in each.spec.devices or ()), None)
    if found is None:
        return ResourceClaimStatus()
    spec, device = found
    result = DeviceRequestAllocationResult(request="gpu", driver=spec.driver, pool=spec.pool.name, device=device.name)
    return ResourceClaimStatus(
        allocation=AllocationResult(devices=DeviceAllocationResult(results=(result,))),
        reserved_for=(ResourceClaimConsumerReference(resource="pods", name="user"),),
    )


def _with_admin_access(held: ResourceClaimStatus) -> ResourceClaimStatus:
    if held.allocation is None:
        return held
    results = tuple(replace(each, admin_access=True) for each in held.allocation.devices.results)
    return replace(held, allocation=AllocationResult(devices=DeviceAllocationResult(results=results)))


def _states(value: Object, held: ResourceClaimStatus) -> Iterator[Object | None]:
    """The states of an object, the first one as it is in the scenario."""
    yield value
    yield None
    yield replace(value, metadata=replace(value.metadata, resource_version="2"))
    match value:
        case Node():
            yield replace(value, spec=replace(value.spec, unschedulable=True))
            yield replace(value, spec=replace(value.spec, taints=(Taint(key="k", effect="NoSchedule"),)))
            yield replace(value, metadata=replace(value.metadata, labels={"zone": "z"}))
        case ResourceSlice():
            devices, spec = tuple(value.spec.devices or ()), value.spec
            yield replace(value, spec=replace(spec, devices=devices[1:]))
            yield replace(value, spec=replace(spec, devices=tuple(reversed(devices))))
            yield replace(value, spec=replace(spec, devices=tuple(_tainted(devices))))
            yield replace(value, spec=replace(spec, devices=tuple(map(_renamed, devices))))
            pool = replace(spec.pool, resource_slice_count=spec.pool.resource_slice_count + 1)
            yield replace(value, spec=replace(spec, pool=pool))
            yield replace(value, spec=replace(spec, pool=replace(spec.pool, generation=spec.pool.generation + 1)))
        case DeviceClass():
            yield replace(value, spec=replace(value.spec, selectors=()))
        case ResourceClaim():
            yield replace(value, status=held if value.status.allocation is None else ResourceClaimStatus())
            yield replace(value, status=replace(value.status, reserved_for=()))
        case Pod():
            yield replace(value, spec=replace(value.spec, node_name="0-first"))
            yield replace(value, spec=replace(value.spec, node_selector={"zone": "z"}))
        case _:
            pass


def _tainted(devices: Sequence[Device]) -> Iterator[Device]:
    for number, device in enumerate(devices):
        taint = DeviceTaint(key="k", value="v", effect="NoSchedule")
        yield replace(device, taints=(taint,)) if number == 0 else device


def _renamed(device: Device) -> Device:
    """A device with other names of attributes."""
    return replace(device, attributes={f"{name}2": value for name, value in device.attributes.items()})


def machines_by_name(*names: str) -> tuple[list[Object], dict[str, list[Object]]]:
    """The classes and, by name, the node and slice of machines with four GPUs."""
    found: dict[str, list[Object]] = {name: [] for name in names}
    classes: list[Object] = []
    for value in fleet(*(f"{name}=t4-4x-pcie" for name in names)):
        node = value.spec.node_name if isinstance(value, ResourceSlice) else value.metadata.name
        found.get(node or "", classes).append(value)
    return classes, found


#: The numbers of an object and of its state.
Change = tuple[int, int]


class Steps(NamedTuple):
    """Changes of a world, several at each step, after which the objects may be in reverse order."""

    world: World
    steps: list[tuple[list[Change], bool]]


def _steps(name: str) -> st.SearchStrategy[Steps]:
    found = world(name)
    last = len(found.states) - 1
    # Half of the changes are of the taint rule and of the claim that holds a device, among many other objects.
    numbers = st.one_of(st.integers(0, last), st.integers(max(last - 1, 0), last))
    changes = st.tuples(numbers, st.integers(0, 11))
    step = st.tuples(st.lists(changes, max_size=4), st.integers(0, 7).map(lambda number: number == 0))
    return st.lists(step, min_size=1, max_size=4).map(lambda steps: Steps(found, steps))


def clusters(steps: Steps) -> Iterator[list[Object]]:
    """The objects after each step."""
    present = [states[0] for states in steps.world.states]
    yield [value for value in present if value is not None]
    for changes, is_reversed in steps.steps:
        for number, state in changes:
            states = steps.world.states[number]
            present[number] = states[state % len(states)]
        values = [value for value in present if value is not None]
        yield values[::-1] if is_reversed else values


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from([name for name in NAMES if name not in _SLOW]).flatmap(_steps))
def test_answers_are_those_of_the_whole_cluster(steps: Steps) -> None:
    features = steps.world.features
    prepared = PreparedDevices(features)
    runs: list[tuple[PendingRun, PendingRun]] = []
    for cluster in clusters(steps):
        values = objects_to_explain(cluster, ())
        others = other_pods(cluster, values)
        run, whole = prepared.pending(values, others), PendingRun(values, features, others)
        assert run.answers == whole.answers
        assert run.claims == whole.claims
        assert prepared.explain(values, others) == explain(values, features, others=others)
        runs.append((run, whole))
    for run, whole in runs[:1] + runs[-1:]:  # also of a cluster that has changed since
        for found in run.answers[:2]:
            assert outcome_after_changes(run, found) == outcome_after_changes(whole, found)


def outcome_after_changes(run: PendingRun, found: ShapeAnswer) -> object:
    """The answers after the first remedies of a shape."""
    reasons = found.answer.reasons
    if reasons is None or not is_applicable(reasons.headline.changes):
        return None
    try:
        return run.after(found.answer, reasons.headline.changes)
    except NotApplicable as error:
        return str(error)


FEATURES = Features("1.36")
CLASSES, MACHINES = machines_by_name("a", "b", "c")


def answers(prepared: PreparedDevices, *objects: Object) -> Sequence[Answer]:
    """The answers, which are those of the whole cluster."""
    values = objects_to_explain((*CLASSES, template(), *objects), ())
    found = prepared.explain(values)
    assert found == explain(values, FEATURES)
    return found.answers


def test_nodes_are_tried_in_order_although_some_came_later() -> None:
    prepared, waiting = PreparedDevices(FEATURES), pod("p")
    chosen = [
        answers(prepared, *chain.from_iterable(MACHINES[name] for name in names), *waiting)[0].node
        for names in ("bc", "abc", "c", "bc", "ac")
    ]
    assert chosen == ["b", "a", "c", "b", "a"]


def test_claims_on_one_device_are_named_in_order_although_one_came_later() -> None:
    prepared, waiting = PreparedDevices(FEATURES), pod("large", spec=request(4))
    one, other = (
        replace(claim, metadata=replace(claim.metadata, name=f"claim-of-{name}", uid=name))
        for name in ("x", "y")
        for claim in pod(name, "gpu-0", node="a")[1:]
    )
    for claims in ((one, other), (other,), (one, other)):
        answers(prepared, *MACHINES["a"], *claims, *waiting)


def test_a_device_is_free_again_after_its_claim_is_released_or_deleted() -> None:
    prepared, waiting = PreparedDevices(FEATURES), pod("large", spec=request(4))
    holder, claim = pod("holder", "gpu-0", node="a")
    released = replace(claim, status=ResourceClaimStatus())
    fits = [
        answers(prepared, *MACHINES["a"], *others, *waiting)[0].fits
        for others in ((holder, claim), (), (holder, claim), (released,), (holder, claim))
    ]
    assert fits == [False, True, False, True, False]


def test_the_run_of_an_unchanged_cluster_is_the_same_one() -> None:
    values = objects_to_explain([v for states in world("too-few-devices").states if (v := states[0])], ())
    prepared = PreparedDevices(Features("1.36"))
    assert prepared.pending(values, []) is prepared.pending(tuple(values), [])
