"""Plain functions and values of the autoscaler."""

from __future__ import annotations

import re
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.autoscaler.cluster_state import requirements_key
from allotment.autoscaler.in_flight_nodes import in_flight_node, with_in_flight_nodes
from allotment.autoscaler.order import config_map, order_for, order_name, order_of
from allotment.autoscaler.program import Batch
from allotment.autoscaler.providers.faults import InvalidFault, parse_faults
from allotment.autoscaler.readiness import missing_part
from allotment.autoscaler.remaining_limits import remaining_limits
from allotment.autoscaler.unavailable_offerings import UnavailableOfferings
from allotment.cluster.cached_item import CachedItem
from allotment.fleet.catalog import catalog
from allotment.model.core import Node, Pod, PodSpec
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.resource import ResourceSlice, ResourceSliceSpec
from allotment.model.trees import Tree
from allotment.planning.limits import PlanLimits
from allotment.planning.report import PlannedMachine, PodPlacement

OFFER = ("aws/g5.xlarge", "us-east-1a", "on-demand")


def machine(*pods: str, instance: str = "aws/g5.xlarge", form: str = "a10g", price: str = "1.006") -> PlannedMachine:
    placements = tuple(PodPlacement(pod=ObjectKey("ns", pod), node="new-1") for pod in pods)
    return PlannedMachine(
        node="new-1", instance=instance, form=form, zone="us-east-1a", capacity_type="on-demand",
        usd_per_hour=Decimal(price), placements=placements,
    )  # fmt: skip


# --- orders ----------------------------------------------------------------------------------------------------------


def test_the_name_of_an_order_depends_on_its_machine_and_pods() -> None:
    assert order_name(machine("a", "b"), ()) == order_name(machine("b", "a"), ())
    assert order_name(machine("a"), ()) != order_name(machine("b"), ())
    first = order_name(machine("a"), ())
    assert order_name(machine("a"), {first}) != first


@given(st.text(st.characters(codec="ascii"), min_size=1, max_size=63))
def test_names_are_valid_node_names(instance: str) -> None:
    name = order_name(machine("a", instance=f"x/{instance}"), ())
    assert re.fullmatch(r"(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)?-?[0-9a-f]{8}", name)
    assert len(name) < 64


def test_an_order_round_trips_through_its_config_map() -> None:
    order = order_for(machine("a", "b", form="8xa100-40gb/static-mig=1g.5gb:7"), (), "2026-01-01T00:00:00Z")
    tree = config_map(order, "kube-system", "simulated")
    assert order_of(tree, "simulated") == order
    assert order_of(tree, "karpenter") is None
    assert order.mode == "static-mig=1g.5gb:7"
    assert {placement.node for placement in order.machine.placements} == {order.name} == {order.machine.node}


def test_an_invalid_order_names_its_config_map() -> None:
    tree = config_map(order_for(machine("a"), (), "now"), "kube-system", "simulated")
    with pytest.raises(ValueError, match=r"ConfigMap order-g5-xlarge-.*: order.json"):
        order_of({**tree, "data": {"order.json": "{"}}, "simulated")


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_a_batch_ends_when_idle_or_at_its_maximum_duration() -> None:
    batch = Batch(idle=1, longest=10)
    assert batch.due() is None
    batch.add(0)
    batch.add(0.5)
    assert batch.due() == 1.5
    for tenth in range(100):
        batch.add(tenth / 10)
    assert batch.due() == 10
    batch.take()
    assert batch.due() is None


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40))
def test_a_batch_never_exceeds_its_maximum_duration(times: list[float]) -> None:
    batch = Batch(idle=1, longest=10)
    for time in sorted(times):
        batch.add(time)
    due = batch.due()
    assert due is not None
    assert due <= min(times) + 10
    assert due <= max(times) + 1


# --- shortages -------------------------------------------------------------------------------------------------------


def test_the_back_off_of_a_shortage_doubles() -> None:
    shortages = UnavailableOfferings(Random(1), first=60, longest=1800)
    now, waits = 0.0, []
    for _ in range(8):
        wait = shortages.unavailable(OFFER, now)
        assert shortages.current(now) == (OFFER,)
        assert shortages.unavailable(OFFER, now) == pytest.approx(wait)  # several machines of one plan
        waits.append(wait)
        now += wait
        assert shortages.current(now) == ()
    assert waits[0] >= 60
    assert waits[3] > 2 * waits[0]
    assert max(waits) <= 1800


def test_the_end_of_a_back_off_is_reported_once() -> None:
    shortages = UnavailableOfferings(Random(1), first=60, longest=1800)
    assert not shortages.ended(0)
    wait = shortages.unavailable(OFFER, 0)
    assert shortages.next(1) == wait
    assert not shortages.ended(wait - 1)
    assert shortages.ended(wait + 1)
    assert not shortages.ended(wait + 2)


def test_a_provisioned_machine_ends_the_shortage() -> None:
    shortages = UnavailableOfferings(Random(1), first=60, longest=1800)
    shortages.unavailable(OFFER, 0)
    shortages.available(OFFER)
    assert shortages.current(0) == ()


def test_a_rejection_has_the_maximum_back_off() -> None:
    shortages = UnavailableOfferings(Random(1), first=60, longest=1800)
    assert shortages.refused(OFFER, 0) == 1800
    assert shortages.current(1799) == (OFFER,)


# --- limits ----------------------------------------------------------------------------------------------------------


