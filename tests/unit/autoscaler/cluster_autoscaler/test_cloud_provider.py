"""Node groups of the external gRPC cloud provider, and the machines that it orders and deletes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, ParamSpec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.autoscaler.cluster_autoscaler.cloud_provider import DEFAULT_SETTINGS, Cloud, CloudSettings
from allotment.autoscaler.cluster_autoscaler.node_groups import LABEL, NodeGroup, group_in, groups_of, parse_nodes
from allotment.autoscaler.provider import MachineState, MachineStatus, NoCapacity, OrderRejected
from allotment.cluster.errors import Unreachable
from allotment.externalgrpc import errors
from allotment.externalgrpc.cloud_provider import CloudInstance, NodeGroupOptions, NodeRef
from allotment.fleet.catalog import catalog
from allotment.model.core import Node
from allotment.model.trees import read_value
from allotment.planning.limits import PlanLimits
from allotment.planning.report import PlannedMachine

P = ParamSpec("P")

EAST = PlanLimits(zones=("us-east-1a",))
G5, MIG = groups_of(
    catalog(), [parse_nodes("1:4:aws/g5.xlarge"), parse_nodes("0:2:aws/p4d.24xlarge/static-mig=1g.5gb:7")], EAST
)


def run_async(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @functools.wraps(test)
    def run(*given: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*given, **named))

    return run


class Provider:
    """A cloud in memory; ``fails`` is raised by the next orders, one each."""

    name = "memory"

    def __init__(self) -> None:
        self.machines: dict[str, MachineStatus] = {}
        self.ordered: list[PlannedMachine] = []
        self.list_calls = 0
        self.fails: list[Exception] = []

    async def create(self, name: str, machine: PlannedMachine) -> None:
        if self.fails:
            raise self.fails.pop()
        self.ordered.append(machine)
        self.machines[name] = MachineStatus(name, "ordered", "", machine.instance, machine.zone, machine.capacity_type)

    async def delete(self, name: str) -> None:
        self.machines.pop(name, None)

    async def list_machines(self) -> Sequence[MachineStatus]:
        self.list_calls += 1
        return tuple(self.machines.values())

    def put(self, group: NodeGroup, state: MachineState, node: str = "", reason: str = "") -> str:
        name = group.new_name(Random(len(self.machines)))
        self.machines[name] = MachineStatus(name, state, node, group.instance.key, group.zone, "on-demand", reason)
        return name


class World:
    """A cloud provider, its provider, and the cluster's nodes with their providerIDs."""

    def __init__(self, settings: CloudSettings = DEFAULT_SETTINGS) -> None:
        self.provider = Provider()
        self.nodes: dict[str, str] = {}
        self.settings = settings
        self.cloud = self.again()

    def again(self) -> Cloud:
        """The cloud provider after a restart."""
        return Cloud((G5, MIG), self.provider, self.nodes.get, Random(1), self.settings)


@run_async
async def test_node_groups_are_listed() -> None:
    shown = await World().cloud.node_groups()
    assert [(group.id, group.min_size, group.max_size) for group in shown] == [(G5.id, 1, 4), (MIG.id, 0, 2)]
    assert "1.006 USD/h" in shown[0].debug


@run_async
async def test_increasing_the_size_orders_machines() -> None:
    world = World()
    await world.cloud.increase_size(G5.id, 3)
    assert await world.cloud.target_size(G5.id) == 3
    assert await world.cloud.target_size(MIG.id) == 0
    for machine in world.provider.ordered:
        assert machine.instance == "aws/g5.xlarge"
        assert (machine.zone, machine.capacity_type) == ("us-east-1a", "on-demand")
        assert machine.labels[LABEL] == G5.name == group_in(machine.node)
        assert machine.drivers == ("gpu.nvidia.com",)


@run_async
async def test_an_order_includes_the_driver_mode() -> None:
    world = World()
    await world.cloud.increase_size(MIG.id, 1)
    assert world.provider.ordered[0].form.endswith("/static-mig=1g.5gb:7")


