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


def running(here: World, name: str, device: str = "gpu-0", *tolerations: Tree) -> None:
    """A pod on a node with a claim on a device."""
    made = here.put(PODS, pod(name, node="n1"))
    result: Tree = {"request": "r", "driver": DRIVER, "pool": "n1", "device": device}
    if tolerations:
        result["tolerations"] = list(tolerations)
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}],
    }
    here.put(CLAIMS, {"metadata": {"name": f"{name}-claim"}, "status": status})


def tolerated(seconds: int | None = None, **more: Any) -> Tree:
    toleration = {"key": "example.com/unhealthy", "operator": "Exists", "effect": "NoExecute", **more}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


def rule_condition(here: World) -> tuple[str, str, str]:
    conditions = here.get(TAINT_RULES, "bad").get("status", {}).get("conditions")
    [condition] = conditions or [{}]
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


def test_a_rule_evicts_from_selected_devices_and_reports_it() -> None:
    async def story() -> None:
        async with world(TAINTS, speed=100) as here:
            running(here, "a", "gpu-0")
            running(here, "b", "gpu-1")
            here.put(TAINT_RULES, rule(driver=DRIVER, device="gpu-0"))
            await here.until(lambda: here.names(PODS) == ["b"])
            last = next(e.object for _, r, e in here.client.history if r == PODS and e.type == "DELETED")
            [condition] = last["status"]["conditions"]
            assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "DeletionByDeviceTaintManager")
            assert condition["message"] == "Device Taint manager: deleting due to NoExecute taint"
            await here.until(lambda: here.events("DeviceTaintManagerEviction") == [MARKED])
            await here.until(lambda: rule_condition(here)[1] == "Completed")
            assert rule_condition(here)[2] == "1 pod evicted since starting the controller."

    idle.run(story())


def test_a_taint_in_a_slice_evicts() -> None:
    async def story() -> None:
        async with world(TAINTS) as here:
            here.put(SLICES, slice_of())
            running(here, "a")
            await here.settled()
            here.put(SLICES, slice_of({"key": "k", "effect": "NoSchedule"}))
            await here.settled()
            assert here.names(PODS) == ["a"]
            here.put(SLICES, slice_of({"key": "k", "effect": "NoExecute"}))
            await here.until(lambda: not here.names(PODS))

    idle.run(story())


def test_a_toleration_keeps_a_pod_for_good_or_for_its_seconds() -> None:
    async def story() -> None:
        async with world(TAINTS, speed=100) as here:
            running(here, "stays", "gpu-0", tolerated())
            running(here, "later", "gpu-0", tolerated(seconds=150))
            running(here, "goes", "gpu-0", tolerated(effect=""))
            here.put(TAINT_RULES, rule())
            await here.until(lambda: here.names(PODS) == ["later", "stays"])
            await here.until(lambda: rule_condition(here)[1] == "PodsPendingEviction")
            assert rule_condition(here)[0] == "True"
            assert rule_condition(here)[2].split(" in ")[1].startswith("1 namespace.")
            await here.until(lambda: here.names(PODS) == ["stays"])

    idle.run(story())


def test_removing_a_taint_cancels_the_eviction() -> None:
    async def story() -> None:
        async with world(TAINTS) as here:
            running(here, "a", "gpu-0", tolerated(seconds=1000))
            here.put(TAINT_RULES, rule())
            await here.settled()
            here.remove(TAINT_RULES, "bad")
            await here.until(lambda: here.events("DeviceTaintManagerEviction") == ["Cancelling deletion"])
            assert here.names(PODS) == ["a"]

    idle.run(story())


def test_effect_none_only_reports() -> None:
    async def story() -> None:
        async with world(TAINTS) as here:
            here.put(SLICES, slice_of())
            running(here, "a")
            await here.settled()
            here.put(TAINT_RULES, rule("None"))
            await here.until(lambda: rule_condition(here)[1] == "NoEffect")
            assert rule_condition(here)[2] == (
                "2 published devices selected. 1 allocated device selected. "
                "1 pod would be evicted in 1 namespace if the effect was NoExecute. "
                "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
            )
            assert here.names(PODS) == ["a"]

    idle.run(story())


def test_other_effects_evict_no_pods() -> None:
    async def story() -> None:
        async with world(TAINTS) as here:
            running(here, "a")
            here.put(TAINT_RULES, rule("NoSchedule"))
            await here.until(lambda: rule_condition(here)[1] == "OtherEffect")
            assert rule_condition(here)[2] == "Eviction only happens for the NoExecute effect."
            assert here.names(PODS) == ["a"]

    idle.run(story())


@pytest.fixture
def leap(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """The offset of the wall clock; the monotonic clock is unaffected."""
    leaps: list[timedelta] = []
    moment = IdleClock.moment
    monkeypatch.setattr(IdleClock, "moment", lambda clock: moment(clock) + sum(leaps, timedelta()))
    return leaps


def test_a_taint_from_a_clock_ahead_counts_immediately(leap: list[timedelta]) -> None:
    async def story() -> None:
        async with world(TAINTS) as here:
            running(here, "a")
            ahead = rule()
            leap.append(timedelta(hours=-1))
            here.put(TAINT_RULES, ahead)
            await here.until(lambda: here.names(PODS) == [])

    idle.run(story())


def test_a_rule_reports_progress_after_the_clock_was_set_back(leap: list[timedelta]) -> None:
    async def story() -> None:
        async with world(TAINTS) as here:
            running(here, "a", "gpu-0", tolerated(300))
            here.put(TAINT_RULES, rule())
            await here.until(lambda: rule_condition(here)[1] == "PodsPendingEviction")
            leap.append(timedelta(days=-1))
            running(here, "b", "gpu-0", tolerated())
            here.remove(PODS, "a")
            await here.until(lambda: rule_condition(here)[1] == "NotStarted")

    idle.run(story())


@pytest.mark.parametrize("back", [False, True])
def test_clock_adjustments_are_noticed_in_time(leap: list[timedelta], back: bool) -> None:
    async def story() -> None:
        async with world(TAINTS) as here:
            now = rule()
            if back:  # it was behind by a year when the taint came
                leap.append(timedelta(days=-365))
            running(here, "a", "gpu-0", tolerated(3000))
            here.put(TAINT_RULES, now)
            await asyncio.sleep(100)
            leap.append(timedelta(days=365) if back else timedelta(seconds=3000))
            await asyncio.sleep(3000 if back else 100)
            assert here.names(PODS) == []

    idle.run(story())
