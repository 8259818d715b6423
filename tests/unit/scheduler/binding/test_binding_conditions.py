"""Pods whose devices become ready slowly, and other pods in the meantime."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS
from tests.unit.cluster import idle
from tests.unit.scheduler.world import World, claim, device_class, gpus, node, pod, world

#: More than the maximum number of concurrent bindings.
POD_COUNT = 150
SLOW = gpus("a", POD_COUNT, bindsToNode=True, bindingConditions=["ready"])


def _make_ready(lab: World, name: str) -> None:
    tree = lab.claim(name)
    (result,) = tree["status"]["allocation"]["devices"]["results"]
    device = {key: result[key] for key in ("driver", "pool", "device")}
    ready = {**device, "conditions": [{"type": "ready", "status": "True"}]}
    lab.put(CLAIMS, {**tree, "status": {**tree["status"], "devices": [ready]}})


def test_idle_bindings_do_not_block_other_pods() -> None:
    async def scenario() -> None:
        names = [f"p{number}" for number in range(POD_COUNT)]
        slow = [value for name in names for value in (claim(name), pod(name, name))]
        async with world(node("a", pods="500"), SLOW, device_class(), *slow) as lab:
            await lab.until(lambda: len(lab.events("BindingConditionsPending")) == POD_COUNT)
            lab.put(*pod("needs-none"))
            await lab.bound("needs-none")
            for name in names:
                _make_ready(lab, name)
            await lab.bound(*names)

    idle.run(scenario())


def test_all_pods_of_a_shared_claim_are_bound_when_its_device_is_ready() -> None:
    async def scenario() -> None:
        async with world(node("a"), SLOW, device_class(), claim("shared"), pod("p", "shared")) as lab:
            await lab.until(lambda: lab.users("shared") == ["p"])
            lab.put(*pod("q", "shared"))
            await lab.until(lambda: len(lab.events("BindingConditionsPending")) == 2)
            _make_ready(lab, "shared")
            await lab.bound("p", "q")

    idle.run(scenario())


def test_a_claim_whose_device_failed_is_freed_and_allocated_again() -> None:
    async def scenario() -> None:
        failing = gpus("a", 1, bindsToNode=True, bindingConditions=["ready"], bindingFailureConditions=["broken"])
        async with world(node("a"), failing, device_class(), claim("c"), pod("p", "c")) as lab:
            await lab.until(lambda: lab.events("BindingConditionsPending"))
            tree = lab.claim("c")
            (result,) = tree["status"]["allocation"]["devices"]["results"]
            broken = {"type": "broken", "status": "True", "reason": "Done", "message": "x"}
            device = {**{key: result[key] for key in ("driver", "pool", "device")}, "conditions": [broken]}
            lab.put(CLAIMS, {**tree, "status": {**tree["status"], "devices": [device]}})
            assert "device binding failed: claim=c, reason=Done" in await lab.reported_message("p", "SchedulerError")
            message = await lab.reported_message("p")
            assert message.startswith("the devices of claim ns/c did not become ready; the claim is freed and ")
            assert "deallocation of ResourceClaim completed, preemption: " in message
            await lab.until(lambda: lab.users("c") == ["p"] and not lab.claim("c")["status"].get("devices"))

    idle.run(scenario())
