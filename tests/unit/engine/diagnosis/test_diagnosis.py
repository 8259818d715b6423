"""Invariants of every diagnosis: it agrees with the engine, and its suggested changes help."""

from __future__ import annotations

import json

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.diagnoser import diagnose
from allotment.engine.diagnosis.scenario import Scenario
from allotment.engine.diagnosis.trial_cache import TrialCache
from allotment.engine.outcome import Aborted, Allocated, Outcome
from allotment.engine.refusal import CODES, AllocationRefusal, Diagnosis
from allotment.model.features import Features
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    AllocationResult,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.model.trees import to_tree, to_value
from tests.manifest_changes import apply_change

FEATURES = Features(kube="1.36")
DRIVER = "gpu.example.com"
WAITING = {"devices-in-use", "capacity-in-use"}
STEPS = ("class", "selector", "capacity", "taints", "counters", "in-use", "constraint")


def selector(*expressions: str) -> tuple[DeviceSelector, ...]:
    return tuple(DeviceSelector(cel=CELDeviceSelector(expression=e)) for e in expressions)


CLASSES = (
    DeviceClass(metadata=ObjectMeta(name="any")),
    DeviceClass(
        metadata=ObjectMeta(name="gpu"), spec=DeviceClassSpec(selectors=selector(f'device.driver == "{DRIVER}"'))
    ),
    DeviceClass(
        metadata=ObjectMeta(name="wrong"), spec=DeviceClassSpec(selectors=selector('device.driver == "example.com"'))
    ),
)
EXPRESSIONS = (
    f'device.attributes["{DRIVER}"].model == "a"',
    f'device.attributes["{DRIVER}"].model == "x"',
    f'device.attributes["{DRIVER}"].modle == "a"',
    f'device.attributes["{DRIVER}"].slot == "1"',
    f'device.attributes["{DRIVER}"].slot >= 1',
    f'device.attributes["{DRIVER}"].memory == "1"',
    'device.attributes["example.com"].model == "a"',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("2Gi")) >= 0',
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("4Gi"))',
    f'device.attributes["{DRIVER}"].model == "a" && device.attributes["{DRIVER}"].slot == 0',
    f'device.capacity["{DRIVER}"].memory >= quantity("2Gi")',
    f'device.attributes["{DRIVER}"].model in ["b", "c"] || device.attributes["{DRIVER}"].slot == 2',
)


@st.composite
def slices(draw: st.DrawFn, node: str) -> list[ResourceSlice]:
    counted = draw(st.booleans())
    devices = []
    for slot in range(draw(st.integers(0, 4))):
        takes = DeviceCounterConsumption(
            counter_set="card", counters={"units": Counter(value=Quantity.of_int(slot + 1))}
        )
        devices.append(
            Device(
                name=f"d{slot}",
                attributes={
                    "model": DeviceAttribute(string=draw(st.sampled_from("ab"))),
                    "slot": DeviceAttribute(int_=slot),
                },
                capacity={"memory": DeviceCapacity(value=Quantity.parse(draw(st.sampled_from(("1Gi", "2Gi", "4Gi")))))},
                taints=(DeviceTaint(key="t", value="v", effect="NoSchedule"),) if draw(st.integers(0, 4)) == 0 else (),
                consumes_counters=(takes,) if counted else (),
                allow_multiple_allocations=True if draw(st.integers(0, 4)) == 0 else None,
            )
        )
    announced = (2 if counted else 1) + (1 if draw(st.integers(0, 7)) == 0 else 0)
    pool = ResourcePool(name=node, generation=1, resource_slice_count=announced)
    found = [
        ResourceSlice(
            metadata=ObjectMeta(name=f"{node}-devices"),
            spec=ResourceSliceSpec(driver=DRIVER, node_name=node, pool=pool, devices=tuple(devices)),
        )
    ]
    if counted:
        card = CounterSet(name="card", counters={"units": Counter(value=Quantity.of_int(4))})
        found.append(
            ResourceSlice(
                metadata=ObjectMeta(name=f"{node}-counters"),
                spec=ResourceSliceSpec(driver=DRIVER, node_name=node, pool=pool, shared_counters=(card,)),
            )
        )
    return found


