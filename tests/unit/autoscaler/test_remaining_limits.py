"""Limits on the spending for pods that never get a node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from allotment.autoscaler.options import AutoscalerOptions
from allotment.autoscaler.provider import MachineStatus
from allotment.autoscaler.purchase_backoff import PurchaseBackoff
from allotment.cluster.client import Resource
from allotment.cluster.errors import Unreachable
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import CONFIG_MAPS, NODES
from allotment.model.core import Pod
from allotment.model.meta import Object
from allotment.model.trees import Tree
from allotment.packing.problem import KeepGoing
from allotment.planning.limits import PlanLimits
from allotment.planning.report import PlannedMachine, ProvisioningPlan
from tests.unit.autoscaler.world import TYPES, ClusterClient, World, one_pod_a_machine, options, waiting_pod, world
from tests.unit.cluster import idle


def run_scenario(chosen: AutoscalerOptions, scenario: Callable[[World], Awaitable[None]], speed: float = 60.0) -> None:
    async def test() -> None:
        async with world(chosen, speed) as cluster:
            await scenario(cluster)

    idle.run(test())


def always_another(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
    """Plan a new machine of the cheapest type for every pod, regardless of existing machines and shortages."""
    pods = [v for v in values if isinstance(v, Pod) and not v.spec.node_name and not v.status.nominated_node_name]
    return one_pod_a_machine(pods, PlanLimits(), keep_going)


class Counting:
    """A planner that records the number of machines it planned."""

    def __init__(self) -> None:
        self.planned = 0

    def __call__(self, values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
        plan = always_another(values, limits, keep_going)
        self.planned += len(plan.machines)
        return plan


@pytest.mark.parametrize("faults", [("*=fail",), ()], ids=["machines break down", "the scheduler takes none of them"])
def test_orders_for_a_pod_that_never_binds_are_bounded(faults: tuple[str, ...]) -> None:
    planner = Counting()

    async def scenario(cluster: World) -> None:
        started = cluster.clock.seconds()
        cluster.pod("a")
        await cluster.after(240)
        assert 3 <= planner.planned <= PurchaseBackoff(40, 80).max_plans(cluster.clock.seconds() - started)
        assert any("did not serve them 3 times in a row" in text for text in cluster.event_texts("NotTriggerScaleUp"))

    run_scenario(options(*faults, planner=planner, purchase_backoff=40, max_purchase_backoff=80), scenario, speed=100)


def test_recreated_pods_do_not_reset_the_back_off() -> None:
    planner = Counting()

    async def scenario(cluster: World) -> None:
        started = cluster.clock.seconds()
        for number in range(30):  # a CronJob, say
            cluster.pod(f"run-{number}")
            await cluster.after(8)
            cluster.end(f"run-{number}")
        assert planner.planned <= PurchaseBackoff(60, 1800).max_plans(cluster.clock.seconds() - started)

    run_scenario(options("*=fail", planner=planner), scenario, speed=100)


def test_a_bound_pod_resets_the_back_off_of_equivalent_pods() -> None:
    planner = Counting()

    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        cluster.pod("b")
        await cluster.until(lambda: cluster.event_texts("NotTriggerScaleUp"))
        before = planner.planned
        await cluster.after(30)
        assert planner.planned == before
        cluster.bind("a", "somewhere")
        cluster.pod("c")
        await cluster.until(lambda: planner.planned > before)

    run_scenario(options("*=fail", planner=planner, purchase_backoff=10_000), scenario)


def test_a_pod_that_waits_for_the_back_off_gets_a_machine_when_an_equivalent_pod_is_bound() -> None:
    planner = Counting()

    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        cluster.pod("b")
        await cluster.until(lambda: len(cluster.event_texts("NotTriggerScaleUp")) == 2)
        before = planner.planned
        cluster.bind("a", "somewhere")
        await cluster.until(lambda: planner.planned > before)

    run_scenario(options("*=fail", planner=planner, purchase_backoff=10_000), scenario)


@given(st.integers(1, 600), st.integers(0, 3), st.floats(0, 7200), st.floats(0.1, 60))
def test_the_bound_holds_for_any_failure_rate(first: int, doublings: int, seconds: float, life: float) -> None:
    backoff = PurchaseBackoff(first, first * 2**doublings)
    now, plans = 0.0, 0
    while now <= seconds and plans < 1000:
        if wait := backoff.remaining("wish", now):
            now += wait
            continue
        plans += 1
        backoff.start_plan()
        for number in range(3):  # machines of one plan count once
            backoff.ordered(f"{plans}-{number}", ["wish"])
        now += life
        for number in range(3):
            backoff.failed(f"{plans}-{number}", (), now)
    assert plans <= backoff.max_plans(seconds) or life * 1000 < seconds


def test_adjusting_the_wall_clock_times_out_no_machine() -> None:
    class Jumping(idle.IdleClock):
        ahead = timedelta()

        def moment(self) -> datetime:
            return super().moment() + self.ahead

    async def test() -> None:
        clock = Jumping(20)
        async with world(options("*=lost", registration=600), clock=clock) as cluster:
            cluster.pod("a")
            await cluster.until(cluster.provider_machines)
            (first,) = cluster.provider_machines()
            await cluster.after(3)
            clock.ahead = timedelta(hours=1)
            await cluster.after(30)
            assert cluster.provider_machines() == [first]

    idle.run(test())


class LossyClient(ClusterClient):
    """Loses the responses to the first orders, whether or not the requests were carried out."""

    def __init__(self, done: bool) -> None:
        super().__init__()
        self.done = done
        self.lost = 3

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        if resource == CONFIG_MAPS and tree["metadata"]["name"].startswith("order-") and self.lost:
            self.lost -= 1
            if self.done:
                await super().create(resource, tree, namespace, name=name)
                self.lost = 0
            raise Unreachable("the connection was lost")
        return await super().create(resource, tree, namespace, name=name, subresource=subresource)


@pytest.mark.parametrize("done", [True, False])
def test_an_unreachable_api_server_duplicates_no_machine_and_loses_no_pod(
    done: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        client = LossyClient(done)
        async with world(options(), 60, client) as cluster:
            cluster.pod("a")
            await cluster.until(lambda: cluster.nominated("a"))
            await cluster.after(20)
            assert cluster.orders() == cluster.provider_machines() == [cluster.nominated("a")]

    idle.run(test())
    assert "crashed" not in caplog.text


def test_a_type_removed_from_the_catalog_is_not_ordered_twice() -> None:
    """Its machine is in flight; what it will provide is unknown, but not its pods."""

    async def test() -> None:
        client = ClusterClient()
        async with world(options(seconds=600), 60, client) as cluster:
            cluster.pod("a")
            await cluster.until(cluster.provider_machines)
            (first,) = cluster.provider_machines()
        left = options(seconds=600)._replace(catalog=TYPES[1:])
        async with world(left, 60, client) as cluster:
            cluster.pod("b")
            await cluster.until(lambda: len(cluster.provider_machines()) == 2)
            await cluster.after(20)
            assert len(cluster.provider_machines()) == 2
            assert first in cluster.provider_machines()

    idle.run(test())


class LeakyProvider:
    """A provider without nodes: a machine runs from its order until its release."""

    name = "stubborn"

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self.machines: dict[str, PlannedMachine] = {}

    async def create(self, name: str, machine: PlannedMachine) -> None:
        self.machines[name] = machine
        labels = {"node.kubernetes.io/instance-type": machine.instance.partition("/")[2]}
        annotations = {"allotment.dev/machine": name, "allotment.dev/hardware": machine.form}
        node = {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": {}}
        self._client.put(NODES, {**node, "status": {"allocatable": {"cpu": "4", "pods": "10"}}})

    async def delete(self, name: str) -> None:
        self.machines.pop(name, None)
        if (NODES, "", name) in self._client.objects:
            self._client.remove(NODES, "", name)

    async def list_machines(self) -> Sequence[MachineStatus]:
        return [MachineStatus(name, "running", name) for name in self.machines]


@pytest.mark.parametrize("dies", ["deleted", "not ready"])
def test_a_machine_without_a_ready_node_is_eventually_released(dies: str) -> None:
    async def test() -> None:
        client = ClusterClient()
        cloud = LeakyProvider(client)

        def provider(context: ProgramContext) -> LeakyProvider:
            return cloud

        chosen = options(planner=once_only, registration=60)._replace(provider=provider)
        async with world(chosen, 60, client) as cluster:
            cluster.pod("a")
            await cluster.until(lambda: cluster.nominated("a"))
            name = cluster.nominated("a")
            cluster.end("a")
            await cluster.until(lambda: cluster.event_texts("MachineReady"))
            if dies == "deleted":
                client.remove(NODES, "", name)
            else:
                node = client.objects[NODES, "", name]
                status = {**node["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}
                client.put(NODES, {**node, "status": status})
            await cluster.after(20)
            assert list(cloud.machines) == [name]
            await cluster.until(lambda: not cloud.machines)
            await cluster.until(lambda: cluster.orders() == [])

    idle.run(test())


def once_only(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
    return one_pod_a_machine(values, PlanLimits(), keep_going)


def test_a_machine_ordered_for_a_deleted_pod_serves_the_next() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(cluster.provider_machines)
        cluster.end("a")
        cluster.pod("b")
        await cluster.until(lambda: cluster.nominated("b"))
        await cluster.after(20)
        assert cluster.provider_machines() == [cluster.nominated("b")]

    run_scenario(options(seconds=20), scenario)


def test_five_hundred_simultaneous_pods_are_one_plan_without_duplicate_orders() -> None:
    planner = Counting()

    def in_fives(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
        """Ten pods a machine."""
        plan = planner(values, limits, keep_going)
        placements = [placement for machine in plan.machines for placement in machine.placements]
        planner.planned -= len(plan.machines)
        machines = [
            with_fields(machine, placements=tuple(placements[10 * number : 10 * number + 10]))
            for number, machine in enumerate(plan.machines[: -(-len(placements) // 10)])
        ]
        planner.planned += len(machines)
        return with_fields(plan, machines=tuple(machines))

    async def scenario(cluster: World) -> None:
        for number in range(500):
            cluster.client.put(*_pod(number))
        await cluster.until(lambda: all(cluster.nominated(f"p{number}") for number in range(500)), 20)
        assert planner.planned == len(cluster.machines()) == len(cluster.orders()) == 50

    run_scenario(options(planner=in_fives), scenario, speed=20)


def _pod(number: int) -> tuple[Resource, Tree]:
    from allotment.cluster.resources import PODS

    return PODS, waiting_pod(f"p{number}")
