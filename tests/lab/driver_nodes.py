"""Actions of tests on simulated nodes with the vendors' drivers, in containers and on the hardware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, DEPLOYMENTS, EVENTS, NODES, PODS, SLICES
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.lab.drivers import FAULTS
from allotment.model.trees import Tree
from tests.lab.harness import LabHarness

TIMEOUT_SECONDS = 120.0


async def exec_in_pod(lab: LabHarness, pod: Tree, *arguments: str, container: str = "") -> str:
    """The output of a command in a container, as ``kubectl exec`` prints it."""
    output = bytearray()

    async def write(data: bytes) -> None:
        output.extend(data)

    await lab.plane.environment.kubelets.exec(
        pod, container or pod["spec"]["containers"][0]["name"], arguments,
        stdin=None, stdout=write, stderr=write, tty=False, sizes=_no_sizes(),
    )  # fmt: skip
    return output.decode()


async def _no_sizes(sizes: Sequence[tuple[int, int]] = ()) -> AsyncIterator[tuple[int, int]]:
    for size in sizes:
        yield size


async def variables(lab: LabHarness, pod: Tree, container: str = "") -> dict[str, str]:
    """The environment variables of a container's programs."""
    lines = (await exec_in_pod(lab, pod, "env", container=container)).splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def hardware(lab: LabHarness, node: str) -> SimulatedHardware:
    """The GPUs of a node, as NVIDIA's driver knows them."""
    (found,) = lab.plane.drivers.of(node)
    assert isinstance(found.driver, NvidiaDriver)
    assert isinstance(found.driver.hardware, SimulatedHardware)
    return found.driver.hardware


async def device_statuses(lab: LabHarness, pod: Tree, count: int = 1) -> list[Tree]:
    """The device statuses in a pod's claims, once drivers have written ``count`` of them."""
    found: list[Tree] = []
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while len(found) < count:
            found = [entry for claim in await lab.claims(pod) for entry in claim["status"].get("devices") or ()]
            await asyncio.sleep(0.005)
    return found


async def delete_all(lab: LabHarness, namespace: str) -> None:
    """Delete the pods and workloads of a namespace, and wait until all of them are deleted."""
    for resource in (DEPLOYMENTS, PODS):
        for tree in (await lab.client.list(resource, namespace)).items:
            try:
                await lab.client.delete(resource, tree["metadata"]["name"], namespace)
            except StatusError as error:
                if error.code != 404:
                    raise
    await lab.pods(namespace, lambda pods: not pods)


async def wait_for_event(lab: LabHarness, name: str, namespace: str, reason: str, words: str = "") -> str:
    """The message of a pod's event, once there is one that contains these words."""
    messages: Sequence[str] = ()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not (fits := [message for message in messages if words in message]):
                await asyncio.sleep(0.01)
                items = (await lab.client.list(EVENTS, namespace, fields=f"involvedObject.name={name}")).items
                messages = [item["message"] for item in items if item["reason"] == reason]
    except TimeoutError:
        raise AssertionError(f"got no event with {words!r} but {messages}") from None
    return fits[-1]


async def inject_faults(lab: LabHarness, node: str, faults: str | None) -> None:
    """Inject faults into a node's hardware, and repair whatever is not named."""
    await annotate(lab, node, FAULTS, faults)


async def annotate(lab: LabHarness, node: str, name: str, value: str | None) -> None:
    """Set an annotation of a node, or remove it."""
    await lab.client.patch(NODES, node, {"metadata": {"annotations": {name: value}}})


async def wait_for_slices(lab: LabHarness, node: str, found: Callable[[Sequence[Tree]], Any]) -> list[Tree]:
    """The slices of a node, once ``found`` is true of them."""
    slices: list[Tree] = []
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not slices or not found(slices):
                await asyncio.sleep(0.005)
                items = (await lab.client.list(SLICES)).items
                slices = sorted(
                    (item for item in items if item["spec"].get("nodeName") == node),
                    key=lambda one: one["metadata"]["name"],
                )
    except TimeoutError:
        raise AssertionError(f"condition not met: {slices}") from None
    return slices


def device_names(slices: Sequence[Tree]) -> list[str]:
    """The names of the devices in slices."""
    return [device["name"] for slice_ in slices for device in slice_["spec"].get("devices") or ()]


def device_health(pod: Tree, container: int = 0) -> list[tuple[str, str]]:
    """The health of devices in a container's status: the entry's name and the health."""
    status = pod["status"]["containerStatuses"][container]
    return [
        (entry["name"], resource["health"])
        for entry in status.get("allocatedResourcesStatus") or ()
        for resource in entry.get("resources") or ()
    ]


async def wait_for_no_claims(lab: LabHarness, namespace: str) -> None:
    """Wait until generated claims are deleted with their pods."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while (await lab.client.list(CLAIMS, namespace)).items:
            await asyncio.sleep(0.005)


def claim_specs(lab: LabHarness, node: str) -> frozenset[str]:
    """The CDI specs of the claims that are prepared on a node."""
    return frozenset(name for store in lab.plane.environment.machine(node).cdi for name in store.names())


async def logs(lab: LabHarness, pod: Tree, container: str) -> str:
    """The output of a container, once there is some: a pod may be reported as running a moment before."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (
            output := await lab.text(f"/api/v1/namespaces/{namespace}/pods/{name}/log", f"container={container}")
        ):
            await asyncio.sleep(0.005)
    return output
