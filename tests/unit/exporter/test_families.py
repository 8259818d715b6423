"""The metrics of devices, claims and pending pods."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.engine.refusal import CODES
from allotment.exporter.causes import CAUSES
from allotment.exporter.costs import NodePrices
from allotment.exporter.definitions import CLAIM_COST, METRICS
from allotment.exporter.families import FamilyBuilder, families
from allotment.exporter.latency import Latencies
from allotment.exporter.state import ExporterState
from allotment.fleet.catalog import catalog
from allotment.model.core import Node, NodeSpec, PodSchedulingGate, Taint
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey, ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import Counter as DeviceCounter
from allotment.model.resource import (
    CounterSet,
    Device,
    DeviceCounterConsumption,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceSlice,
)
from allotment.tools.free import free
from tests.unit.exporter.clusters import FEATURES, claim, fleet, pod, template
from tests.unit.exporter.exposition import values_of

T4 = "Tesla T4"
NVIDIA = "gpu.nvidia.com"
BEFORE = "2025-12-31T00:00:00Z"


def values(name: str, *objects: Object) -> dict[tuple[str, ...], float]:
    return values_of(families(objects, FEATURES, catalog()), name)


def rule(name: str, device: str, effect: str) -> DeviceTaintRule:
    return DeviceTaintRule(
        metadata=ObjectMeta(name=name),
        spec=DeviceTaintRuleSpec(
            taint=DeviceTaint(key="broken", effect=effect), device_selector=DeviceTaintSelector(device=device)
        ),
    )


def test_each_device_is_in_one_state() -> None:
    found = values("allotment_devices", *fleet("a=3xt4"), claim("one", "gpu-0"), rule("r", "gpu-1", "NoSchedule"))
    assert found == {("a", NVIDIA, T4, "free"): 1, ("a", NVIDIA, T4, "in-use"): 1, ("a", NVIDIA, T4, "tainted"): 1}


def test_devices_that_compatibility_groups_exclude_are_blocked() -> None:
    node, mixed, *classes = fleet("a=3xt4")
    assert isinstance(mixed, ResourceSlice)
    pool = replace(mixed.spec.pool, resource_slice_count=2)
    memory = {"memory": DeviceCounter(value=Quantity.parse("1Gi"))}

    def in_group(device: Device, group: str) -> Device:
        use = DeviceCounterConsumption(counter_set="card", counters=memory, compatibility_groups=(group,))
        return replace(device, consumes_counters=(use,))

    devices = tuple(map(in_group, mixed.spec.devices or (), "xxy"))
    sets = (CounterSet(name="card", counters={"memory": DeviceCounter(value=Quantity.parse("9Gi"))}),)
    slices = (
        replace(mixed, spec=replace(mixed.spec, pool=pool, devices=devices)),
        replace(
            mixed,
            metadata=replace(mixed.metadata, name="counters"),
            spec=replace(mixed.spec, pool=pool, devices=None, shared_counters=sets),
        ),
    )
    features = Features("1.37", {"DRADeviceCompatibilityGroups": True})
    found = families((node, *slices, *classes, claim("one", "gpu-0")), features, catalog())
    assert values_of(found, "allotment_devices") == {
        ("a", NVIDIA, T4, "free"): 1,
        ("a", NVIDIA, T4, "in-use"): 1,
        ("a", NVIDIA, T4, "blocked"): 1,
    }


def test_states_without_devices_are_exported_as_zero() -> None:
    found = values("allotment_devices", *fleet("a=1xt4"), claim("one", "gpu-0"))
    assert found == {("a", NVIDIA, T4, "free"): 0, ("a", NVIDIA, T4, "in-use"): 1}


@pytest.mark.parametrize(
    ("spec", "state"),
    [
        (NodeSpec(unschedulable=True), "unschedulable"),
        (NodeSpec(taints=(Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),)), "unschedulable"),
        (NodeSpec(taints=(Taint(key="dedicated", value="ml", effect="NoSchedule"),)), "free"),
    ],
)
def test_free_devices_of_a_cordoned_or_unready_node_are_unschedulable(spec: NodeSpec, state: str) -> None:
    node, *rest = fleet("a=2xt4")
    assert isinstance(node, Node)
    cluster = (replace(node, spec=spec), *rest, claim("one", "gpu-0"))
    found = {labels[-1]: count for labels, count in values("allotment_devices", *cluster).items() if count}
    assert found == {"in-use": 1, state: 1}
    by_class = {labels[-1]: count for labels, count in values("allotment_class_devices", *cluster).items() if count}
    assert by_class == {"in-use": 1, state: 1}


def test_devices_of_a_pool_that_lacks_slices_are_unusable() -> None:
    cluster = [
        replace(value, spec=replace(value.spec, pool=replace(value.spec.pool, resource_slice_count=2)))
        if isinstance(value, ResourceSlice)
        else value
        for value in fleet("a=3xt4")
    ]
    assert values("allotment_devices", *cluster)["a", NVIDIA, T4, "unusable"] == 3
    pools = values("allotment_pools", *cluster)
    assert pools == {("a", NVIDIA, "usable"): 0, ("a", NVIDIA, "incomplete"): 1}


def test_slices_of_old_generations_count_and_their_devices_do_not() -> None:
    cluster = fleet("a=3xt4")
    (known,) = (value for value in cluster if isinstance(value, ResourceSlice))
    newer = replace(
        known,
        metadata=replace(known.metadata, name="newer"),
        spec=replace(known.spec, pool=replace(known.spec.pool, generation=2), devices=(known.spec.devices or ())[:1]),
    )
    assert values("allotment_devices", *cluster, newer)["a", NVIDIA, T4, "free"] == 1
    assert values("allotment_resource_slices", *cluster, newer) == {
        ("a", NVIDIA, "current"): 1,
        ("a", NVIDIA, "old"): 1,
    }


def test_devices_of_a_deleted_node_are_unusable_until_it_returns() -> None:
    cluster = [
        replace(value, metadata=replace(value.metadata, uid=value.metadata.name)) for value in fleet("a=2xt4", "b=1xt4")
    ]
    state = ExporterState.of(cluster, FEATURES)
    measured = FamilyBuilder(state, NodePrices(catalog()), Latencies(), per_claim=False, max_series=100)
    whole = measured.families({})
    (node,) = (value for value in cluster if isinstance(value, Node) and value.metadata.name == "a")
    state.remove(Node, ObjectKey("", "a"))
    families = measured.families({})
    assert values_of(families, "allotment_devices")["a", NVIDIA, T4, "unusable"] == 2
    assert values_of(families, "allotment_devices")["a", NVIDIA, T4, "free"] == 0
    assert not any(labels[0] == "a" for labels in values_of(families, "allotment_class_devices"))
    state.put(node)
    again = measured.families({})
    assert [(family.metric, family.samples) for family in again] == [
        (family.metric, family.samples) for family in whole
    ]


def test_classes_count_the_devices_they_select() -> None:
    found = values(
        "allotment_class_devices", *fleet("a=2xt4", "b=1xa100-40gb/static-mig=1g.5gb:7"), claim("x", "gpu-0")
    )
    assert found["a", "gpu.nvidia.com", "free"] == 1
    assert found["a", "gpu.nvidia.com", "in-use"] == 1
    assert found["b", "mig.nvidia.com", "free"] == 7
    assert ("a", "mig.nvidia.com", "free") not in found


def test_taints_count_whether_the_device_is_used_or_not() -> None:
    cluster = (*fleet("a=3xt4"), claim("one", "gpu-0"), rule("r", "gpu-0", "NoExecute"), rule("s", "gpu-1", "None"))
    assert values("allotment_tainted_devices", *cluster) == {("a", NVIDIA, "NoExecute"): 1, ("a", NVIDIA, "None"): 1}
    assert values("allotment_devices", *cluster)["a", NVIDIA, T4, "in-use"] == 1


def test_a_device_with_two_holders_is_counted() -> None:
    cluster = (*fleet("a=2xt4"), claim("one", "gpu-0"), claim("two", "gpu-0"), claim("lost", "gpu-7"))
    assert values("allotment_devices_allocated_twice", *cluster) == {(NVIDIA,): 1}
    assert values("allotment_devices_missing", *cluster) == {(NVIDIA,): 1}
    assert values("allotment_devices_allocated_twice", *fleet("a=2xt4")) == {(NVIDIA,): 0}


def test_a_detached_claim_is_contested_and_not_allocated_twice() -> None:
    cluster = (*fleet("a=2xt4"), claim("theirs", "gpu-0", users=["x"]), claim("ours", "gpu-0", aside=True))
    assert values("allotment_devices_allocated_twice", *cluster) == {(NVIDIA,): 0}
    states = values("allotment_claims", *cluster)
    assert (states["ml", "contested"], states["ml", "allocated"], states["ml", "reserved"]) == (1, 0, 1)
    assert values("allotment_devices", *cluster)["a", NVIDIA, T4, "in-use"] == 1
    third = values("allotment_devices_allocated_twice", *cluster, claim("third", "gpu-0"))
    assert third == {(NVIDIA,): 1}


def test_shared_devices_count_shares_and_consumption() -> None:
    cluster = (
        *fleet("a=1xh100/shared"),
        claim("one", "gpu-0", shares={"memory": "20Gi"}),
        claim("two", "gpu-0", shares={"memory": "10Gi"}),
    )
    product = "NVIDIA H100 80GB HBM3"
    assert values("allotment_device_shares", *cluster) == {("a", NVIDIA, product): 2}
    assert values("allotment_shared_capacity_used", *cluster) == {("a", NVIDIA, product, "memory"): 30 * 2**30}
    assert values("allotment_device_memory_used_bytes", *cluster) == {("a", NVIDIA, product): 30 * 2**30}
    assert values("allotment_device_memory_bytes", *cluster) == {("a", NVIDIA, product): 81559 * 2**20}
    assert values("allotment_devices", *cluster)["a", NVIDIA, product, "shared"] == 1


def test_counters_are_summed_over_the_sets_of_a_node() -> None:
    cluster = (*fleet("a=2xa100-40gb/dynamic-mig"), claim("one", "gpu-0-mig-1g5gb-19-0", device_class="mig.nvidia.com"))
    assert values("allotment_counters", *cluster)["a", NVIDIA, "multiprocessors"] == 2 * 98
    assert values("allotment_counters_used", *cluster)["a", NVIDIA, "multiprocessors"] == 14
    assert values("allotment_device_memory_bytes", *cluster) == {}


def test_claims_by_state() -> None:
    going = claim("going", "gpu-2")
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    cluster = (*fleet("a=4xt4"), claim("p"), claim("a", "gpu-0"), claim("r", "gpu-1", users=["x"]), going)
    assert values("allotment_claims", *cluster) == {
        ("ml", "pending"): 1,
        ("ml", "allocated"): 1,
        ("ml", "reserved"): 1,
        ("ml", "contested"): 0,
        ("ml", "deleting"): 1,
    }


def test_causes_of_pending_pods_match_explain() -> None:
    gated = pod("gated", template="one")
    gated = replace(gated, spec=replace(gated.spec, scheduling_gates=(PodSchedulingGate(name="g"),)))
    cluster = (
        *fleet("a=2xt4"), claim("held", "gpu-0"), claim("alone"), claim("named"),
        template("one"), template("many", count=3), template("classless", "no.such.class"),
        pod("fits", template="one", created=BEFORE),
        pod("too-many-0", template="many"), pod("too-many-1", template="many"),
        pod("no-class", template="classless"), pod("by-claim", claim="named"), pod("placed", template="one", node="a"),
        pod("no-devices"), gated,
    )  # fmt: skip
    assert values("allotment_pending_pods", *cluster) == {
        ("ml", "none"): 1,
        ("ml", "too-few-devices"): 2,
        ("ml", "class-missing"): 1,
        ("ml", "devices-in-use"): 1,
        ("ml", "gated"): 1,
    }
    assert values("allotment_pending_claims", *cluster) == {("ml", "no-pod"): 1, ("ml", "devices-in-use"): 1}


def test_the_oldest_pod_of_each_cause_is_exported() -> None:
    cluster = (
        *fleet("a=1xt4"), template("many", count=3),
        pod("new", template="many", created="2026-01-01T00:01:00Z"), pod("old", template="many"),
    )  # fmt: skip
    assert values("allotment_oldest_pending_pod_timestamp_seconds", *cluster) == {("too-few-devices",): 1767225600}


def test_causes_are_a_closed_set_with_every_code_of_explain() -> None:
    assert set(CODES) < set(CAUSES)


def test_labels_and_values_are_those_of_the_definitions() -> None:
    cluster = (
        *fleet("a=2xt4", "b=1xh100/shared", "c=1xh100/dynamic-mig"),
        claim("one", "gpu-0"),
        pod("p", claim="none"),
    )
    found = families(cluster, FEATURES, catalog(), per_claim=True)
    for metric, samples in found:
        assert METRICS[metric.name] is metric
        assert len({sample.labels for sample in samples}) == len(samples)
        assert all(len(sample.labels) == len(metric.labels) for sample in samples)
    assert CLAIM_COST in {family.metric for family in found}
    assert CLAIM_COST not in {family.metric for family in families(cluster, FEATURES, catalog())}


def test_excess_series_are_dropped_and_counted() -> None:
    found = families(fleet("a=1xt4:9"), FEATURES, catalog(), max_series=4)
    assert len(values_of(found, "allotment_devices")) == 4
    assert values_of(found, "allotment_series_dropped")["allotment_devices",] == 14


@pytest.mark.parametrize("text", ["x" * 500, "two\nlines", "\x00"])
def test_arbitrary_text_of_a_driver_makes_a_valid_label(text: str) -> None:
    cluster = list(fleet("a=1xt4"))
    for number, value in enumerate(cluster):
        if isinstance(value, ResourceSlice):
            (device,) = value.spec.devices or ()
            attributes = {**device.attributes, "productName": replace(device.attributes["productName"], string=text)}
            cluster[number] = replace(
                value, spec=replace(value.spec, devices=(replace(device, attributes=attributes),))
            )
    for _, _, product, _ in values("allotment_devices", *cluster):
        assert len(product) <= 128
        assert product.isprintable()


HARDWARE = ("2xt4", "2xa100-40gb/dynamic-mig", "2xh100/shared", "1xmi300x/cpx")


@given(st.data())
def test_incremental_changes_equal_a_fresh_state(data: st.DataObject) -> None:
    """The device states also equal those of ``allot free``."""
    cluster = fleet(*(f"n{number}={kind}" for number, kind in enumerate(HARDWARE)))
    slices = [value for value in cluster if isinstance(value, ResourceSlice)]
    devices = [
        (slice_.spec.driver, slice_.spec.pool.name, device.name, bool(device.allow_multiple_allocations))
        for slice_ in slices
        for device in slice_.spec.devices or ()
    ]
    state = ExporterState.of(cluster, FEATURES)
    measured = FamilyBuilder(state, NodePrices(catalog()), Latencies(), per_claim=True, max_series=10_000)
    objects: dict[tuple[type[Object], ObjectKey], Object] = {(type(value), value.key): value for value in cluster}
    for number in range(data.draw(st.integers(1, 8))):
        action = data.draw(st.sampled_from(("claim", "claim", "claim", "rule", "slice", "gone")))
        if action == "gone":
            kind, key = data.draw(st.sampled_from(sorted(objects, key=str)))
            state.remove(kind, key)
            del objects[kind, key]
        else:
            new: Object
            if action == "claim":
                driver, pool, device, shared = data.draw(st.sampled_from(devices))
                shares = {"memory": "30Gi"} if shared else None
                aside = data.draw(st.booleans())
                new = claim(f"c{number % 5}", device, pool=pool, driver=driver, shares=shares, aside=aside)
            elif action == "rule":
                new = rule(
                    "r", data.draw(st.sampled_from(devices))[2], data.draw(st.sampled_from(("NoExecute", "None")))
                )
            else:
                new = data.draw(st.sampled_from(slices))
                new = replace(
                    new, spec=replace(new.spec, devices=(new.spec.devices or ())[: data.draw(st.integers(0, 9))])
                )
            state.put(new)
            objects[type(new), new.key] = new
        if data.draw(st.booleans()):
            measured.families({})
    fresh = families(objects.values(), FEATURES, catalog(), per_claim=True)
    now = measured.families({})
    for metric, _ in fresh:
        assert values_of(now, metric.name) == pytest.approx(values_of(fresh, metric.name)), metric.name
    report = free(state.inventory, state.claims.values())
    expected = Counter(
        (node.node, device.driver, device.kind, device.state) for node in report.nodes for device in node.devices
    )
    reported = values_of(fresh, "allotment_devices")
    assert {labels: count for labels, count in reported.items() if count and labels[3] != "unusable"} == dict(expected)