@st.composite
def requests(draw: st.DrawFn, name: str) -> DeviceRequest:
    def part() -> dict[str, object]:
        all_ = draw(st.integers(0, 5)) == 0
        expressions = draw(st.lists(st.sampled_from(EXPRESSIONS), max_size=2))
        tolerations = (DeviceToleration(key="t", operator="Exists"),) if draw(st.integers(0, 3)) == 0 else ()
        amount = draw(st.sampled_from((None, None, None, "1Gi", "3Gi", "8Gi")))
        return {
            "device_class_name": draw(st.sampled_from(("any", "gpu", "gpu", "wrong"))),
            "selectors": selector(*expressions),
            "allocation_mode": "All" if all_ else "ExactCount",
            "count": 0 if all_ else draw(st.sampled_from((1, 1, 1, 2, 3, 40))),
            "tolerations": tolerations,
            "capacity": CapacityRequirements(requests={"memory": Quantity.parse(amount)}) if amount else None,
        }

    if draw(st.integers(0, 3)):
        return DeviceRequest(name=name, exactly=ExactDeviceRequest(**part()))  # type: ignore[arg-type]
    subs = tuple(DeviceSubRequest(name=f"s{i}", **part()) for i in range(draw(st.integers(1, 3))))  # type: ignore[arg-type]
    return DeviceRequest(name=name, first_available=subs)


@st.composite
def claims(draw: st.DrawFn, name: str) -> ResourceClaim:
    requested = tuple(draw(requests(f"r{i}")) for i in range(draw(st.integers(1, 2))))
    attribute = draw(st.sampled_from((None, None, f"{DRIVER}/model", f"{DRIVER}/slot", f"{DRIVER}/modle")))
    kind = draw(st.sampled_from(("match_attribute", "distinct_attribute")))
    constraints = (DeviceConstraint(**{kind: attribute}),) if attribute else ()  # type: ignore[arg-type]
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="ns"),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requested, constraints=constraints)),
    )


@st.composite
def situations(draw: st.DrawFn) -> tuple[Inventory, list[ResourceClaim], list[ResourceClaim]]:
    """An inventory, the claims of a pod, and the allocated claims."""
    nodes = [f"n{i}" for i in range(draw(st.integers(1, 3)))]
    published = [s for node in nodes for s in draw(slices(node))]
    allocated = []
    for slice_ in published:
        for device in slice_.spec.devices or ():
            if device.allow_multiple_allocations or draw(st.integers(0, 3)):
                continue
            result = DeviceRequestAllocationResult(
                request="r", driver=DRIVER, pool=slice_.spec.pool.name, device=device.name
            )
            allocated.append(
                ResourceClaim(
                    metadata=ObjectMeta(name=f"{slice_.metadata.name}-{device.name}", namespace="other"),
                    status=ResourceClaimStatus(
                        allocation=AllocationResult(devices=DeviceAllocationResult(results=(result,)))
                    ),
                )
            )
    inventory = Inventory.of(
        FEATURES, nodes=[(node, {}) for node in nodes], slices=published, classes=CLASSES, claims=allocated
    )
    pod = [draw(claims(f"c{i}")) for i in range(draw(st.sampled_from((1, 1, 1, 2))))]
    return inventory, pod, allocated


def every(diagnosis: Diagnosis) -> list[AllocationRefusal]:
    return [diagnosis.headline, *(row.refused for row in diagnosis.nodes)]


@given(situations())
def test_reasons_agree_with_the_engine(situation: tuple[Inventory, list[ResourceClaim], list[ResourceClaim]]) -> None:
    inventory, pod, allocated = situation
    outcomes = {node: Allocator(inventory).allocate(node, pod) for node in inventory.nodes}
    diagnosis = diagnose(inventory, pod, allocated)
    refusing = {node for node, outcome in outcomes.items() if not isinstance(outcome, Allocated)}
    reported = [node for row in diagnosis.nodes for node in row.nodes]
    assert sorted(reported) == sorted(refusing)
    assert set(diagnosis.fitting) == set(outcomes) - refusing
    for refused in every(diagnosis):
        assert refused.code in CODES
        assert refused.summary
    for row in diagnosis.nodes:
        for node in row.nodes:
            outcome = outcomes[node]
            if isinstance(outcome, Aborted):
                assert row.refused.code not in WAITING


