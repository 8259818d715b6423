"""What can be seen on simulated nodes with the vendors' drivers: from inside containers, and on the hardware."""

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
from tests.lab.stage import Stage

PATIENCE = 120.0


async def run(on: Stage, pod: Tree, *words: str, container: str = "") -> str:
    """What a command prints in a container, as ``kubectl exec`` shows it."""
    told = bytearray()

    async def write(data: bytes) -> None:
        told.extend(data)

    await on.plane.environment.kubelets.exec(
        pod, container or pod["spec"]["containers"][0]["name"], words,
        stdin=None, stdout=write, stderr=write, tty=False, sizes=_no_sizes(),
    )  # fmt: skip
    return told.decode()


async def _no_sizes(sizes: Sequence[tuple[int, int]] = ()) -> AsyncIterator[tuple[int, int]]:
    for size in sizes:
        yield size


async def variables(on: Stage, pod: Tree, container: str = "") -> dict[str, str]:
    """The environment of a container's programs."""
    lines = (await run(on, pod, "env", container=container)).splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def hardware(on: Stage, node: str) -> SimulatedHardware:
    """The GPUs that NVIDIA's driver of a node has."""
    (found,) = on.plane.drivers.of(node)
    assert isinstance(found.driver, NvidiaDriver)
    assert isinstance(found.driver.hardware, SimulatedHardware)
    return found.driver.hardware


async def statuses(on: Stage, pod: Tree, count: int = 1) -> list[Tree]:
    """What drivers say of the devices of a pod's claims, once they do."""
    found: list[Tree] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            found = [entry for claim in await on.claims(pod) for entry in claim["status"].get("devices") or ()]
            await asyncio.sleep(0.005)
    return found


async def gone(on: Stage, namespace: str) -> None:
    """Delete what runs in a namespace, and wait until nothing of it does."""
    for resource in (DEPLOYMENTS, PODS):
        for tree in (await on.client.list(resource, namespace)).items:
            try:
                await on.client.delete(resource, tree["metadata"]["name"], namespace)
            except StatusError as error:
                if error.code != 404:
                    raise
    await on.pods(namespace, lambda pods: not pods)


async def event(on: Stage, name: str, namespace: str, reason: str, words: str = "") -> str:
    """The message of an event of a pod, as soon as there is one with these words."""
    messages: Sequence[str] = ()
    try:
        async with asyncio.timeout(PATIENCE):
            while not (fits := [message for message in messages if words in message]):
                await asyncio.sleep(0.01)
                items = (await on.client.list(EVENTS, namespace, fields=f"involvedObject.name={name}")).items
                messages = [item["message"] for item in items if item["reason"] == reason]
    except TimeoutError:
        raise AssertionError(f"was not told {words!r} but {messages}") from None
    return fits[-1]


async def break_down(on: Stage, node: str, faults: str | None) -> None:
    """Break hardware of a node, and mend what is not named."""
    await annotate(on, node, FAULTS, faults)


async def annotate(on: Stage, node: str, name: str, value: str | None) -> None:
    """Say something of a node, or no longer."""
    await on.client.patch(NODES, node, {"metadata": {"annotations": {name: value}}})


async def published(on: Stage, node: str, found: Callable[[Sequence[Tree]], Any]) -> list[Tree]:
    """The slices of a node as soon as something is true of them."""
    slices: list[Tree] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while not slices or not found(slices):
                await asyncio.sleep(0.005)
                items = (await on.client.list(SLICES)).items
                slices = sorted(
                    (one for one in items if one["spec"].get("nodeName") == node),
                    key=lambda one: one["metadata"]["name"],
                )
    except TimeoutError:
        raise AssertionError(f"did not come true: {slices}") from None
    return slices


def names(slices: Sequence[Tree]) -> list[str]:
    """The devices in slices."""
    return [device["name"] for one in slices for device in one["spec"].get("devices") or ()]


def healths(pod: Tree, container: int = 0) -> list[tuple[str, str]]:
    """What a container's status says of its devices: name of the entry and health."""
    status = pod["status"]["containerStatuses"][container]
    return [
        (entry["name"], resource["health"])
        for entry in status.get("allocatedResourcesStatus") or ()
        for resource in entry.get("resources") or ()
    ]


async def no_claims(on: Stage, namespace: str) -> None:
    """Wait until generated claims have gone with their pods."""
    async with asyncio.timeout(PATIENCE):
        while (await on.client.list(CLAIMS, namespace)).items:
            await asyncio.sleep(0.005)


def claim_files(on: Stage, node: str) -> frozenset[str]:
    """The CDI files of the claims that are prepared on a node."""
    return frozenset(name for store in on.plane.environment.machine(node).cdi for name in store.names())


async def logs(on: Stage, pod: Tree, container: str) -> str:
    """What a container has printed, as soon as it has: a pod may be said to run a moment before."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    async with asyncio.timeout(PATIENCE):
        while not (told := await on.text(f"/api/v1/namespaces/{namespace}/pods/{name}/log", f"container={container}")):
            await asyncio.sleep(0.005)
    return told
