"""Pods are evicted from tainted devices in time, and rules report their number."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from allotment.cluster.resources import CLAIMS, PODS, SLICES, TAINT_RULES
from allotment.controllers.device_taints import device_taints
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.controllers.world import World, pod, world

TAINTS = device_taints(Features("1.36"))
DRIVER = "gpu.example.com"
MARKED = "Marking for deletion"


def rule(effect: str = "NoExecute", **selector: str) -> Tree:
    taint = {"key": "example.com/unhealthy", "effect": effect, "timeAdded": IdleClock().now()}
    return {
        "metadata": {"name": "bad", "generation": 1},
        "spec": {"deviceSelector": selector or {"driver": DRIVER}, "taint": taint},
    }


def slice_of(*taints: Tree) -> Tree:
    devices = [{"name": "gpu-0", "taints": list(taints)}, {"name": "gpu-1"}]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices}}


def running(cluster: World, name: str, device: str = "gpu-0", *tolerations: Tree) -> None:
    """A pod on a node with a claim on a device."""
    made = cluster.put(PODS, pod(name, node="n1"))
    result: Tree = {"request": "r", "driver": DRIVER, "pool": "n1", "device": device}
    if tolerations:
        result["tolerations"] = list(tolerations)
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}],
    }
    cluster.put(CLAIMS, {"metadata": {"name": f"{name}-claim"}, "status": status})


def tolerated(seconds: int | None = None, **more: Any) -> Tree:
    toleration = {"key": "example.com/unhealthy", "operator": "Exists", "effect": "NoExecute", **more}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


def rule_condition(cluster: World) -> tuple[str, str, str]:
    conditions = cluster.get(TAINT_RULES, "bad").get("status", {}).get("conditions")
    [condition] = conditions or [{}]
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


def test_a_rule_evicts_from_selected_devices_and_reports_it() -> None:
    async def scenario() -> None:
        async with world(TAINTS, speed=100) as cluster:
            running(cluster, "a", "gpu-0")
            running(cluster, "b", "gpu-1")
            cluster.put(TAINT_RULES, rule(driver=DRIVER, device="gpu-0"))
            await cluster.until(lambda: cluster.names(PODS) == ["b"])
            last = next(e.object for _, r, e in cluster.client.history if r == PODS and e.type == "DELETED")
            [condition] = last["status"]["conditions"]
            assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "DeletionByDeviceTaintManager")
            assert condition["message"] == "Device Taint manager: deleting due to NoExecute taint"
            await cluster.until(lambda: cluster.events("DeviceTaintManagerEviction") == [MARKED])
            await cluster.until(lambda: rule_condition(cluster)[1] == "Completed")
            assert rule_condition(cluster)[2] == "1 pod evicted since starting the controller."

    idle.run(scenario())


def test_a_taint_in_a_slice_evicts() -> None:
    async def scenario() -> None:
        async with world(TAINTS) as cluster:
            cluster.put(SLICES, slice_of())
            running(cluster, "a")
            await cluster.settled()
            cluster.put(SLICES, slice_of({"key": "k", "effect": "NoSchedule"}))
            await cluster.settled()
            assert cluster.names(PODS) == ["a"]
            cluster.put(SLICES, slice_of({"key": "k", "effect": "NoExecute"}))
            await cluster.until(lambda: not cluster.names(PODS))

    idle.run(scenario())


def test_a_toleration_keeps_a_pod_for_good_or_for_its_seconds() -> None:
    async def scenario() -> None:
        async with world(TAINTS, speed=100) as cluster:
            running(cluster, "stays", "gpu-0", tolerated())
            running(cluster, "later", "gpu-0", tolerated(seconds=150))
            running(cluster, "goes", "gpu-0", tolerated(effect=""))
            cluster.put(TAINT_RULES, rule())
            await cluster.until(lambda: cluster.names(PODS) == ["later", "stays"])
            await cluster.until(lambda: rule_condition(cluster)[1] == "PodsPendingEviction")
            assert rule_condition(cluster)[0] == "True"
            assert rule_condition(cluster)[2].split(" in ")[1].startswith("1 namespace.")
            await cluster.until(lambda: cluster.names(PODS) == ["stays"])

    idle.run(scenario())


def test_removing_a_taint_cancels_the_eviction() -> None:
    async def scenario() -> None:
        async with world(TAINTS) as cluster:
            running(cluster, "a", "gpu-0", tolerated(seconds=1000))
            cluster.put(TAINT_RULES, rule())
            await cluster.settled()
            cluster.remove(TAINT_RULES, "bad")
            await cluster.until(lambda: cluster.events("DeviceTaintManagerEviction") == ["Cancelling deletion"])
            assert cluster.names(PODS) == ["a"]

    idle.run(scenario())


def test_effect_none_only_reports() -> None:
    async def scenario() -> None:
        async with world(TAINTS) as cluster:
            cluster.put(SLICES, slice_of())
            running(cluster, "a")
            await cluster.settled()
            cluster.put(TAINT_RULES, rule("None"))
            await cluster.until(lambda: rule_condition(cluster)[1] == "NoEffect")
            assert rule_condition(cluster)[2] == (
                "2 published devices selected. 1 allocated device selected. "
                "1 pod would be evicted in 1 namespace if the effect was NoExecute. "
                "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
            )
            assert cluster.names(PODS) == ["a"]

    idle.run(scenario())


def test_other_effects_evict_no_pods() -> None:
    async def scenario() -> None:
        async with world(TAINTS) as cluster:
            running(cluster, "a")
            cluster.put(TAINT_RULES, rule("NoSchedule"))
            await cluster.until(lambda: rule_condition(cluster)[1] == "OtherEffect")
            assert rule_condition(cluster)[2] == "Eviction only happens for the NoExecute effect."
            assert cluster.names(PODS) == ["a"]

    idle.run(scenario())


@pytest.fixture
def clock_offsets(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """The offset of the wall clock; the monotonic clock is unaffected."""
    offsets: list[timedelta] = []
    moment = IdleClock.moment
    monkeypatch.setattr(IdleClock, "moment", lambda clock: moment(clock) + sum(offsets, timedelta()))
    return offsets


def test_a_taint_from_a_clock_ahead_counts_immediately(clock_offsets: list[timedelta]) -> None:
    async def scenario() -> None:
        async with world(TAINTS) as cluster:
            running(cluster, "a")
            ahead = rule()
            clock_offsets.append(timedelta(hours=-1))
            cluster.put(TAINT_RULES, ahead)
            await cluster.until(lambda: cluster.names(PODS) == [])

    idle.run(scenario())


def test_a_rule_reports_progress_after_the_clock_was_set_back(clock_offsets: list[timedelta]) -> None:
    async def scenario() -> None:
        async with world(TAINTS) as cluster:
            running(cluster, "a", "gpu-0", tolerated(300))
            cluster.put(TAINT_RULES, rule())
            await cluster.until(lambda: rule_condition(cluster)[1] == "PodsPendingEviction")
            clock_offsets.append(timedelta(days=-1))
            running(cluster, "b", "gpu-0", tolerated())
            cluster.remove(PODS, "a")
            await cluster.until(lambda: rule_condition(cluster)[1] == "NotStarted")

    idle.run(scenario())


@pytest.mark.parametrize("back", [False, True])
def test_clock_adjustments_are_noticed_in_time(clock_offsets: list[timedelta], back: bool) -> None:
    async def scenario() -> None:
        async with world(TAINTS) as cluster:
            now = rule()
            if back:  # it was a year behind when the taint was set
                clock_offsets.append(timedelta(days=-365))
            running(cluster, "a", "gpu-0", tolerated(3000))
            cluster.put(TAINT_RULES, now)
            await asyncio.sleep(100)
            clock_offsets.append(timedelta(days=365) if back else timedelta(seconds=3000))
            await asyncio.sleep(3000 if back else 100)
            assert cluster.names(PODS) == []

    idle.run(scenario())