@given(situations())
def test_every_refusal_is_explained(situation: tuple[Inventory, list[ResourceClaim], list[ResourceClaim]]) -> None:
    inventory, pod, allocated = situation
    for row in diagnose(inventory, pod, allocated).nodes:
        assert row.refused.code != "not-explained"


@given(situations())
def test_busy_devices_do_not_hide_the_cause(
    situation: tuple[Inventory, list[ResourceClaim], list[ResourceClaim]],
) -> None:
    """If the claims do not fit the idle node, the busy node has the same code; otherwise devices are in use.

    A device in use may avoid an error, because allocationMode All then ends the alternative before its constraints.
    """
    inventory, pod, allocated = situation
    busy = {node: row.refused for row in diagnose(inventory, pod, allocated).nodes for node in row.nodes}
    for claim in allocated:
        inventory.free(ObjectKey(claim.metadata.namespace, claim.metadata.name))
    idle = {node: row.refused for row in diagnose(inventory, pod).nodes for node in row.nodes}
    for node in idle.keys() - busy.keys():
        assert isinstance(Allocator(inventory).allocate(node, pod), Aborted)
    for node, refused in busy.items():
        if node in idle:
            assert refused.code == idle[node].code, refused
        else:
            assert refused.code in WAITING | {"counters-exhausted", "no-alternative-fits"}, refused


@given(situations())
def test_funnels_only_narrow(situation: tuple[Inventory, list[ResourceClaim], list[ResourceClaim]]) -> None:
    inventory, pod, allocated = situation
    for refused in every(diagnose(inventory, pod, allocated)):
        for funnel in (*refused.funnels, *(f for a in refused.alternatives for f in a.funnels)):
            left = funnel.visible
            for step in funnel.steps:
                assert step.left + len(step.lost) == left
                left = step.left
            assert [step.step for step in funnel.steps] == sorted((s.step for s in funnel.steps), key=STEPS.index)
        if refused.code in ("constraint-values-differ", "constraint-attribute-unpublished"):
            assert any(funnel.steps[-1].step == "constraint" for funnel in refused.funnels if funnel.steps)


@given(situations())
def test_suggested_changes_make_the_claims_fit(
    situation: tuple[Inventory, list[ResourceClaim], list[ResourceClaim]],
) -> None:
    """The changes are applied to the objects in order; then the engine allocates again.

    If an error ends the attempt, the first reason may have the remedy of another node.
    """
    inventory, pod, allocated = situation
    for number, row in enumerate(diagnose(inventory, pod, allocated).nodes):
        changes = row.refused.changes
        if not changes or not all(change.object for change in changes):
            event("no change, or none that is written into an object")
            continue
        event("changes made")
        claims_ = [to_tree(c, "v1", "ResourceClaim") for c in pod]
        holding = [to_tree(c, "v1", "ResourceClaim") for c in allocated]
        classes = [to_tree(c, "v1", "DeviceClass") for c in CLASSES]
        for change in changes:
            assert apply_change([*claims_, *holding, *classes], change), change
        # A released claim helps only on its node; other changes help on all equivalent nodes.
        freeing = any(change.path == "status.allocation" for change in changes)
        named = {change.node for change in changes}
        assert number == 0 or named <= set(row.nodes)
        for node in named if freeing or not named <= set(row.nodes) else row.nodes:
            again = Inventory.of(
                FEATURES,
                nodes=[(node, {})],
                slices=inventory.slices.values(),
                classes=[to_value(tree, DeviceClass) for tree in classes],
                claims=[to_value(tree, ResourceClaim) for tree in holding],
            )
            outcome = Allocator(again).allocate(node, [to_value(tree, ResourceClaim) for tree in claims_])
            assert isinstance(outcome, Allocated), json.dumps([to_tree(change) for change in changes])


