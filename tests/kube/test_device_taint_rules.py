"""A DeviceTaintRule is obeyed and shown by everything that reads one, in the version that a release serves.

1.37 serves v1 by default; 1.36 serves v1beta2 on request.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from allotment.annotator.program import Options, annotator
from allotment.cli.main import main
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, EVENTS, PODS, TAINT_RULES
from allotment.controllers.device_taints import device_taints
from allotment.exporter.definitions import TAINTED_DEVICES
from allotment.exporter.metric import Sample
from allotment.exporter.program import ExporterOptions, exporter
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler
from bench.real_kube import ApiServer, plane
from tests.kube.allotment_programs import running_programs
from tests.kube.objects import PODS as POD_PATH
from tests.kube.objects import device_class, items, node, pod, template
from tests.kube.releases import KUBE_RELEASES, KubeRelease
from tests.polling import until, wait_until

pytestmark = pytest.mark.every_release

_SECONDS = 120


@pytest.fixture(scope="module")
def chosen(release: str) -> KubeRelease:
    return KUBE_RELEASES[release]


@pytest.fixture(scope="module")
def server(paths: dict[str, str], chosen: KubeRelease) -> Iterator[ApiServer]:
    """One GPU on one node; taint eviction and Allotment's pods are left to Allotment's programs."""
    gates, config = chosen.rule_flags
    with plane(paths, controllers="*,-device-taint-eviction-controller", gates=gates, runtime_config=config) as running:
        node(running, "one", 1)
        device_class(running)
        template(running)
        yield running


@asynccontextmanager
async def tainted(client: Client, effect: str = "NoSchedule") -> AsyncIterator[None]:
    """The GPU is tainted in this context."""
    spec = {
        "deviceSelector": {"driver": "gpu.example.com", "pool": "one", "device": "gpu-0"},
        "taint": {"key": "example.com/broken", "effect": effect},
    }
    await client.create(TAINT_RULES, {"metadata": {"name": "broken"}, "spec": spec})
    try:
        yield
    finally:
        await client.delete(TAINT_RULES, "broken")


@pytest.fixture
def rule(server: ApiServer, chosen: KubeRelease) -> Iterator[None]:
    """The rule, created as a user does: in the version that the server serves; and a pod of kube-scheduler."""
    path = f"/apis/resource.k8s.io/{chosen.rule_version}/devicetaintrules"
    spec = {
        "deviceSelector": {"driver": "gpu.example.com", "pool": "one", "device": "gpu-0"},
        "taint": {"key": "example.com/broken", "effect": "NoSchedule"},
    }
    assert server.send_request("POST", path, {"metadata": {"name": "broken"}, "spec": spec})[0] == 201
    assert server.send_request("POST", POD_PATH, pod("theirs"))[0] == 201
    yield
    for deleted in (f"{POD_PATH}/theirs", f"{path}/broken"):
        assert server.send_request("DELETE", deleted)[0] == 200


def allot(server: ApiServer, *words: str) -> str:
    """The output of a command."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = main([*words, "--kubeconfig", str(server.kubeconfig), "--context", "real"])
    assert code in (0, 1), output.getvalue()
    return output.getvalue()


@pytest.mark.usefixtures("rule")
def test_kube_scheduler_leaves_the_pod_pending_and_explain_says_why(server: ApiServer) -> None:
    def is_pending() -> bool:
        conditions = server.send_request("GET", f"{POD_PATH}/theirs")[1]["status"].get("conditions") or ()
        return any(condition.get("reason") == "Unschedulable" for condition in conditions)

    wait_until(is_pending)
    text = allot(server, "explain", "pod/theirs")
    assert "every matching device is tainted (example.com/broken:NoSchedule)" in " ".join(text.split()), text


@pytest.mark.usefixtures("rule")
def test_free_counts_no_free_device(server: ApiServer) -> None:
    text = allot(server, "free")
    assert text.startswith("0 of 1 device are free"), text
    assert "example.com/broken:NoSchedule" in text


