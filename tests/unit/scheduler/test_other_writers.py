"""Concurrent writers: another scheduler, an API server that rejects writes, a second instance, an earlier one."""

from __future__ import annotations

import asyncio
from typing import Any

from allotment.cluster.client import PatchKind, Resource
from allotment.cluster.program import run
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.world import (
    FEATURES,
    SchedulingClient,
    claim,
    context_of,
    device_class,
    gpus,
    node,
    pod,
    world,
)

CLUSTER = (node("a"), gpus("a", 2), device_class())


def test_a_conflicting_write_is_retried_on_the_new_state() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, claim("one")) as lab:

            def change_labels(_: object) -> None:
                tree = lab.claim("one")
                lab.put(CLAIMS, {**tree, "metadata": {**tree["metadata"], "labels": {"touched": "yes"}}})

            lab.client.on_claim = change_labels
            lab.put(*pod("p", "one"))
            await lab.bound("p")
            assert lab.claim("one")["metadata"]["labels"] == {"touched": "yes"}
            assert lab.users("one") == ["p"]

    idle.run(scenario())


def test_pod_follows_the_claim_that_another_scheduler_allocated_for_it() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, node("b"), gpus("b", 1), claim("one"), speed=10) as lab:

            def allocate(written: Tree) -> None:
                user = written["status"]["reservedFor"][0]
                assert written["status"]["allocation"]["devices"]["results"][0]["pool"] == "a"
                result = {"request": "gpu", "driver": "gpu.example.com", "pool": "b", "device": "gpu-0"}
                term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
                allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
                lab.put(CLAIMS, {**lab.claim("one"), "status": {"allocation": allocation, "reservedFor": [user]}})

            lab.client.on_claim = allocate
            lab.put(*pod("p", "one"))
            await lab.bound("p")
            assert (lab.node_of("p"), lab.users("one")) == ("b", ["p"])

    idle.run(scenario())


def test_pod_that_another_scheduler_bound_keeps_its_claim() -> None:
    async def scenario() -> None:
        resource, slice_ = gpus("a", 1)
        del slice_["spec"]["nodeName"]
        slice_["spec"]["allNodes"] = True
        async with world(node("a"), node("b"), device_class(), (resource, slice_), claim("one"), speed=10) as lab:

            def bind(written: Tree) -> None:
                lab.put(PODS, {**lab.pod("p"), "spec": {**lab.pod("p")["spec"], "nodeName": "b"}})

            lab.client.on_claim = bind
            lab.put(*pod("p", "one"))
            await lab.until(lambda: lab.users("one"))
            await asyncio.sleep(0.1)
            assert (lab.users("one"), lab.devices("one"), lab.client.bound) == (["p"], ["gpu-0"], [])

    idle.run(scenario())


def test_a_rejected_binding_is_reverted_and_retried() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, claim("one"), speed=10) as lab:
            lab.client.refuse_binding = [refusal(500, "InternalError", "no")]
            lab.put(*pod("p", "one"))
            await lab.until(lambda: not lab.client.refuse_binding)
            await lab.until(lambda: not lab.devices("one"))
            assert lab.users("one") == []
            await lab.bound("p")
            assert lab.devices("one") == ["gpu-0"]

    idle.run(scenario())


def test_a_pending_report_is_written_before_the_binding() -> None:
    """Otherwise the condition of the bound pod would say forever that it is not scheduled."""

    async def scenario() -> None:
        client = SlowPatchClient()
        async with world(node("small", cpu="1"), pod("p", requests={"cpu": "4"}), client=client) as lab:
            await client.requested.wait()
            lab.put(*node("big"))
            await asyncio.sleep(5)  # simulated: everything is done by then that does not wait for us
            client.answers.set()
            await lab.bound("p")
            await lab.until(lambda: client.answered)
            assert lab.condition("p")["status"] == "True"

    idle.run(scenario())


class SlowPatchClient(SchedulingClient):
    """An API server that delays patches."""

    def __init__(self) -> None:
        super().__init__()
        self.requested, self.answers = asyncio.Event(), asyncio.Event()
        self.answered = False

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        self.requested.set()
        await self.answers.wait()
        patched = await super().patch(resource, name, patch, namespace, kind=kind, subresource=subresource)
        self.answered = True
        return patched


def test_a_restarted_scheduler_continues() -> None:
    async def scenario() -> None:
        selector = {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
        }
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "gpu-1"}
        status = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": selector,
                "allocationTimestamp": "2026-01-01T00:00:00Z",
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "p-uid"}],
        }
        resource, tree = pod("p", "one")
        tree["metadata"]["uid"] = "p-uid"
        written = claim("one", status=status, finalizers=[FINALIZER])
        async with world(*CLUSTER, node("b"), written, (resource, tree)) as lab:
            await lab.bound("p")
            assert (lab.node_of("p"), lab.devices("one")) == ("a", ["gpu-1"])

    idle.run(scenario())


def test_a_device_allocated_concurrently_by_another_scheduler_is_not_used() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, claim("mine"), speed=10) as lab:

            def allocate_to_other_claim(written: Tree) -> None:
                device = written["status"]["allocation"]["devices"]["results"][0]["device"]
                lab.put(*claim("theirs", status={"allocation": written["status"]["allocation"], "reservedFor": []}))
                assert device == "gpu-0"

            lab.client.on_claim = allocate_to_other_claim
            lab.put(*pod("p", "mine"))
            await lab.bound("p")
            assert (lab.devices("theirs"), lab.devices("mine")) == (["gpu-0"], ["gpu-1"])

    idle.run(scenario())


def test_two_concurrent_schedulers_allocate_no_device_twice() -> None:
    async def scenario() -> None:
        pods = [pod(f"p{n}", f"c{n}") for n in range(12)]
        claims = [claim(f"c{n}") for n in range(12)]
        cluster = [x for n in ("a", "b") for x in (node(n), gpus(n, 4))]
        async with world(*cluster, device_class(), speed=20) as lab:
            other = asyncio.create_task(
                run({"other": scheduler(SchedulerOptions(FEATURES))}, context_of(lab.client, 20))
            )
            await asyncio.sleep(0.05)
            for resource, tree in (*claims, *pods):
                lab.put(resource, tree)
            await lab.until(lambda: len(lab.client.bound) == 8)
            await asyncio.sleep(0.2)
            held = [
                (lab.node_of(f"p{n}"), device)
                for n in range(12)
                if lab.node_of(f"p{n}")
                for device in lab.devices(f"c{n}")
            ]
            assert len(held) == len(set(held)) == 8
            other.cancel()
            await asyncio.wait([other])

    idle.run(scenario())