def device_node(node: str) -> ResourceSlice:
    devices = tuple(
        Device(
            name=f"gpu-{i}",
            attributes={
                "model": DeviceAttribute(string="a"),
                "slot": DeviceAttribute(int_=i),
                "uuid": DeviceAttribute(string=f"{node}-{i}"),
            },
            capacity={"memory": DeviceCapacity(value=Quantity.parse("40Gi"))},
        )
        for i in range(8)
    )
    return ResourceSlice(
        metadata=ObjectMeta(name=node),
        spec=ResourceSliceSpec(
            driver=DRIVER,
            node_name=node,
            pool=ResourcePool(name=node, generation=1, resource_slice_count=1),
            devices=devices,
        ),
    )


def claim_for(*expressions: str, count: int = 1) -> ResourceClaim:
    exactly = ExactDeviceRequest(
        device_class_name="gpu", selectors=selector(*expressions), allocation_mode="ExactCount", count=count
    )
    requests_ = (DeviceRequest(name="gpu", exactly=exactly),)
    return ResourceClaim(
        metadata=ObjectMeta(name="c", namespace="ns"), spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests_))
    )


@pytest.fixture
def engine_calls(monkeypatch: pytest.MonkeyPatch) -> list[Scenario]:
    """The scenarios that the engine evaluated, in order."""
    requested: list[Scenario] = []
    call = TrialCache.__call__

    def counted(self: TrialCache, scenario: Scenario) -> Outcome:
        requested.append(scenario)
        return call(self, scenario)

    monkeypatch.setattr(TrialCache, "__call__", counted)
    return requested


def test_five_thousand_equivalent_nodes_are_diagnosed_once(engine_calls: list[Scenario]) -> None:
    """UUIDs differ between nodes, but no selector reads them."""
    claim = claim_for(f'device.attributes["{DRIVER}"].model == "h"')
    work = []
    for count in (1, 5000):
        names = [f"node-{i}" for i in range(count)]
        inventory = Inventory.of(
            FEATURES, nodes=[(n, {}) for n in names], slices=map(device_node, names), classes=CLASSES
        )
        diagnosis = diagnose(inventory, [claim])
        assert [len(row.nodes) for row in diagnosis.nodes] == [count]
        assert diagnosis.headline.code == "selector-matches-nothing"
        work.append(len(engine_calls))
        engine_calls.clear()
    assert work[0] == work[1] > 0


def test_nodes_with_different_values_of_read_attributes_are_diagnosed_separately() -> None:
    names = ["n1", "n2"]
    inventory = Inventory.of(FEATURES, nodes=[(n, {}) for n in names], slices=map(device_node, names), classes=CLASSES)
    diagnosis = diagnose(inventory, [claim_for(f'device.attributes["{DRIVER}"].uuid == "n3-0"')])
    assert sorted(row.nodes for row in diagnosis.nodes) == [("n1",), ("n2",)]
    summaries = {row.refused.summary for row in diagnosis.nodes}
    assert len(summaries) == 2


def test_diagnosis_is_deterministic() -> None:
    def answer() -> Diagnosis:
        inventory = Inventory.of(FEATURES, nodes=[("n", {})], slices=[device_node("n")], classes=CLASSES)
        return diagnose(inventory, [claim_for(EXPRESSIONS[8], EXPRESSIONS[1], count=2)])

    assert answer() == answer()


def test_a_disabled_feature_is_reported() -> None:
    """Objects of a cluster may be older than the last change of the gate, so the field may still be set."""
    requested = ResourceClaim(
        metadata=ObjectMeta(name="c", namespace="ns"),
        spec=ResourceClaimSpec(
            devices=DeviceClaim(
                requests=(
                    DeviceRequest(
                        name="r",
                        exactly=ExactDeviceRequest(
                            device_class_name="gpu",
                            capacity=CapacityRequirements(requests={"memory": Quantity.parse("1Gi")}),
                        ),
                    ),
                )
            )
        ),
    )
    off = Features(kube="1.36", gates={"DRAConsumableCapacity": False})
    refused = diagnose(Inventory.of(off, nodes=[("n", {})], classes=CLASSES), [requested]).headline
    assert (refused.code, refused.claim, refused.request) == ("feature-off", "ns/c", "r")
    assert refused.summary.endswith("has capacity requests, but the DRAConsumableCapacity feature is disabled")
