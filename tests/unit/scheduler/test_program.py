"""The whole scheduler: pods get nodes and devices, or the reasons why not."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NODES, PODS, SLICES
from allotment.model.resource import FINALIZER
from tests.unit.cluster import idle
from tests.unit.scheduler.world import NAMESPACE, claim, device_class, gpus, node, pod, world

CLUSTER = (node("a"), gpus("a", 2), device_class())


def test_pod_with_a_claim_gets_a_device_and_its_node() -> None:
    async def scenario() -> None:
        async with world(node("empty"), *CLUSTER, claim("one"), pod("p", "one")) as lab:
            await lab.bound("p")
            assert lab.node_of("p") == "a"
            assert lab.devices("one") == ["gpu-0"]
            assert lab.users("one") == ["p"]
            stored = lab.claim("one")
            assert stored["metadata"]["finalizers"] == [FINALIZER]
            assert "allocationTimestamp" in stored["status"]["allocation"]
            await lab.until(lambda: lab.events("Scheduled"))
            assert lab.events("Scheduled") == ["Successfully assigned ns/p to a"]

    idle.run(scenario())


def test_an_allocated_device_is_not_shared() -> None:
    async def scenario() -> None:
        pods = [f"p{n}" for n in range(3)]
        claims = [claim(f"c{n}") for n in range(3)]
        async with world(*CLUSTER, *claims, *(pod(f"p{n}", f"c{n}") for n in range(3))) as lab:
            await lab.until(lambda: sum(bool(lab.node_of(p)) for p in pods) == 2)
            (waiting,) = (p for p in pods if not lab.node_of(p))
            message = await lab.reported_message(waiting)
            assert (
                "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: " in message
            )
            assert message.splitlines()[0].endswith("(devices-in-use)")
            held = [d for n in range(3) for d in lab.devices(f"c{n}")]
            assert sorted(held) == ["gpu-0", "gpu-1"]
            lab.end(next(p for p in pods if lab.node_of(p)))
            await lab.bound(waiting)

    idle.run(scenario())


def test_pod_wakes_when_its_class_or_claim_appears() -> None:
    async def scenario() -> None:
        async with world(node("a"), gpus("a", 2), claim("one"), pod("p", "one"), pod("q", "late")) as lab:
            message = await lab.reported_message("p")
            assert (
                "0/1 nodes are available: request gpu: device class gpu.example.com does not exist. "
                "no new claims to deallocate, preemption: 0/1 nodes are available: "
                "1 Preemption is not helpful for scheduling." in message
            )
            lab.put(*device_class())
            await lab.bound("p")
            assert lab.condition("q") == {}
            lab.put(*claim("late"))
            await lab.bound("q")

    idle.run(scenario())


def test_missing_claim_is_reported_only_as_an_event() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, claim("trainig"), pod("p", "training"), speed=20) as lab:
            await lab.until(lambda: lab.events("FailedScheduling"))
            (note,) = lab.events("FailedScheduling")
            assert note.startswith('ResourceClaim "training" does not exist in namespace ns. Did you mean "trainig"')
            assert note.endswith('could not find ResourceClaim "ns/training"')
            assert lab.condition("p") == {}

    idle.run(scenario())


def test_pods_of_other_schedulers_are_ignored() -> None:
    async def scenario() -> None:
        async with world(node("a"), pod("theirs", schedulerName="other"), pod("mine")) as lab:
            await lab.bound("mine")
            assert lab.node_of("theirs") == ""

    idle.run(scenario())


def test_gated_pod_waits_with_a_condition() -> None:
    async def scenario() -> None:
        async with world(node("a"), pod("p", schedulingGates=[{"name": "g"}])) as lab:
            assert (
                await lab.reported_message("p", "SchedulingGated")
                == "Scheduling is blocked due to non-empty scheduling gates"
            )
            tree = lab.pod("p")
            lab.put(PODS, {**tree, "spec": {**tree["spec"], "schedulingGates": []}})
            await lab.bound("p")

    idle.run(scenario())


def test_error_of_one_device_ends_the_attempt_on_all_nodes() -> None:
    async def scenario() -> None:
        other = gpus("b", 1, driver="other.example.com")
        bad = claim("bad", selector="device.attributes['other.example.com'].size == 'big'", of="any")
        any_class = (DEVICE_CLASSES, {"metadata": {"name": "any"}, "spec": {}})
        async with world(*CLUSTER, node("b"), other, any_class, bad, pod("p", "bad")) as lab:
            message = await lab.reported_message("p", "SchedulerError")
            assert 'running "DynamicResources" filter plugin: claim ns/bad: selector #0: CEL runtime error' in message

    idle.run(scenario())


def test_claim_shared_by_pods_is_allocated_once() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, node("b"), claim("shared"), *(pod(f"p{n}", "shared") for n in range(3))) as lab:
            await lab.bound("p0", "p1", "p2")
            assert lab.devices("shared") == ["gpu-0"]
            assert sorted(lab.users("shared")) == ["p0", "p1", "p2"]
            assert {lab.node_of(f"p{n}") for n in range(3)} == {"a"}

    idle.run(scenario())


def test_pod_excluded_from_the_node_of_its_claim_gets_a_message_with_that_node() -> None:
    async def scenario() -> None:
        elsewhere = pod("q", "shared", nodeSelector={"kubernetes.io/hostname": "b"})
        async with world(*CLUSTER, node("b"), claim("shared"), pod("p", "shared")) as lab:
            await lab.bound("p")
            lab.put(*elsewhere)
            message = await lab.reported_message("q")
            assert message.splitlines()[0] == (
                "claim ns/shared is allocated on a, where the pod cannot run (claim-on-other-node)"
            )
            assert (
                "1 node(s) didn't match Pod's node affinity/selector, 1 resourceclaim not available on the node"
                in message
            )
            assert lab.devices("shared") == ["gpu-0"]

    idle.run(scenario())


def test_unused_claim_is_freed_for_a_pod_that_cannot_use_it() -> None:
    async def scenario() -> None:
        selector = {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
        }
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
        allocation = {"devices": {"results": [result]}, "nodeSelector": selector}
        unused = claim("unused", status={"allocation": allocation})
        wants_b = pod("p", "unused", nodeSelector={"kubernetes.io/hostname": "b"})
        async with world(*CLUSTER, node("b"), gpus("b", 1), unused, wants_b) as lab:
            await lab.bound("p")
            assert lab.node_of("p") == "b"
            assert lab.claim("unused")["status"]["allocation"]["devices"]["results"][0]["pool"] == "b"

    idle.run(scenario())


def test_binding_waits_for_binding_conditions() -> None:
    async def scenario() -> None:
        slow = gpus("a", 1, bindsToNode=True, bindingConditions=["ready"], bindingFailureConditions=["broken"])
        async with world(node("a"), slow, device_class(), claim("one"), pod("p", "one")) as lab:
            await lab.until(lambda: lab.events("BindingConditionsPending"))
            assert lab.events("BindingConditionsPending") == ["waiting for binding conditions for device on node a"]
            assert lab.node_of("p") == ""
            tree = lab.claim("one")
            ready = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0",
                     "conditions": [{"type": "ready", "status": "True"}]}  # fmt: skip
            lab.put(CLAIMS, {**tree, "status": {**tree["status"], "devices": [ready]}})
            await lab.bound("p")

    idle.run(scenario())


def test_devices_that_never_become_ready_are_freed() -> None:
    async def scenario() -> None:
        slow = gpus("a", 1, bindsToNode=True, bindingConditions=["ready"])
        async with world(node("a"), slow, device_class(), claim("one"), pod("p", "one"), speed=4000) as lab:
            assert "device binding timeout: claim=one" in await lab.reported_message("p", "SchedulerError")
            assert lab.node_of("p") == ""

    idle.run(scenario())


def test_pod_of_higher_priority_preempts_another() -> None:
    async def scenario() -> None:
        low = [pod(f"low-{n}", requests={"cpu": "3"}, priority=n) for n in range(2)]
        async with world(node("a"), *low) as lab:
            await lab.bound("low-0", "low-1")
            lab.put(*pod("high", requests={"cpu": "4"}, priority=100))
            await lab.bound("high")
            assert (PODS, NAMESPACE, "low-0") not in lab.client.objects
            assert lab.node_of("low-1") == "a"
            await lab.until(lambda: lab.events("Preempted"))

    idle.run(scenario())


def test_pod_that_never_preempts_waits() -> None:
    async def scenario() -> None:
        async with world(node("a"), pod("low", requests={"cpu": "8"})) as lab:
            await lab.bound("low")
            lab.put(*pod("high", requests={"cpu": "4"}, priority=100, preemptionPolicy="Never"))
            message = await lab.reported_message("high")
            assert message.endswith(
                "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
                "preemption: not eligible due to preemptionPolicy=Never."
            )
            assert message.splitlines()[0] == "cpu: 4 requested; a has 0 of 8 free"

    idle.run(scenario())


def test_devices_are_not_freed_by_preemption() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, claim("c0", count=2), pod("low", "c0")) as lab:
            await lab.bound("low")
            lab.put(*claim("c1"))
            lab.put(*pod("high", "c1", priority=1000))
            message = await lab.reported_message("high")
            assert "1 Preemption is not helpful for scheduling." in message
            assert lab.node_of("low") == "a"

    idle.run(scenario())


def test_new_node_wakes_unschedulable_pods() -> None:
    async def scenario() -> None:
        async with world(pod("p")) as lab:
            assert await lab.reported_message("p") == "no nodes available to schedule pods"
            lab.put(*node("a", unschedulable=True))
            await lab.until(lambda: "1 node(s) were unschedulable" in lab.condition("p")["message"])
            lab.put(*node("a"))
            await lab.bound("p")

    idle.run(scenario())


def test_no_advice_suggests_uncordoning_an_initializing_node() -> None:
    async def scenario() -> None:
        async with world(pod("p"), pod("q", "c"), claim("c"), device_class()) as lab:
            resource, tree = node("a", unschedulable=True)
            tree["metadata"]["annotations"] = {"allotment.dev/coming": "true"}
            lab.put(resource, tree)

            def message_of(name: str) -> str:
                return str(lab.condition(name).get("message", ""))

            await lab.until(lambda: all("not ready yet: a" in message_of(name) for name in "pq"))
            for name in "pq":
                assert "uncordon" not in message_of(name)
                assert "what to do: Wait" in message_of(name)
            lab.put(*node("a"))
            await lab.bound("p")

    idle.run(scenario())


def test_a_nominated_node_is_tried_first_for_devices_too() -> None:
    """A nomination (KEP-5278) is followed if the pod fits, whatever the scores of other nodes."""

    async def scenario() -> None:
        nodes = [node("a"), node("b"), node("c"), gpus("a", 1), gpus("b", 1)]
        async with world(*nodes, device_class(), claim("c0"), claim("c1")) as lab:
            for name, claimed, wanted in (("first", "c0", "b"), ("second", "c1", "c")):
                resource, tree = pod(name, claimed)
                tree["status"] = {**tree.get("status", {}), "nominatedNodeName": wanted}
                lab.put(resource, tree)
                await lab.bound(name)
            assert lab.node_of("first") == "b"
            assert lab.node_of("second") == "a"

    idle.run(scenario())


def test_all_equivalent_unschedulable_pods_are_reported() -> None:
    async def scenario() -> None:
        objects = [*(claim(f"c{n}", count=3) for n in range(20)), *(pod(f"p{n}", f"c{n}") for n in range(20))]
        async with world(*CLUSTER, *objects) as lab:
            for n in range(20):
                message = await lab.reported_message(f"p{n}")
                assert f"claim ns/c{n}, request gpu: 3 devices" in message

    idle.run(scenario())


def test_deleted_node_no_longer_counts() -> None:
    async def scenario() -> None:
        async with world(node("a"), pod("p")) as lab:
            await lab.bound("p")
            lab.client.remove(NODES, "", "a")
            lab.put(*pod("q"))
            assert await lab.reported_message("q") == "no nodes available to schedule pods"

    idle.run(scenario())


def test_admin_access_gets_devices_in_use() -> None:
    async def scenario() -> None:
        resource, tree = claim("look", count=2)
        tree["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
        async with world(*CLUSTER, claim("held", count=2), pod("user", "held")) as lab:
            await lab.bound("user")
            lab.put(resource, tree)
            lab.put(*pod("admin", "look"))
            await lab.bound("admin")
            assert lab.devices("look") == lab.devices("held") == ["gpu-0", "gpu-1"]

    idle.run(scenario())


def test_claims_on_different_nodes_are_both_reported() -> None:
    async def scenario() -> None:
        other = [device_class("nic.example.com"), node("b"), gpus("b", 1, driver="nic.example.com")]
        both = [claim("nic", of="nic.example.com"), pod("q", "gpu", "nic")]
        async with world(*CLUSTER, *other, claim("gpu"), pod("p", "gpu")) as lab:
            await lab.bound("p")
            for resource, tree in both:
                lab.put(resource, tree)
            message = await lab.reported_message("q")
            assert "1 cannot allocate all claims, 1 resourceclaim not available on the node" in message
            assert "claim ns/gpu is allocated on a, where the pod cannot run" in message

    idle.run(scenario())


def test_pod_that_excludes_every_node_gets_the_fix_in_its_message() -> None:
    async def scenario() -> None:
        tainted = node("a", taints=[{"key": "gpu", "effect": "NoSchedule"}])
        async with world(tainted, pod("p")) as lab:
            first, *more, last = (await lab.reported_message("p")).splitlines()
            assert first == "taint gpu:NoSchedule on a is not tolerated (node-not-eligible)"
            assert "  to make it fit on a: tolerate the node's taint gpu" in more
            assert last.startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims")

    idle.run(scenario())


def test_room_freed_by_preemption_is_reserved_for_the_preemptor() -> None:
    async def scenario() -> None:
        low = pod("low", requests={"cpu": "8"}, priority=1)
        async with world(node("a"), low) as lab:
            await lab.bound("low")
            tree = lab.pod("low")
            lab.put(PODS, {**tree, "metadata": {**tree["metadata"], "finalizers": ["slow"]}})
            lab.put(*pod("high", requests={"cpu": "8"}, priority=100))
            await lab.until(lambda: lab.pod("high")["status"].get("nominatedNodeName") == "a")
            lab.put(*pod("sneaky", requests={"cpu": "8"}, priority=50))
            await lab.reported_message("sneaky")
            lab.end("low")
            await lab.bound("high")
            assert lab.node_of("sneaky") == ""

    idle.run(scenario())


def test_claim_whose_device_reports_failure_is_reallocated() -> None:
    async def scenario() -> None:
        slow = gpus("a", 1, bindsToNode=True, bindingConditions=["ready"], bindingFailureConditions=["broken"])
        good = gpus("b", 1)
        async with world(node("a"), slow, device_class(), claim("one"), pod("p", "one"), speed=20) as lab:
            await lab.until(lambda: lab.events("BindingConditionsPending"))
            lab.put(*node("b"))
            lab.put(*good)
            tree = lab.claim("one")
            fire = {"type": "broken", "status": "True", "reason": "Fire", "message": "hot"}
            broken = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0", "conditions": [fire]}
            lab.client.remove(SLICES, "", "a-gpu.example.com")
            lab.put(CLAIMS, {**tree, "status": {**tree["status"], "devices": [broken]}})
            assert 'device binding failed: claim=one, reason=Fire, message="hot"' in await lab.reported_message(
                "p", "SchedulerError"
            )
            await lab.bound("p")
            assert lab.node_of("p") == "b"

    idle.run(scenario())
