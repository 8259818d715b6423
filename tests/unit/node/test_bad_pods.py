"""Unexpected errors of pods: each affects one pod only, is reported, and is retried."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from allotment.cdi.spec import CdiDevice, ContainerEdits, Spec
from allotment.cdi.store import MemoryStore
from allotment.cluster.resources import NODES, PODS
from allotment.node import agent
from allotment.node.claims import NodeClaims
from allotment.node.node_config import Machine
from allotment.node.pod_lifecycle import PodRun
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.node.world import DRIVER, NAMESPACE, NODE, FakeDriver, World, world

USES = {"resources": {"claims": [{"name": "c"}]}}


def run_scenario(scenario: Callable[[World], Awaitable[None]], *drivers: FakeDriver, **more: Any) -> None:
    async def run() -> None:
        async with world(*drivers, **more) as on:
            await scenario(on)

    idle.run(asyncio.wait_for(run(), 20))


def cdi() -> Machine:
    """A node whose driver wrote the device of the claim."""
    store = MemoryStore()
    store.write("claim", Spec(f"k8s.{DRIVER}/claim", (CdiDevice("uid-of-gpu-gpu-0", ContainerEdits(env=("A=1",))),)))
    return Machine(cdi=(store,))


def test_a_runtime_error_is_retried() -> None:
    async def scenario(on: World) -> None:
        on.runtime.refuses.append(OSError(28, "No space left on device"))
        on.pod()
        await on.until(lambda: on.phase() == "Running")
        await on.flush_events()
        assert on.events("Failed") == ["Error: OSError: [Errno 28] No space left on device"]

    run_scenario(scenario)


def test_a_container_with_unknown_exit_counts_as_killed_and_restarts() -> None:
    async def scenario(on: World) -> None:
        on.pod()
        await on.until(lambda: on.phase() == "Running")
        on.runtime.containers["main"].code.set_exception(RuntimeError("lost"))
        await on.until(lambda: on.main().get("restartCount") == 1)
        assert on.main()["lastState"]["terminated"]["exitCode"] == 137

    run_scenario(scenario)


def test_an_internal_error_of_a_probe_is_a_failure() -> None:
    async def scenario(on: World) -> None:
        on.runtime.breaks.append(OSError(24, "Too many open files"))
        probe = {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 3}
        on.pod(main={"livenessProbe": probe, "readinessProbe": probe})
        await on.until(lambda: on.ready() == "True")
        await on.flush_events()
        (message,) = on.events("Unhealthy")
        assert message.endswith("probe failed: OSError: [Errno 24] Too many open files")
        assert on.main()["restartCount"] == 0

    run_scenario(scenario)


@pytest.mark.parametrize("fate", ["runs on", "is deleted", "is taken out by force"])
def test_a_pod_worker_restarts_after_an_internal_error_and_unprepares_claims(
    fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver()
    broken: list[str] = []
    live = PodRun._run_containers

    async def breaking(self: PodRun, group: asyncio.TaskGroup) -> Any:
        if not broken:
            await self._prepare()
            broken.append("now")
            raise RuntimeError("an internal error")
        return await live(self, group)

    monkeypatch.setattr(PodRun, "_run_containers", breaking)

    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: broken)
        if fate == "is deleted":
            on.delete()
            await on.until(lambda: not on.exists())
            assert driver.calls[-1] == ("unprepare", ["gpu"])
        elif fate == "is taken out by force":
            on.client.remove(PODS, NAMESPACE, "p")
            await on.until(lambda: ("unprepare", ["gpu"]) in driver.calls)
        else:
            await on.until(lambda: on.phase() == "Running")
            assert on.kubelets.find("uid-p") is not None

    run_scenario(scenario, driver, machine=cdi())


@pytest.mark.parametrize("script", ['sh -c "$X"', 'echo $(sh -c "$X")', f"echo {'$(' * 400}echo{')' * 400}"])
def test_a_recursive_script_ends(script: str) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 50_000))  # the recursion limit as raised for deep selectors
    try:
        _runs_itself(script)
    finally:
        sys.setrecursionlimit(before)


def _runs_itself(script: str) -> None:
    async def scenario(on: World) -> None:
        on.pod(main={"command": ["sh", "-c", script], "env": [{"name": "X", "value": script}]}, restartPolicy="Never")
        await on.until(lambda: on.phase() == "Failed")
        assert on.main()["state"]["terminated"]["exitCode"] == 2

    run_scenario(scenario, real=True)


def test_an_invalid_exit_code_annotation_is_an_error() -> None:
    async def scenario(on: World) -> None:
        annotations = {"allotment.dev/exit-code": "9" * 5000, "allotment.dev/run-seconds": "0"}
        metadata = {"name": "p", "namespace": NAMESPACE, "uid": "uid-p", "annotations": annotations}
        spec = {"nodeName": NODE, "containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}
        on.client.put(PODS, {"metadata": metadata, "spec": spec})
        await on.until(lambda: on.phase() == "Failed")
        assert on.main()["state"]["terminated"]["exitCode"] == 1

    run_scenario(scenario, real=True)


def test_a_failed_pod_deletion_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_RETRY_SECONDS", 0.01)

    async def scenario(on: World) -> None:
        on.pod()
        await on.until(lambda: on.phase() == "Running")
        on.client.undeletable += [refusal(500, "InternalError", "try again"), refusal(403, "Forbidden", "not yet")]
        on.delete()
        await on.until(lambda: not on.exists())

    run_scenario(scenario)


def test_a_status_is_not_written_to_a_new_pod_of_the_same_name() -> None:
    async def scenario(on: World) -> None:
        on.pod()
        await on.until(lambda: on.phase() == "Running")
        key = (PODS, NAMESPACE, "p")
        other = {**on.now(), "metadata": {**on.now()["metadata"], "uid": "uid-other"}, "status": {"phase": "Pending"}}
        on.client.objects[key] = other  # before the callbacks were called
        on.runtime.containers["main"].ends(1)
        await asyncio.sleep(0.05)
        assert on.client.objects[key] is other

    run_scenario(scenario)


def test_prepared_claims_survive_an_agent_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    reconcile = NodeClaims.reconcile
    breaks: list[Callable[[], object]] = []

    async def breaking(self: NodeClaims, active: Callable[[str], bool]) -> None:
        while breaks:
            breaks.pop()()
            raise RuntimeError("an internal error")
        await reconcile(self, active)

    monkeypatch.setattr(NodeClaims, "reconcile", breaking)

    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: on.phase() == "Running")
        breaks.append(lambda: on.client.remove(PODS, NAMESPACE, "p"))
        await on.until(lambda: ("unprepare", ["gpu"]) in driver.calls)

    run_scenario(scenario, driver, machine=cdi())


@pytest.mark.parametrize("address", ["gpu.rack-3.example.com", "fd00::7"])
def test_a_node_may_have_an_address_of_any_kind(address: str) -> None:
    async def scenario(on: World) -> None:
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        on.client.put(NODES, {**on.client.objects[NODES, "", NODE], "status": status})
        await asyncio.sleep(0.01)
        on.pod()
        await on.until(lambda: on.phase() == "Running")
        assert on.now()["status"]["hostIP"] == address

    run_scenario(scenario)


def test_the_output_of_an_endless_pipe_is_logged() -> None:
    async def scenario(on: World) -> None:
        on.pod(main={"command": ["sh", "-c", "while true; do echo tick; sleep 60; done | tee /log"]})
        await on.until(lambda: on.phase() == "Running")
        run = on.kubelets.find("uid-p")
        assert run is not None
        await on.until(lambda: [line.text for line in run.mains[0].current_log.lines()][:2] == [b"tick", b"tick"])

    run_scenario(scenario, real=True)