@run_async
async def test_the_size_cannot_exceed_the_maximum() -> None:
    world = World()
    await world.cloud.increase_size(G5.id, 3)
    with pytest.raises(errors.InvalidArgumentError, match="5 machines requested, maximum 4"):
        await world.cloud.increase_size(G5.id, 2)
    assert await world.cloud.target_size(G5.id) == 3


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (NoCapacity("aws/g5.xlarge", "us-east-1a", "on-demand", "sold out"), errors.ResourceExhaustedError),
        (OrderRejected("quota"), errors.PermissionDeniedError),
        (Unreachable("POST: no answer"), errors.UnavailableError),
    ],
)
@run_async
async def test_machines_ordered_before_a_failure_are_kept(raised: Exception, expected: type[errors.CallError]) -> None:
    world = World()
    world.provider.fails = [raised]
    with pytest.raises(expected, match=str(raised)[:10]):
        await world.cloud.increase_size(G5.id, 3)
    assert await world.cloud.target_size(G5.id) == 2


@run_async
async def test_instances_in_all_states() -> None:
    world = World()
    ordered = world.provider.put(G5, "ordered")
    starting = world.provider.put(G5, "starting", "ip-1")
    running = world.provider.put(G5, "running", "ip-2")
    failed = world.provider.put(G5, "failed", reason="sold out")
    world.nodes |= {"ip-1": "", "ip-2": "aws:///us-east-1a/i-2"}
    found = {instance.id: instance for instance in await world.cloud.instances(G5.id)}
    assert found.pop(f"allotment://{ordered}").state == "creating"
    assert found.pop(f"allotment://{starting}").state == "creating"
    assert found.pop("aws:///us-east-1a/i-2") == CloudInstance("aws:///us-east-1a/i-2", "running")
    broken = found.pop(f"allotment://{failed}")
    assert broken.state == "creating"
    assert broken.error is not None
    assert broken.error.message == "sold out"
    assert not found
    # A failed machine counts until cluster-autoscaler deletes it.
    assert await world.cloud.target_size(G5.id) == 4
    assert running in world.provider.machines


@run_async
async def test_the_group_of_a_node() -> None:
    world = World()
    name = world.provider.put(G5, "running", "ip-2")
    world.nodes["ip-2"] = "aws:///us-east-1a/i-2"
    for node in (
        NodeRef("aws:///us-east-1a/i-2", "ip-2"),
        NodeRef("", "ip-2"),  # before the cloud has set its providerID
        NodeRef("", "other", {LABEL: G5.name}),
    ):
        group = await world.cloud.node_group_of(node)
        assert group is not None
        assert group.id == G5.id
    for node in (NodeRef("aws:///us-east-1a/i-3", "ip-3"), NodeRef("", "t4-1"), NodeRef("x", "y", {LABEL: "gone"})):
        assert await world.cloud.node_group_of(node) is None
    # For a machine without a node the autoscaler generates a node with the machine's id as its name.
    world.provider.machines[name] = MachineStatus(name, "ordered")
    await world.cloud.refresh()
    made_up = await world.cloud.node_group_of(NodeRef(f"allotment://{name}", f"allotment://{name}"))
    assert made_up is not None


@run_async
async def test_nodes_are_deleted() -> None:
    world = World()
    names = [world.provider.put(G5, "running", f"ip-{number}") for number in range(3)]
    world.nodes |= {f"ip-{number}": f"id-{number}" for number in range(3)}
    await world.cloud.delete_nodes(G5.id, [NodeRef("id-0", "ip-0"), NodeRef("id-2", "ip-2")])
    assert list(world.provider.machines) == [names[1]]
    assert await world.cloud.target_size(G5.id) == 1