def test_limits_include_existing_machines() -> None:
    limits = PlanLimits(max_machines=3, budget=Decimal(3), max_by_pattern=(("aws/g5.*", 2), ("gcp/*", 1)))
    left = remaining_limits(limits, [machine("a"), machine("b")])
    assert left.max_machines == 1
    assert left.budget == Decimal("0.988")
    assert left.max_by_pattern == (("aws/g5.*", 0), ("gcp/*", 1))
    none = remaining_limits(limits, [machine("a", price="9")] * 5)
    assert (none.max_machines, none.budget) == (0, Decimal(0))
    assert remaining_limits(PlanLimits(), [machine("a")]) == PlanLimits(existing_machines=(1, 0))
    spot = replace(machine("a"), capacity_type="spot")
    assert remaining_limits(PlanLimits(), [machine("a"), spot, spot]).existing_machines == (3, 2)


# --- readiness -------------------------------------------------------------------------------------------------------


def ready_node(status: str = "True", *taints: str) -> Tree:
    return {
        "metadata": {"name": "n"},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }


def slice_(generation: int, count: int, driver: str = "gpu", pool: str = "n") -> Tree:
    return {
        "spec": {
            "driver": driver, "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "nodeName": "n",
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("node", "slices", "text"),
    [
        (None, [], "no node has registered"),
        (ready_node("False"), [], "its node is not ready"),
        (ready_node("True", "node.kubernetes.io/not-ready"), [slice_(1, 1)], "its node is not ready"),
        (ready_node(), [], "gpu has published 0 of 1 complete pools"),
        (ready_node(), [slice_(1, 2)], "gpu has published 0 of 1 complete pools"),
        (ready_node(), [slice_(2, 2), slice_(1, 1)], "gpu has published 0 of 1 complete pools"),
        (ready_node(), [slice_(1, 0)], "gpu has published 0 of 1 complete pools"),
        (ready_node(), [slice_(1, 1, driver="other")], "gpu has published 0 of 1 complete pools"),
        (ready_node(), [slice_(2, 2), slice_(2, 2), slice_(1, 1)], ""),
        (ready_node("True", "example.com/mine"), [slice_(1, 1)], ""),
    ],
)
def test_a_machine_is_ready_with_a_complete_pool_of_each_driver(
    node: Tree | None, slices: list[Tree], text: str
) -> None:
    assert missing_part(node, slices, {"gpu": 1}) == text


# --- supply ----------------------------------------------------------------------------------------------------------


def test_a_machine_in_flight_counts_as_its_template_until_its_slices_are_complete() -> None:
    instance = next(item for item in catalog() if item.key == "gcp/a2-highgpu-1g")
    order = order_for(machine("a", instance=instance.key, form="a100-40gb/static-mig=1g.5gb:7"), (), "now")
    made = in_flight_node(order, instance, "real-name", "1.36")
    assert made.pools == {"gpu.nvidia.com": 1}
    half = ResourceSlice(metadata=ObjectMeta(name="half"), spec=ResourceSliceSpec(node_name="real-name"))
    other = ResourceSlice(metadata=ObjectMeta(name="other"), spec=ResourceSliceSpec(node_name="elsewhere"))
    registered = Node(metadata=ObjectMeta(name="real-name"))
    values = with_in_flight_nodes([registered, half, other], [made], {}, frozenset())
    assert registered not in values
    assert half not in values
    assert other in values
    assert [value.metadata.name for value in values if isinstance(value, Node)] == ["real-name"]
    devices = [d for value in values if isinstance(value, ResourceSlice) for d in value.spec.devices or ()]
    assert len(devices) == 7


def test_assigned_pods_are_nominated_and_leaving_nodes_left_out() -> None:
    waiting = Pod(metadata=ObjectMeta(name="w", namespace="ns", uid="1"))
    bound = Pod(metadata=ObjectMeta(name="b", namespace="ns", uid="2"), spec=PodSpec(node_name="goes"))
    goes = Node(metadata=ObjectMeta(name="goes"))
    found = with_in_flight_nodes([waiting, bound, goes], [], {"1": "comes", "2": "comes"}, frozenset({"goes"}))
    assert [value.status.nominated_node_name for value in found if isinstance(value, Pod)] == ["comes", ""]
    assert not [value for value in found if isinstance(value, Node)]


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind", "amount", "meets"),
    [
        ("aws/g5.xlarge=no-capacity", "no-capacity", 1.0, True),
        ("aws/g5.*:us-east-1b=no-capacity:50%", "no-capacity", 0.5, False),
        ("*=slow:600", "slow", 600.0, True),
        ("*=fail:0.25", "fail", 0.25, True),
        ("gcp/*=lost", "lost", 1.0, False),
        ("aws/*=stock:2", "stock", 2.0, True),
    ],
)
def test_faults_are_parsed_by_type_and_zone(words: str, kind: str, amount: float, meets: bool) -> None:
    (fault,) = parse_faults([words])
    assert (fault.kind, fault.amount, fault.matches(machine("a"))) == (kind, amount, meets)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("no-capacity", "the instance type is missing"),
        ("=fail", "the instance type is missing"),
        ("*=burn", "unknown fault 'burn'"),
        ("*=fail:200%", "expected a share"),
        ("*=slow:soon", "expected seconds"),
        ("*=stock:1.5", "expected a whole number"),
        ("*=slow:nan", "expected seconds"),
    ],
)
def test_an_invalid_fault_is_rejected_with_the_valid_ones(words: str, text: str) -> None:
    with pytest.raises(InvalidFault, match=text) as caught:
        parse_faults([words])
    assert "TYPE[:ZONE]=FAULT" in caught.value.hint


def test_a_sidecar_differs_from_an_init_container() -> None:
    def key_with(**more: str) -> str:
        first = {"name": "first", "resources": {"requests": {"cpu": "4"}}, **more}
        spec = {"initContainers": [first], "containers": [{"name": "main"}]}
        return requirements_key(CachedItem({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}))

    assert key_with() != key_with(restartPolicy="Always")
