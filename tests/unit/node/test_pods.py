"""The lifecycle of a pod on a node: device preparation, containers, and ordered termination."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from allotment.cdi.spec import CdiDevice, ContainerEdits, Spec
from allotment.cdi.store import MemoryStore
from allotment.cluster.resources import CLAIMS, CONFIG_MAPS, NODES, PODS, SECRETS
from allotment.kubelet_plugin.messages import PreparedDevice, PrepareResult
from allotment.model.features import Features
from allotment.node.kubelet_features import KubeletFeatures, kubelet_features
from allotment.node.node_config import Machine
from allotment.node.plugins import Plugins
from allotment.node.runtimes.runtime import NotStarted
from tests.unit.cluster import idle
from tests.unit.node.world import DRIVER, NAMESPACE, NODE, FakeDriver, World, world

USES = {"resources": {"claims": [{"name": "c"}]}}
ID = f"k8s.{DRIVER}/claim=uid-of-gpu-gpu-0"


def run_scenario(scenario: Callable[[World], Awaitable[None]], *drivers: FakeDriver, **more: Any) -> None:
    async def run() -> None:
        async with world(*drivers, **more) as on:
            await scenario(on)

    idle.run(asyncio.wait_for(run(), 20))


def cdi(*env: str) -> Machine:
    """A node whose driver wrote the device of the claim."""
    store = MemoryStore()
    device = CdiDevice("uid-of-gpu-gpu-0", ContainerEdits(env=env))
    store.write("claim", Spec(f"k8s.{DRIVER}/claim", (device,), ContainerEdits()))
    return Machine(cdi=(store,))


# --- start ----------------------------------------------------------------------------------------------------------


def test_a_pod_runs_and_its_status_is_reported() -> None:
    async def scenario(on: World) -> None:
        on.pod()
        await on.until(lambda: on.phase() == "Running")
        assert on.ready() == "True"
        assert on.now()["status"]["hostIP"] == "172.18.0.1"
        await on.flush_events()
        assert on.events() == [
            'Container image "app:1" already present on machine and can be accessed by the pod',
            "Container created", "Container started",
        ]  # fmt: skip

    run_scenario(scenario)


def test_devices_are_prepared_before_containers_start() -> None:
    driver = FakeDriver()

    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, initContainers=[{"name": "first", "image": "app:1"}], **on.with_claim())
        await on.until(lambda: "first" in on.runtime.containers)
        assert driver.calls == [("prepare", ["gpu"])]
        first = on.runtime.containers["first"]
        assert not first.sandbox.edits, "an init container that names no claim has no device"
        first.ends()
        await on.until(lambda: on.phase() == "Running")
        assert on.runtime.containers["main"].sandbox.edits.env == ("GPU=0",)

    run_scenario(scenario, driver, machine=cdi("GPU=0"))


def test_a_pod_waits_for_its_driver_with_an_event() -> None:
    driver = FakeDriver()

    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: on.events("FailedPrepareDynamicResources"))
        message = "prepare dynamic resources: DRA driver gpu.example.com is not registered"
        assert on.events("FailedPrepareDynamicResources") == [f"Failed to prepare dynamic resources: {message}"]
        await on.until(lambda: on.phase() == "Pending")
        assert on.main()["state"] == {"waiting": {"reason": "ContainerCreating"}}
        on.kubelets.plugins.add(NODE, driver)
        await on.until(lambda: on.phase() == "Running")

    run_scenario(scenario, machine=cdi("GPU=0"), speed=1.0)


def test_failed_prepares_are_retried() -> None:
    driver = FakeDriver()
    driver.prepare_results["gpu"] = PrepareResult(error="the GPU is on fire")

    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: len(driver.calls) > 2)
        driver.prepare_results.clear()
        await on.until(lambda: on.phase() == "Running")
        message = "NodePrepareResources failed for ResourceClaim gpu: the GPU is on fire"
        await on.flush_events()
        assert on.events("FailedPrepareDynamicResources")[0].endswith(message)

    run_scenario(scenario, driver, machine=cdi("GPU=0"))


def test_devices_without_a_driver_can_be_used() -> None:
    async def scenario(on: World) -> None:
        on.claim(driver="hand.written")
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: on.phase() == "Running")

    run_scenario(scenario, plugins=Plugins())


def test_a_driver_that_was_registered_is_not_replaced() -> None:
    plugins = Plugins()
    driver = FakeDriver()
    plugins.add(NODE, driver)
    assert plugins.find(NODE, DRIVER) is driver
    plugins.remove(NODE, DRIVER)
    assert plugins.find(NODE, DRIVER) is None
    plugins.expect(NODE, "late.example.com")
    assert plugins.find(NODE, "late.example.com") is None
    assert plugins.find("n2", DRIVER) is not None, "another node is another matter"


def test_a_device_missing_from_cdi_specs_is_an_error() -> None:
    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: "waiting" in on.main().get("state", {}) and on.events("Failed"))
        message = f"failed to create container: CDI device injection failed: unresolvable CDI devices {ID}"
        assert on.main()["state"]["waiting"] == {"reason": "CreateContainerError", "message": message}
        assert on.events("Failed") == [f"Error: {message}"]
        assert on.main()["restartCount"] == 0

    run_scenario(scenario, FakeDriver(), speed=1.0)


def test_a_failed_image_pull_backs_off() -> None:
    async def scenario(on: World) -> None:
        on.runtime.refuses = [NotStarted("ErrImagePull", "no such image")] * 2
        on.pod()
        await on.until(lambda: on.events("Failed"))
        await on.until(lambda: on.phase() == "Running")
        await on.flush_events()
        pull = 'Failed to pull image "app:1": no such image'
        assert set(on.events("Failed")) == {pull, "Error: ErrImagePull", "Error: ImagePullBackOff"}
        assert on.events("BackOff") == ['Back-off pulling image "app:1"']
        assert on.main()["restartCount"] == 0

    run_scenario(scenario)


def test_variables_come_from_maps_secrets_and_amounts() -> None:
    main = {
        "envFrom": [{"configMapRef": {"name": "map"}, "prefix": "MAP_"}],
        "env": [
            {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "word"}}},
            {"name": "CORES", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "ALL", "value": "$(WORD)-$(CORES)-$$(MIB)"},
            {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "none", "optional": True}}},
        ],
        "resources": {"limits": {"memory": "1025Ki"}},
    }

    async def scenario(on: World) -> None:
        on.client.put(SECRETS, {"metadata": {"name": "secret", "namespace": NAMESPACE}, "data": {"word": "aHVzaA=="}})
        on.pod(main=main)
        await on.until(lambda: on.events("Failed"))
        waits = on.main()["state"]["waiting"]
        assert waits == {"reason": "CreateContainerConfigError", "message": 'configmap "map" not found'}
        on.client.put(CONFIG_MAPS, {"metadata": {"name": "map", "namespace": NAMESPACE}, "data": {"a": "1"}})
        await on.until(lambda: on.phase() == "Running")
        environment = on.runtime.containers["main"].sandbox.environment
        found = {name: environment.get(name) for name in ("MAP_a", "WORD", "CORES", "MIB", "ALL", "NONE")}
        assert found == {
            "MAP_a": "1", "WORD": "hush", "CORES": "8", "MIB": "2", "ALL": "hush-8-$(MIB)", "NONE": None,
        }  # fmt: skip

    run_scenario(scenario)


# --- termination ----------------------------------------------------------------------------------------------------


def test_claims_are_unprepared_after_the_containers_and_before_the_final_phase() -> None:
    driver = FakeDriver()
    seen: list[str] = []

    async def scenario(on: World) -> None:
        driver.before_unprepare = lambda: seen.append(on.phase())
        on.claim()
        on.pod(main=USES, restartPolicy="Never", **on.with_claim())
        await on.until(lambda: on.phase() == "Running")
        on.runtime.containers["main"].ends()
        await on.until(lambda: on.phase() == "Succeeded")
        assert seen == ["Running"]
        assert driver.calls[-1] == ("unprepare", ["gpu"])

    run_scenario(scenario, driver, machine=cdi("GPU=0"))


def test_a_node_serves_the_number_of_skipped_operations() -> None:
    async def scenario(on: World) -> None:
        node = on.client.objects[NODES, "", NODE]
        assert on.kubelets.metrics(node) == b""
        result = {"driver": DRIVER, "pool": NODE, "device": "gpu-0", "request": "gpu", "skipNodeOperations": ["*"]}
        on.claim(status={"allocation": {"devices": {"results": [result]}}})
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: on.phase() == "Running")
        assert f'dra_node_prepare_skips_total{{driver_name="{DRIVER}"}} 1\n'.encode() in (
            on.kubelets.metrics(node) or b""
        )
        assert on.kubelets.metrics({"metadata": {"name": "without-kubelet"}}) is None

    features = KubeletFeatures(optional_node_operations=True)
    run_scenario(scenario, FakeDriver(), machine=cdi("GPU=0"), features=features)


def test_kubelets_without_such_metrics_serve_none() -> None:
    async def scenario(on: World) -> None:
        assert on.kubelets.metrics(on.client.objects[NODES, "", NODE]) is None

    run_scenario(scenario, features=kubelet_features(Features("1.36")))


def test_a_pod_has_not_ended_while_unprepare_fails() -> None:
    driver = FakeDriver()
    driver.unprepare_errors["gpu"] = "busy"

    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, restartPolicy="Never", **on.with_claim())
        await on.until(lambda: on.phase() == "Running")
        on.runtime.containers["main"].ends()
        await on.until(lambda: "terminated" in on.main()["state"])
        assert on.phase() == "Running"
        on.delete()
        await asyncio.sleep(0.02)
        assert on.exists()
        driver.unprepare_errors.clear()
        await on.until(lambda: not on.exists())

    run_scenario(scenario, driver, machine=cdi("GPU=0"))


def test_a_deleted_pod_is_stopped_unprepared_and_removed() -> None:
    driver = FakeDriver()
    stopped: list[bool] = []

    async def scenario(on: World) -> None:
        driver.before_unprepare = lambda: stopped.append(bool(on.runtime.stops) and on.exists())
        on.claim()
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: on.phase() == "Running")
        on.delete(grace=7)
        await on.until(lambda: not on.exists())
        assert stopped == [True]
        ((name, grace),) = on.runtime.stops
        assert name == "main"
        assert 2 <= grace <= 7
        last = [event.object for _, kind, event in on.client.history if kind == PODS][-1]["status"]
        assert last["phase"] == "Failed"
        assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
        await on.flush_events()
        assert on.events("Killing") == ["Stopping container main"]

    run_scenario(scenario, driver, machine=cdi("GPU=0"), speed=10.0)


def test_a_container_that_does_not_stop_is_killed() -> None:
    async def scenario(on: World) -> None:
        on.runtime.stubborn = True
        on.pod()
        await on.until(lambda: on.phase() == "Running")
        on.delete(grace=0)
        await on.until(lambda: not on.exists())
        last = [event.object for _, kind, event in on.client.history if kind == PODS][-1]["status"]
        assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
        assert on.runtime.stops == [("main", 2.0)], "two seconds are the minimum"

    run_scenario(scenario)


def test_hooks_run_before_and_after() -> None:
    hooks = {"postStart": {"exec": {"command": ["hello"]}}, "preStop": {"exec": {"command": ["bye"]}}}

    async def scenario(on: World) -> None:
        on.pod(main={"lifecycle": hooks})
        await on.until(lambda: "main" in on.runtime.containers and on.runtime.containers["main"].ran == [["hello"]])
        on.delete()
        await on.until(lambda: not on.exists())
        assert on.runtime.containers["main"].ran == [["hello"], ["bye"]]

    run_scenario(scenario)


def test_a_failed_hook_restarts_the_container() -> None:
    async def scenario(on: World) -> None:
        on.runtime.exec_code = 1
        on.pod(main={"lifecycle": {"postStart": {"exec": {"command": ["hello"]}}}})
        await on.until(lambda: on.phase() == "Running" and on.main()["restartCount"] > 0)
        await on.flush_events()
        assert "PostStartHook failed" in on.events("FailedPostStartHook")

    run_scenario(scenario)


def test_sidecars_end_after_the_others_in_reverse() -> None:
    sidecars = [{"name": name, "image": "app:1", "restartPolicy": "Always"} for name in ("one", "two")]

    async def scenario(on: World) -> None:
        on.pod(initContainers=sidecars, restartPolicy="Never")
        await on.until(lambda: on.phase() == "Running")
        on.runtime.containers["main"].ends()
        await on.until(lambda: on.phase() == "Succeeded")
        assert [name for name, _ in on.runtime.stops] == ["two", "one"]
        assert on.runtime.started == ["one", "two", "main"]

    run_scenario(scenario)


def test_a_pod_past_its_deadline_fails() -> None:
    async def scenario(on: World) -> None:
        on.pod(activeDeadlineSeconds=20)
        await on.until(lambda: on.phase() == "Running")
        await on.until(lambda: on.phase() == "Failed")
        assert on.now()["status"]["reason"] == "DeadlineExceeded"
        message = "Pod was active on the node longer than the specified deadline"
        assert on.now()["status"]["message"] == message
        await on.flush_events()
        assert on.events("DeadlineExceeded") == [message]

    run_scenario(scenario)


def test_a_pod_that_waits_for_devices_can_be_deleted() -> None:
    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: on.phase() == "Pending")
        on.delete()
        await on.until(lambda: not on.exists())

    run_scenario(scenario)


def test_claims_of_a_force_deleted_pod_are_unprepared() -> None:
    driver = FakeDriver()

    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: on.phase() == "Running")
        on.client.remove(CLAIMS, NAMESPACE, "gpu")
        on.client.remove(PODS, NAMESPACE, "p")
        await on.until(lambda: ("unprepare", ["gpu"]) in driver.calls)
        assert on.runtime.stops

    run_scenario(scenario, driver, machine=cdi("GPU=0"))


def test_an_ended_pod_is_removed_when_it_is_deleted() -> None:
    async def scenario(on: World) -> None:
        on.pod(status={"phase": "Succeeded"})
        await asyncio.sleep(0.01)
        assert not on.runtime.started
        on.delete()
        await on.until(lambda: not on.exists())

    run_scenario(scenario)


def test_several_devices_under_one_request() -> None:
    driver = FakeDriver()
    devices = [PreparedDevice(("gpu",), NODE, f"gpu-{i}", (f"k8s.{DRIVER}/claim=g{i}",)) for i in range(2)]
    driver.prepare_results["gpu"] = PrepareResult(tuple(devices))
    store = MemoryStore()
    edits = [CdiDevice(f"g{i}", ContainerEdits(env=(f"GPU{i}=1",))) for i in range(2)]
    store.write("claim", Spec(f"k8s.{DRIVER}/claim", tuple(edits), ContainerEdits(env=("COMMON=1",))))

    async def scenario(on: World) -> None:
        on.claim()
        on.pod(main=USES, **on.with_claim())
        await on.until(lambda: on.phase() == "Running")
        assert set(on.runtime.containers["main"].sandbox.edits.env) == {"COMMON=1", "GPU0=1", "GPU1=1"}

    run_scenario(scenario, driver, machine=Machine(cdi=(store,)))