@run_async
async def test_the_minimum_size_is_kept_but_failed_machines_can_be_deleted() -> None:
    world = World()
    world.provider.put(G5, "running", "ip-0")
    failed = world.provider.put(G5, "failed")
    world.nodes["ip-0"] = "id-0"
    with pytest.raises(errors.FailedPreconditionError, match=r"0 machines of .* would remain"):
        await world.cloud.delete_nodes(G5.id, [NodeRef("id-0", "ip-0")])
    id = f"allotment://{failed}"
    await world.cloud.delete_nodes(G5.id, [NodeRef(id, id)])
    assert len(world.provider.machines) == 1


@run_async
async def test_nodes_of_several_groups_are_not_deleted() -> None:
    world = World()
    world.provider.put(G5, "running", "ip-0")
    world.provider.put(MIG, "running", "ip-1")
    world.nodes |= {"ip-0": "id-0", "ip-1": "id-1"}
    with pytest.raises(errors.InvalidArgumentError, match="ip-0 does not belong to"):
        await world.cloud.delete_nodes(MIG.id, [NodeRef("id-1", "ip-1"), NodeRef("id-0", "ip-0")])
    assert len(world.provider.machines) == 2


@run_async
async def test_deleting_nodes_is_idempotent() -> None:
    world = World()
    names = [world.provider.put(G5, "running", f"ip-{number}") for number in range(2)]
    world.nodes |= {"ip-0": "id-0", "ip-1": "id-1"}
    node = NodeRef("id-0", "ip-0", {LABEL: G5.name})
    await world.cloud.delete_nodes(G5.id, [node])
    await world.cloud.delete_nodes(G5.id, [node])
    assert list(world.provider.machines) == [names[1]]


@run_async
async def test_a_terminating_machine_is_not_counted() -> None:
    world = World()
    world.provider.put(G5, "running", "ip-0")
    world.provider.put(G5, "running", "ip-1")
    world.nodes |= {"ip-0": "id-0", "ip-1": "id-1"}
    gone = dict(world.provider.machines)
    await world.cloud.delete_nodes(G5.id, [NodeRef("id-0", "ip-0")])
    world.provider.machines = gone  # a machine that terminates slowly
    await world.cloud.refresh()
    assert [instance.state for instance in await world.cloud.instances(G5.id)] == ["deleting", "running"]
    assert await world.cloud.target_size(G5.id) == 1


@run_async
async def test_only_machines_without_a_node_can_be_cancelled() -> None:
    world = World()
    here = world.provider.put(G5, "running", "ip-0")
    registered = world.provider.put(G5, "starting", "ip-1")
    starting = world.provider.put(G5, "starting")
    world.provider.put(G5, "ordered")
    world.nodes |= {"ip-0": "id-0", "ip-1": ""}
    with pytest.raises(errors.FailedPreconditionError, match="it has only 2 machines without a node"):
        await world.cloud.decrease_target_size(G5.id, 3)
    await world.cloud.decrease_target_size(G5.id, 1)
    assert list(world.provider.machines) == [here, registered, starting]
    await world.cloud.decrease_target_size(G5.id, 1)
    assert list(world.provider.machines) == [here, registered]


@run_async
async def test_state_survives_a_restart() -> None:
    world = World()
    await world.cloud.increase_size(G5.id, 2)
    await world.cloud.increase_size(MIG.id, 1)
    for cloud in (world.cloud, world.again()):
        assert (await cloud.target_size(G5.id), await cloud.target_size(MIG.id)) == (2, 1)
        assert len(await cloud.instances(MIG.id)) == 1


@run_async
async def test_the_provider_is_queried_once_per_refresh() -> None:
    world = World()
    world.provider.put(G5, "running", "ip-0")
    await world.cloud.refresh()
    for group in (G5, MIG):
        await world.cloud.target_size(group.id)
        await world.cloud.instances(group.id)
        await world.cloud.node_group_of(NodeRef("", "ip-0"))
    assert world.provider.list_calls == 1
    world.provider.put(G5, "ordered")
    assert await world.cloud.target_size(G5.id) == 1
    await world.cloud.refresh()
    assert await world.cloud.target_size(G5.id) == 2


