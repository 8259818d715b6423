"""States, holders, and remaining capacities and counters of devices on generated nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from allotment.engine.cluster.inventory import Inventory
from allotment.fleet import hardware, parse_mode, slices_of
from allotment.model.contested_claims import LABEL
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    AllocationResult,
    Counter,
    CounterSet,
    Device,
    DeviceAllocationResult,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from allotment.tools.free import FreeReport, NodeReport, free

FEATURES = Features(kube="1.36", gates={"DRADeviceTaintRules": True})
WITH_GROUPS = Features(kube="1.37", gates={"DRADeviceCompatibilityGroups": True})


def claim(name: str, *devices: str, pool: str = "n", pods: Sequence[str] = (), **result: object) -> ResourceClaim:
    results = tuple(
        DeviceRequestAllocationResult(request="r", driver="gpu.nvidia.com", pool=pool, device=device, **result)  # type: ignore[arg-type]
        for device in devices
    )
    return ResourceClaim(
        metadata=ObjectMeta(namespace="ml", name=name),
        status=ResourceClaimStatus(
            allocation=AllocationResult(devices=DeviceAllocationResult(results=results)),
            reserved_for=tuple(ResourceClaimConsumerReference(resource="pods", name=pod) for pod in pods),
        ),
    )


def report(
    slices: Sequence[ResourceSlice],
    claims: Sequence[ResourceClaim] = (),
    rules: Sequence[DeviceTaintRule] = (),
    nodes: Sequence[str] = ("n",),
    features: Features = FEATURES,
    unschedulable: Mapping[str, str] | None = None,
) -> FreeReport:
    inventory = Inventory.of(
        features, nodes=[(node, {"name": node}) for node in nodes], slices=slices, claims=claims, taint_rules=rules
    )
    return free(inventory, claims, unschedulable)


def generated(name: str, mode: str = "", gpus: int | None = None, node: str = "n") -> tuple[ResourceSlice, ...]:
    machine = hardware(name, gpus)
    return slices_of(machine, parse_mode(mode, machine), node)


def states(node: NodeReport) -> dict[str, str]:
    return {device.device: device.state for device in node.devices}


def test_a_device_in_use_names_claim_and_pods() -> None:
    found = report(generated("t4", gpus=3), [claim("gpu", "gpu-1", pods=["trainer-0", "trainer-1"])])
    (node,) = found.nodes
    assert states(node) == {"gpu-0": "free", "gpu-1": "in-use", "gpu-2": "free"}
    (holder,) = node.devices[1].holders
    assert (holder.claim, holder.consumers) == ("ml/gpu", ("trainer-0", "trainer-1"))
    assert (found.count("free"), found.count("in-use"), found.count()) == (2, 1, 3)
    assert node.devices[0].kind == "Tesla T4"
    assert node.devices[0].attributes["cudaComputeCapability"] == "7.5.0"
    assert [[(a.name, str(a.left)) for a in d.capacity] for d in node.devices[:2]] == [
        [("memory", "15Gi")],
        [("memory", "0")],
    ]


def test_devices_of_an_unschedulable_node_are_not_free() -> None:
    used = claim("gpu", "gpu-0", pods=["trainer"])
    found = report(generated("t4", gpus=2), [used], unschedulable={"n": "cordoned"})
    (node,) = found.nodes
    assert node.unschedulable == "cordoned"
    assert states(node) == {"gpu-0": "in-use", "gpu-1": "unschedulable"}
    assert (found.count("free"), found.count("unschedulable")) == (0, 1)


def test_a_claim_that_was_set_aside_is_marked() -> None:
    aside = claim("ours", "gpu-0")
    aside = structs.replace(aside, metadata=structs.replace(aside.metadata, labels={LABEL: "true"}))
    (node,) = report(generated("t4", gpus=1), [claim("theirs", "gpu-0", pods=["p"]), aside]).nodes
    assert states(node) == {"gpu-0": "in-use"}
    assert [(holder.claim, holder.set_aside) for holder in node.devices[0].holders] == [
        ("ml/theirs", False),
        ("ml/ours", True),
    ]


def test_partitions_block_each_other_and_counters_have_remaining_amounts() -> None:
    found = report(generated("a100-40gb", "dynamic-mig"), [claim("half", "gpu-0-mig-3g20gb-9-4")])
    (node,) = found.nodes
    state = states(node)
    assert state["gpu-0-mig-3g20gb-9-4"] == "in-use"
    assert state["gpu-0-mig-7g40gb-0-0"] == "blocked"
    assert state["gpu-0-mig-1g5gb-19-5"] == "blocked"
    assert state["gpu-0-mig-1g5gb-19-3"] == "free"
    blocked = next(d for d in node.devices if d.device == "gpu-0-mig-7g40gb-0-0")
    assert blocked.blocked_by == ("ml/half",)
    (counters,) = node.counter_sets
    left = {amount.name: (str(amount.left), str(amount.total)) for amount in counters.counters}
    assert left["memory"] == ("20224Mi", "40192Mi")
    assert left["multiprocessors"] == ("56", "98")
    assert (left["memory-slice-3"], left["memory-slice-4"]) == (("1", "1"), ("0", "1"))


def test_without_allocations_all_counters_are_free() -> None:
    (node,) = report(generated("h100", "dynamic-mig")).nodes
    assert set(states(node).values()) == {"free"}
    assert all(amount.left == amount.total for amount in node.counter_sets[0].counters)


def test_equal_nodes_share_what_their_devices_have_in_common() -> None:
    """Large fleets have hundreds of thousands of possible MIG devices, but few kinds of nodes."""
    slices = [each for name in ("a", "b") for each in generated("dgx-a100-40gb", "dynamic-mig", node=name)]
    first, second = report(slices, nodes=("a", "b")).nodes
    assert all(one.capacity is other.capacity for one, other in zip(first.devices, second.devices, strict=True))


def test_an_allocation_blocks_partitions_only_on_its_node() -> None:
    slices = [each for name in ("a", "b") for each in generated("dgx-a100-40gb", "dynamic-mig", node=name)]
    used, unused = report(slices, [claim("train", "gpu-0-mig-3g20gb-9-4", pool="a")], nodes=("a", "b")).nodes
    assert "blocked" in states(used).values()
    assert set(states(unused).values()) == {"free"}


def card(*devices: tuple[str, tuple[str, ...]]) -> tuple[ResourceSlice, ...]:
    """A card with room for every device; a device is a name and its compatibility groups."""

    def slice_(name: str, **content: Any) -> ResourceSlice:
        pool = ResourcePool(name="n", generation=1, resource_slice_count=2)
        spec = ResourceSliceSpec(driver="gpu.nvidia.com", node_name="n", pool=pool, **content)
        return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)

    def amount(text: str) -> dict[str, Counter]:
        return {"memory": Counter(value=Quantity.parse(text))}

    def uses(groups: tuple[str, ...]) -> tuple[DeviceCounterConsumption, ...]:
        return (DeviceCounterConsumption(counter_set="card-0", counters=amount("1Gi"), compatibility_groups=groups),)

    return (
        slice_("devices", devices=tuple(Device(name=name, consumes_counters=uses(groups)) for name, groups in devices)),
        slice_("counters", shared_counters=(CounterSet(name="card-0", counters=amount("40Gi")),)),
    )


MIXED = card(("a", ("x", "y")), ("b", ("y",)), ("c", ("z",)), ("d", ()))


def test_devices_whose_compatibility_groups_differ_from_those_in_use_are_blocked() -> None:
    (node,) = report(MIXED, [claim("job", "a")], features=WITH_GROUPS).nodes
    assert states(node) == {"a": "in-use", "b": "free", "c": "blocked", "d": "blocked"}
    assert [device.blocked_by for device in node.devices] == [(), (), ("ml/job",), ("ml/job",)]


def test_compatibility_groups_block_nothing_while_no_device_is_in_use() -> None:
    (node,) = report(MIXED, features=WITH_GROUPS).nodes
    assert set(states(node).values()) == {"free"}


def test_a_pool_that_is_ignored_for_its_compatibility_groups_is_reported() -> None:
    (node,) = report(MIXED, features=Features("1.37")).nodes
    assert node.devices == ()
    assert [problem.text for problem in node.problems] == [
        "1 slice has devices with compatibility groups, but the DRADeviceCompatibilityGroups feature is disabled"
    ]


def test_compatibility_groups_have_no_effect_before_1_37() -> None:
    (node,) = report(MIXED, [claim("job", "a")]).nodes
    assert states(node) == {"a": "in-use", "b": "free", "c": "free", "d": "free"}


def test_taints_of_drivers_and_rules_are_reported() -> None:
    rule = DeviceTaintRule(
        metadata=ObjectMeta(name="maintenance"),
        spec=DeviceTaintRuleSpec(
            device_selector=DeviceTaintSelector(device="gpu-1"),
            taint=DeviceTaint(key="example.com/maintenance", value="fan", effect="NoSchedule"),
        ),
    )
    (node,) = report(generated("t4", gpus=2), rules=[rule]).nodes
    assert states(node) == {"gpu-0": "free", "gpu-1": "tainted"}
    assert node.devices[1].taints == ("example.com/maintenance=fan:NoSchedule",)


def shareable(memory: str) -> ResourceSlice:
    device = Device(
        name="gpu-0", capacity={"memory": DeviceCapacity(value=Quantity.parse(memory))}, allow_multiple_allocations=True
    )
    return ResourceSlice(
        metadata=ObjectMeta(name="s"),
        spec=ResourceSliceSpec(
            driver="gpu.nvidia.com",
            node_name="n",
            pool=ResourcePool(name="n", generation=1, resource_slice_count=1),
            devices=(device,),
        ),
    )


def share(name: str, memory: str) -> ResourceClaim:
    return claim(name, "gpu-0", share_id=f"id-{name}", consumed_capacity={"memory": Quantity.parse(memory)})


def test_shared_devices_have_remaining_capacity() -> None:
    (node,) = report([shareable("40Gi")], [share("a", "10Gi"), share("b", "6Gi")]).nodes
    (device,) = node.devices
    assert device.state == "shared"
    assert [(holder.claim, holder.share_id) for holder in device.holders] == [("ml/a", "id-a"), ("ml/b", "id-b")]
    assert [(a.name, str(a.total), str(a.left)) for a in device.capacity] == [("memory", "40Gi", "24Gi")]


def test_a_device_without_remaining_capacity_is_full() -> None:
    (node,) = report([shareable("40Gi")], [share("a", "40Gi")]).nodes
    assert states(node) == {"gpu-0": "full"}


def test_a_claim_on_an_unpublished_device_is_reported() -> None:
    found = report(generated("t4"), [claim("old", "gpu-7")])
    assert [(unpublished.claim, unpublished.device) for unpublished in found.unpublished] == [("ml/old", "gpu-7")]
    assert found.count("in-use") == 0


def test_an_ignored_pool_is_reported() -> None:
    incomplete = generated("a100-40gb", "dynamic-mig")[1:]
    (node,) = report(incomplete).nodes
    assert node.devices == ()
    (problem,) = node.problems
    assert (problem.why, problem.text) == ("incomplete", "generation 1 has 1 of 2 slices")


def test_surplus_slices_are_reported() -> None:
    (whole,) = generated("t4")
    left_over = structs.replace(whole, metadata=ObjectMeta(name="left-over"))
    (node,) = report((whole, left_over)).nodes
    assert [problem.text for problem in node.problems] == ["generation 1 has 2 slices instead of 1"]


def test_devices_of_several_nodes_are_listed_once() -> None:
    attached = ResourceSlice(
        metadata=ObjectMeta(name="net"),
        spec=ResourceSliceSpec(
            driver="nic.example.com",
            all_nodes=True,
            pool=ResourcePool(name="rack", generation=1, resource_slice_count=1),
            devices=(Device(name="nic-0"), Device(name="nic-1")),
        ),
    )
    found = report([*generated("t4", node="a"), attached], nodes=["a", "b"])
    assert [(node.node, [d.device for d in node.devices]) for node in found.nodes] == [
        ("a", ["gpu-0"]),
        ("b", []),
        ("", ["nic-0", "nic-1"]),
    ]
    assert found.unpublished == ()


def attached(*nodes: str) -> ResourceSlice:
    """Two devices that only some nodes can use, or all nodes without ``nodes``."""
    requirement = NodeSelectorRequirement(key="name", operator="In", values=nodes)
    selector = NodeSelector((NodeSelectorTerm(match_expressions=(requirement,)),)) if nodes else None
    name = "-".join(("net", *nodes))
    return ResourceSlice(
        metadata=ObjectMeta(name=name),
        spec=ResourceSliceSpec(
            driver="nic.example.com",
            all_nodes=not nodes,
            node_selector=selector,
            pool=ResourcePool(name=name, generation=1, resource_slice_count=1),
            devices=(Device(name="nic-0"), Device(name="nic-1")),
        ),
    )


def test_devices_of_several_nodes_are_free_while_one_of_their_nodes_takes_pods() -> None:
    closed = {"a": "cordoned", "b": "cordoned"}
    found = report([attached("a", "c")], nodes=["a", "b", "c"], unschedulable=closed)
    assert (found.count("free"), found.count("unschedulable")) == (2, 0)
    found = report([attached()], nodes=["a", "b", "c"], unschedulable=closed)
    assert (found.count("free"), found.count("unschedulable")) == (2, 0)


def test_devices_of_several_nodes_are_not_free_if_all_their_nodes_are_closed() -> None:
    closed = {"a": "cordoned", "b": "not ready"}
    found = report([attached("a", "b"), attached("a", "c")], nodes=["a", "b", "c"], unschedulable=closed)
    assert (found.count("free"), found.count("unschedulable")) == (2, 2)
    assert found.nodes[-1].unschedulable == "a: cordoned, b: not ready"
    result = DeviceRequestAllocationResult(request="r", driver="nic.example.com", pool="net-a-b", device="nic-0")
    status = ResourceClaimStatus(allocation=AllocationResult(devices=DeviceAllocationResult(results=(result,))))
    held = ResourceClaim(metadata=ObjectMeta(namespace="ml", name="nic"), status=status)
    found = report([attached("a", "b")], [held], nodes=["a", "b"], unschedulable=closed)
    assert states(found.nodes[-1]) == {"nic-0": "in-use", "nic-1": "unschedulable"}