@pytest.mark.usefixtures("rule")
def test_doctor_names_the_rule(server: ApiServer) -> None:
    text = " ".join(allot(server, "doctor").split())
    assert "DeviceTaintRule broken adds the taint" in text, text


def test_the_exporter_counts_the_tainted_device(server: ApiServer, chosen: KubeRelease) -> None:
    async def scenario() -> None:
        created = exporter(ExporterOptions(chosen.features, build_interval=0.1, diagnosis_interval=0.1))

        def count() -> float:
            samples = [
                sample for family in created.families() if family.metric == TAINTED_DEVICES for sample in family.samples
            ]
            return sum(sample.value for sample in samples if isinstance(sample, Sample))

        async with asyncio.timeout(_SECONDS), running_programs(server, {"exporter": created.program}) as client:
            async with tainted(client):
                await until(lambda: count() == 1)
            await until(lambda: count() == 0)

    asyncio.run(scenario())


def test_the_scheduler_does_not_allocate_the_tainted_device(server: ApiServer, chosen: KubeRelease) -> None:
    async def scenario() -> None:
        programs = {"scheduler": scheduler(SchedulerOptions(chosen.features, "allotment", settle=0.0))}
        async with asyncio.timeout(_SECONDS), running_programs(server, programs) as client:
            async with tainted(client):
                await client.create(PODS, pod("ours", "allotment"), "default")
                message = await _message(client, "ours")
                assert "example.com/broken" in message or "tainted" in message, message
            assert await _node(client, "ours") == "one", "the rule is gone"
            await _remove(client, "ours")

    asyncio.run(scenario())


def test_the_taint_controller_evicts_the_pod(server: ApiServer, chosen: KubeRelease) -> None:
    async def scenario() -> None:
        programs = {"device-taints": device_taints(chosen.features)}
        async with asyncio.timeout(_SECONDS), running_programs(server, programs) as client:
            await client.create(PODS, pod("evicted"), "default")
            assert await _node(client, "evicted") == "one"
            async with tainted(client, "NoExecute"):
                await until(lambda: not items(server, POD_PATH))

                async def conditions() -> list[Tree]:
                    rule = await client.get(TAINT_RULES, "broken")
                    return list((rule.get("status") or {}).get("conditions") or ())

                while not (found := await conditions()):
                    await asyncio.sleep(0.1)
                assert {condition["type"] for condition in found} == {"EvictionInProgress"}

    asyncio.run(scenario())


def test_the_annotator_reports_the_taint(server: ApiServer, chosen: KubeRelease) -> None:
    async def scenario() -> None:
        programs = {"annotator": annotator(Options(chosen.features, delay=0.0, every=0.1))}
        async with asyncio.timeout(_SECONDS), running_programs(server, programs) as client, tainted(client):
            await client.create(PODS, pod("annotated"), "default")

            async def notes() -> list[str]:
                events = (await client.list(EVENTS, "default", fields="involvedObject.name=annotated")).items
                return [event["message"] for event in events if "tainted" in event.get("message", "")]

            while not await notes():
                await asyncio.sleep(0.1)
            await _remove(client, "annotated")

    asyncio.run(scenario())


async def _message(client: Client, name: str) -> str:
    """The message of a pod's scheduling condition, once it is pending."""
    while True:
        conditions = (await client.get(PODS, name, "default"))["status"].get("conditions") or ()
        for condition in conditions:
            if condition["type"] == "PodScheduled" and condition.get("message"):
                return str(condition["message"])
        await asyncio.sleep(0.05)


async def _node(client: Client, name: str) -> str:
    """The node of a pod, once it has one."""
    while not (found := (await client.get(PODS, name, "default"))["spec"].get("nodeName")):
        await asyncio.sleep(0.05)
    return str(found)


async def _remove(client: Client, name: str) -> None:
    """Delete a pod, and wait until its claim is gone, so that the device is free again."""
    await client.delete(PODS, name, "default", grace_seconds=0)
    while (await client.list(CLAIMS, "default")).items:
        with contextlib.suppress(StatusError):
            await client.get(PODS, name, "default")
        await asyncio.sleep(0.05)