@run_async
async def test_the_template_is_a_ready_node_with_its_expected_slices() -> None:
    template = await World().cloud.template_node(MIG.id)
    node = read_value(template.node, Node)
    assert node.metadata.labels["node.kubernetes.io/instance-type"] == "p4d.24xlarge"
    assert node.metadata.labels[LABEL] == MIG.name
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "us-east-1a"
    assert {"cpu", "memory", "pods"} <= node.status.allocatable.keys()
    assert template.node["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
    assert template.node["spec"]["providerID"].startswith("allotment://")
    assert len(template.slices) == template.slices[0]["spec"]["pool"]["resourceSliceCount"] == 1
    assert template.slices[0]["spec"]["nodeName"] == node.metadata.name


@run_async
async def test_the_provisioning_timeout_allows_for_devices() -> None:
    minutes = 60 * 10**9
    defaults = NodeGroupOptions(0.5, 0.5, False, False, 10 * minutes, 20 * minutes, 15 * minutes)
    assert await World().cloud.options(G5.id, defaults) is None
    cloud = World(CloudSettings(provisioning=1800.0)).cloud
    assert await cloud.options(G5.id, defaults) == defaults._replace(provisioning=30 * minutes)
    assert await cloud.options(G5.id, defaults._replace(provisioning=60 * minutes)) is None


@run_async
async def test_prices() -> None:
    world = World()
    world.provider.put(G5, "running", "ip-0")
    assert await world.cloud.node_price(NodeRef("", "ip-0"), 2.0) == pytest.approx(2.012)
    with pytest.raises(errors.NotFoundError):
        await world.cloud.node_price(NodeRef("", "ip-9"), 1.0)
    with pytest.raises(errors.UnimplementedError):
        await world.cloud.pod_price({}, 1.0)


@run_async
async def test_no_template_has_the_gpu_label_of_device_plugins() -> None:
    cloud = World().cloud
    label = await cloud.gpu_label()
    assert label not in (await cloud.template_node(G5.id)).node["metadata"]["labels"]
    assert await cloud.gpu_types() == sorted({G5.instance.gpu_model, MIG.instance.gpu_model})


@run_async
async def test_an_unknown_group_is_not_found() -> None:
    cloud = World().cloud
    for call in (cloud.target_size, cloud.instances, cloud.template_node):
        with pytest.raises(errors.NotFoundError, match="node group 'x' not found"):
            await call("x")


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["more", "less", "delete", "arrive", "fail", "restart"]), st.integers(1, 3)),
        max_size=14,
    )
)
@run_async
async def test_sizes_equal_the_number_of_machines_and_stay_within_bounds(steps: list[tuple[str, int]]) -> None:
    world = World()
    cloud = world.cloud
    for word, number in steps:
        before = set(world.provider.machines)
        here = {name for name, machine in world.provider.machines.items() if machine.state == "running"}
        try:
            if word == "more":
                await cloud.increase_size(G5.id, number)
            elif word == "less":
                await cloud.decrease_target_size(G5.id, number)
            elif word == "delete":
                await cloud.delete_nodes(G5.id, [NodeRef(f"id-{name}", name) for name in sorted(here)[:number]])
            elif word == "restart":
                cloud = world.again()
            else:
                for name in sorted(before - here)[:number]:
                    state: MachineState = "running" if word == "arrive" else "failed"
                    node = name if word == "arrive" else ""
                    world.provider.machines[name] = world.provider.machines[name]._replace(state=state, node=node)
                    if node:
                        world.nodes[node] = f"id-{name}"
        except errors.CallError:
            assert set(world.provider.machines) == before
        if word == "less":
            assert here <= set(world.provider.machines)
        await cloud.refresh()
        assert await cloud.target_size(G5.id) == len(world.provider.machines) <= G5.most
        assert len(await cloud.instances(G5.id)) == len(world.provider.machines)
        if word == "delete" and len(here) >= G5.least:
            assert sum(machine.state != "failed" for machine in world.provider.machines.values()) >= G5.least
