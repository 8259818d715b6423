"""Changes of a running pod: new resources of its containers, and ephemeral containers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from allotment.cluster.resources import PODS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.node.world import World, world


def run_scenario(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with world() as on:
            await scenario(on)

    idle.run(asyncio.wait_for(run(), 20))


def change(on: World, name: str = "p", **spec: Any) -> None:
    """Change the spec of a pod; its generation counts that."""
    tree = on.now(name)
    metadata = {**tree["metadata"], "generation": tree["metadata"].get("generation", 1) + 1}
    on.client.put(PODS, {**tree, "metadata": metadata, "spec": {**tree["spec"], **spec}})


def resources(cpu: str) -> Tree:
    return {"resources": {"requests": {"cpu": cpu}}}


def container(cpu: str, **more: Any) -> list[Tree]:
    return [{"name": "main", "image": "app:1", **resources(cpu), **more}]


def pending(on: World, name: str = "p") -> tuple[str, str] | None:
    for condition in on.now(name)["status"]["conditions"]:
        if condition["type"] == "PodResizePending" and condition.get("status") == "True":
            return condition["reason"], condition["message"]
    return None


# --- resize ---------------------------------------------------------------------------------------------------------


def test_a_resized_container_continues_with_new_resources() -> None:
    async def scenario(on: World) -> None:
        on.pod(main=resources("1"))
        await on.until(lambda: on.phase() == "Running")
        assert on.main()["allocatedResources"] == {"cpu": "1"}
        change(on, containers=container("2"))
        await on.until(lambda: on.main()["allocatedResources"] == {"cpu": "2"})
        assert on.main()["resources"] == {"requests": {"cpu": "2"}}
        assert on.main()["restartCount"] == 0
        await on.flush_events()
        [message] = on.events("ResizeCompleted")
        assert json.loads(message.removeprefix("Pod resize completed: ")) == {
            "containers": [{"name": "main", **resources("2")}], "generation": 2,
        }  # fmt: skip

    run_scenario(scenario)


def test_a_resize_restarts_the_container_if_its_policy_says_so() -> None:
    async def scenario(on: World) -> None:
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        on.pod(main={**resources("1"), "resizePolicy": policy}, restartPolicy="Never")
        await on.until(lambda: on.phase() == "Running")
        change(on, containers=container("2", resizePolicy=policy))
        await on.until(lambda: on.main()["restartCount"] == 1 and "running" in on.main()["state"])
        assert on.phase() == "Running", "although the restart policy is Never"
        await on.flush_events()
        assert on.events("Killing") == ["Container main resize requires restart"]

    run_scenario(scenario)


def test_a_node_without_room_defers_a_resize() -> None:
    async def scenario(on: World) -> None:
        on.pod("other", main=resources("6"))
        on.pod(main=resources("1"))
        await on.until(lambda: on.phase() == "Running" and on.phase("other") == "Running")
        change(on, containers=container("3"))
        await on.until(lambda: pending(on))
        text = "Node didn't have enough resource: cpu, requested: 3000, used: 6000, capacity: 8000"
        assert pending(on) == ("Deferred", text)
        assert on.main()["allocatedResources"] == {"cpu": "1"}
        on.delete("other", grace=0)
        await on.until(lambda: on.main()["allocatedResources"] == {"cpu": "3"})
        assert pending(on) is None
        await on.flush_events()
        assert [message.partition(": ")[0] for message in on.events("ResizeDeferred")] == ["Pod resize Deferred"]

    run_scenario(scenario)


def test_a_resize_beyond_the_node_is_infeasible() -> None:
    async def scenario(on: World) -> None:
        on.pod(main=resources("1"))
        await on.until(lambda: on.phase() == "Running")
        change(on, containers=container("9"))
        await on.until(lambda: pending(on))
        text = "Node didn't have enough capacity: cpu, requested: 9000, capacity: 8000"
        assert pending(on) == ("Infeasible", text)
        change(on, containers=container("1"))
        await on.until(lambda: pending(on) is None)

    run_scenario(scenario)


# --- ephemeral containers -------------------------------------------------------------------------------------------


def test_an_ephemeral_container_runs_once_in_a_running_pod() -> None:
    async def scenario(on: World) -> None:
        on.pod()
        await on.until(lambda: on.phase() == "Running")
        debugger = {"name": "debugger", "image": "busybox"}
        change(on, ephemeralContainers=[debugger])
        await on.until(lambda: "running" in state(on))
        assert "debugger" in on.runtime.started
        on.runtime.containers["debugger"].ends(3)
        await on.until(lambda: "terminated" in state(on))
        assert state(on)["terminated"]["exitCode"] == 3
        change(on, ephemeralContainers=[debugger, {"name": "second", "image": "busybox"}])
        await on.until(lambda: "second" in on.runtime.started)
        assert on.runtime.started.count("debugger") == 1
        assert on.phase() == "Running"
        on.delete(grace=0)
        await on.until(lambda: not on.exists())

    def state(on: World) -> Tree:
        found = (on.now().get("status") or {}).get("ephemeralContainerStatuses") or [{"state": {}}]
        result: Tree = found[0]["state"]
        return result

    run_scenario(scenario)
