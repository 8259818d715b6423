"""Machines for pending pods: which, how many, and what is reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from allotment.autoscaler.options import AutoscalerOptions
from allotment.cluster.lasting_events import REPEAT_SECONDS
from allotment.cluster.resources import NEW_EVENTS, NODES, PODS, SLICES
from allotment.model.meta import Object
from allotment.packing.problem import KeepGoing
from allotment.planning.limits import PlanLimits
from allotment.planning.report import ProvisioningPlan
from tests.unit.autoscaler.world import (
    ClusterClient,
    CrashingClient,
    World,
    one_pod_a_machine,
    options,
    waiting_pod,
    world,
)
from tests.unit.cluster import idle


def run_scenario(chosen: AutoscalerOptions, scenario: Callable[[World], Awaitable[None]], speed: float = 60.0) -> None:
    async def test() -> None:
        async with world(chosen, speed) as cluster:
            await scenario(cluster)

    idle.run(test())


def test_a_pending_pod_gets_the_cheapest_machine_an_event_and_a_nomination() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: cluster.nominated("a"))
        node = cluster.nominated("a")
        assert cluster.machines() == {node: "g4dn.xlarge"}
        await cluster.until(lambda: cluster.event_texts("TriggeredScaleUp"))
        assert cluster.event_texts("TriggeredScaleUp") == [
            f"ordered aws/g4dn.xlarge (on-demand, us-east-1a, 0.526 USD/h) as node {node}"
        ]
        await cluster.until(lambda: cluster.event_texts("MachineReady"))

    run_scenario(options(), scenario)


def test_the_report_lists_the_current_machines() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        machine = "aws/g4dn.xlarge (on-demand, us-east-1a, 0.526 USD/h)"
        await cluster.until(lambda: f"{machine}: ordered at" in cluster.report())
        assert ": ordered: 1 machine, 0.526 USD/h (proven optimal)" in cluster.report()
        assert f"  {machine} for 1 pod\nmachines now: 1, 0.526 USD/h\n" in cluster.report()
        await cluster.until(lambda: f"{machine}: ready since" in cluster.report())
        node = cluster.nominated("a")
        cluster.end("a")
        cluster.client.remove(NODES, "", node)
        await cluster.until(lambda: "machines now: none" in cluster.report())

    run_scenario(options(), scenario)


def test_simultaneous_pods_are_planned_together() -> None:
    plans: list[int] = []

    async def scenario(cluster: World) -> None:
        for number in range(5):
            cluster.pod(f"p{number}")
            await cluster.after(0.3)
        await cluster.until(lambda: len(cluster.machines()) == 5)
        assert len(plans) == 1
        assert len(cluster.orders()) == len(cluster.provider_machines()) == 5

    def counted(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
        plans.append(1)
        return one_pod_a_machine(values, limits, keep_going)

    run_scenario(options(planner=counted), scenario)


def test_machines_in_flight_count_and_nothing_is_ordered_twice() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: len(cluster.orders()) == 1)
        cluster.pod("b")  # while the machine of the first is on its way
        await cluster.until(lambda: len(cluster.orders()) == 2)
        await cluster.until(lambda: cluster.nominated("a") and cluster.nominated("b"))
        assert cluster.nominated("a") != cluster.nominated("b")
        await cluster.after(30)
        assert len(cluster.provider_machines()) == 2

    run_scenario(options(seconds=10), scenario)


def test_if_unavailable_the_next_cheapest_is_ordered_immediately() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: cluster.nominated("a"))
        assert list(cluster.machines().values()) == ["g5.xlarge"]
        assert cluster.orders() == cluster.provider_machines() == [cluster.nominated("a")]
        await cluster.until(lambda: cluster.event_texts("FailedScaleUp"))
        assert any("out of stock" in text for text in cluster.event_texts("FailedScaleUp"))

    run_scenario(options("aws/g4dn.*=no-capacity"), scenario)


def test_an_unavailable_zone_does_not_affect_the_others() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: cluster.nominated("a"))
        (node,) = cluster.all(NODES)
        labels = node["metadata"]["labels"]
        assert labels["node.kubernetes.io/instance-type"] == "g4dn.xlarge"
        assert labels["topology.kubernetes.io/zone"] == "us-east-1b"

    run_scenario(options("aws/g4dn.*:us-east-1a=no-capacity"), scenario)


def test_an_unavailable_offering_is_requested_again_only_after_its_back_off() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: cluster.event_texts("NotTriggerScaleUp"))
        assert cluster.event_texts("NotTriggerScaleUp") == [
            "no machine is ordered: no type is available within the limits"
        ]
        await cluster.until(lambda: cluster.event_count("FailedScaleUp") == 4)  # two types in two zones
        await cluster.after(20)
        assert cluster.event_count("FailedScaleUp") == 4
        await cluster.until(lambda: cluster.event_count("FailedScaleUp") > 4)

    run_scenario(options("*=no-capacity", shortage_backoff=40), scenario, speed=40)


def test_a_rejected_order_is_not_repeated() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: cluster.event_texts("NotTriggerScaleUp"))
        await cluster.until(lambda: cluster.event_count("FailedScaleUp") == 4)
        await cluster.after(120)
        assert cluster.event_count("FailedScaleUp") == 4
        assert cluster.orders() == cluster.provider_machines() == []

    run_scenario(options("*=refused"), scenario, speed=100)


def test_a_machine_that_fails_to_start_is_replaced() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: cluster.nominated("a"))
        assert list(cluster.machines().values()) == ["g5.xlarge"]
        assert len(cluster.provider_machines()) == 1

    run_scenario(options("aws/g4dn.*=fail"), scenario)


def test_a_machine_whose_node_does_not_register_in_time_is_released() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(cluster.provider_machines)
        (first,) = cluster.provider_machines()
        await cluster.until(lambda: first not in cluster.provider_machines())
        await cluster.until(lambda: cluster.nominated("a"))
        await cluster.until(lambda: cluster.event_texts("FailedScaleUp"))
        assert any("no node has registered after 60 s" in text for text in cluster.event_texts("FailedScaleUp"))
        assert list(cluster.machines().values()) == ["g5.xlarge"]

    run_scenario(options("aws/g4dn.*=lost", registration=60), scenario, speed=60)


def test_a_node_without_its_devices_is_not_ready() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: "g5.xlarge" in cluster.machines().values())
        await cluster.until(lambda: cluster.event_texts("MachineReady"))
        assert any(
            "gpu.nvidia.com has published 0 of 1 complete pools" in t for t in cluster.event_texts("FailedScaleUp")
        )
        assert len(cluster.all(SLICES)) >= 1

    run_scenario(options("aws/g4dn.*=bare", registration=60), scenario, speed=60)


def test_the_event_of_an_unserved_pod_is_written_again_after_the_server_deleted_it() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: cluster.event_texts("NotTriggerScaleUp"))
        texts = cluster.event_texts("NotTriggerScaleUp")
        for tree in cluster.all(NEW_EVENTS):
            cluster.client.remove(NEW_EVENTS, tree["metadata"]["namespace"], tree["metadata"]["name"])
        await cluster.after(REPEAT_SECONDS + 60)
        assert cluster.event_texts("NotTriggerScaleUp") == texts

    run_scenario(options(limits=PlanLimits(max_machines=0)), scenario, speed=400)


def test_unserved_pods_get_one_event_with_the_reason() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        cluster.pod("b")
        await cluster.until(lambda: cluster.event_texts("NotTriggerScaleUp"))
        await cluster.until(lambda: len(cluster.provider_machines()) == 1)
        await cluster.after(30)
        assert len(cluster.event_texts("NotTriggerScaleUp")) == 1
        assert len(cluster.provider_machines()) == 1

    run_scenario(options(limits=PlanLimits(max_machines=1)), scenario)


def test_gated_finished_deleted_and_daemon_pods_get_no_machine() -> None:
    async def scenario(cluster: World) -> None:
        owner = {"kind": "DaemonSet", "name": "d", "uid": "u", "controller": True, "apiVersion": "apps/v1"}
        cluster.pod("gated", spec={"schedulingGates": [{"name": "wait"}]})
        cluster.pod("daemon", ownerReferences=[owner])
        cluster.pod("leaving", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])
        cluster.pod("real")
        await cluster.until(lambda: cluster.nominated("real"))
        await cluster.after(10)
        assert len(cluster.provider_machines()) == 1

    run_scenario(options(), scenario)


def test_a_dry_run_proposes_and_orders_nothing() -> None:
    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(lambda: cluster.event_texts("ProposedScaleUp"))
        await cluster.until(lambda: "dry run" in cluster.report())
        assert "aws/g4dn.xlarge" in cluster.report()
        await cluster.after(30)
        assert cluster.orders() == cluster.provider_machines() == []
        assert not cluster.machines()
        assert len(cluster.event_texts("ProposedScaleUp")) == 1

    run_scenario(options(dry_run=True), scenario)


def test_a_failed_plan_is_retried_and_orders_are_still_reconciled(caplog: pytest.LogCaptureFixture) -> None:
    fails = [False, True, True, False]

    def planner(values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
        if fails and fails.pop(0):
            raise ZeroDivisionError
        return one_pod_a_machine(values, limits, keep_going)

    async def scenario(cluster: World) -> None:
        cluster.pod("a")
        await cluster.until(cluster.provider_machines)
        cluster.pod("b")
        await cluster.until(lambda: cluster.nominated("a"))
        await cluster.until(lambda: cluster.nominated("b"))
        assert fails == []

    run_scenario(options(planner=planner, seconds=5), scenario)
    assert "crashed" not in caplog.text


@pytest.mark.parametrize("before", [True, False])
def test_after_a_crash_every_machine_is_found_and_none_ordered_twice(before: bool) -> None:
    """The process is killed before or after each of its writes, and restarted on the resulting state."""

    async def test() -> None:
        for writes in range(1, 14):
            client = ClusterClient()
            chosen = options(seconds=2)
            for number in range(2):
                client.put(PODS, waiting_pod(f"p{number}"))
            async with world(chosen, 200, CrashingClient(client, writes, before=before)) as cluster:
                await cluster.after(12)
            async with world(chosen, 200, client) as cluster:
                await cluster.until(lambda: len(cluster.machines()) >= 2 and len(set(nominated(cluster))) == 2)
                await cluster.after(8)
                assert sorted(cluster.orders()) == sorted(cluster.provider_machines()) == sorted(cluster.machines())
                assert sorted(nominated(cluster)) == sorted(cluster.machines())

    def nominated(cluster: World) -> list[str]:
        return [name for number in range(2) if (name := cluster.nominated(f"p{number}"))]

    idle.run(test())
