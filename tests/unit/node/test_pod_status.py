"""Init containers in a pod's status, and the generation of the pod that its node has seen."""

from __future__ import annotations

from allotment.cluster.resources import PODS
from allotment.model.trees import Tree
from tests.unit.node.test_pods import run_scenario
from tests.unit.node.world import World

FIRST = [{"name": "first", "image": "app:1"}]


def condition(on: World, type: str) -> Tree:
    conditions = (on.now().get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found["type"] == type), {})


def first(on: World) -> Tree:
    """The status of the pod's first init container."""
    found: Tree = (on.now().get("status") or {}).get("initContainerStatuses", [{}])[0]
    return found


def test_an_init_container_is_ready_once_it_has_succeeded() -> None:
    async def scenario(on: World) -> None:
        on.pod(initContainers=FIRST)
        await on.until(lambda: "running" in first(on).get("state", {}))
        assert first(on)["ready"] is False
        assert condition(on, "Initialized")["reason"] == "ContainersNotInitialized"
        on.runtime.containers["first"].ends()
        await on.until(lambda: on.phase() == "Running")
        assert first(on)["ready"] is True
        assert condition(on, "Initialized")["status"] == "True"

    run_scenario(scenario)


def test_a_pod_whose_init_container_failed_was_never_initialized() -> None:
    async def scenario(on: World) -> None:
        on.pod(initContainers=FIRST, restartPolicy="Never")
        await on.until(lambda: "first" in on.runtime.containers)
        on.runtime.containers["first"].ends(1)
        await on.until(lambda: on.phase() == "Failed")
        initialized = condition(on, "Initialized")
        assert (initialized["status"], initialized["reason"]) == ("False", "ContainersNotInitialized")
        assert initialized["message"] == "containers with incomplete status: [first]"
        assert first(on)["ready"] is False

    run_scenario(scenario)


def test_a_pod_stays_initialized_while_its_sidecar_restarts() -> None:
    async def scenario(on: World) -> None:
        on.pod(initContainers=[{**FIRST[0], "restartPolicy": "Always"}])
        await on.until(lambda: on.phase() == "Running" and first(on)["ready"])
        on.runtime.refuses = [OSError("disk full")] * 3
        on.runtime.containers["first"].ends(1)
        await on.until(lambda: not first(on)["ready"])
        assert condition(on, "Initialized")["status"] == "True"
        assert condition(on, "ContainersReady")["status"] == "False"

    run_scenario(scenario)


def test_the_status_reports_the_generation_that_the_node_has_seen() -> None:
    async def scenario(on: World) -> None:
        tree = on.pod()
        on.client.put(PODS, {**tree, "metadata": {**tree["metadata"], "generation": 1}})
        await on.until(lambda: on.phase() == "Running")
        known = on.now()
        on.client.put(PODS, {**known, "metadata": {**known["metadata"], "generation": 2}})
        await on.until(lambda: on.now()["status"].get("observedGeneration") == 2)
        assert {found["observedGeneration"] for found in on.now()["status"]["conditions"]} == {2}

    run_scenario(scenario)


def test_a_deadline_may_be_set_on_a_running_pod() -> None:
    async def scenario(on: World) -> None:
        on.pod()
        await on.until(lambda: on.phase() == "Running")
        known = on.now()
        on.client.put(
            PODS,
            {
                **known,
                "metadata": {**known["metadata"], "generation": 2},
                "spec": {**known["spec"], "activeDeadlineSeconds": 1},
            },
        )
        await on.until(lambda: on.phase() == "Failed")
        assert on.now()["status"]["reason"] == "DeadlineExceeded"

    run_scenario(scenario)
