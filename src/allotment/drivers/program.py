"""A driver as a program of its own, for a kubelet: sockets, slices, health, until it is stopped.

The order of starting counts. What the last process left is put right first; the kubelet may call as soon as it sees the
registration socket, whether there are devices or not, because it may owe the driver an unprepare.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from allotment.cdi.store import FolderStore
from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.inspection.release import release_of
from allotment.cluster.instrumentation import UNOBSERVED, Observing
from allotment.cluster.program import Context, Program
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import Target
from allotment.cluster.remote.version_negotiation import Negotiated
from allotment.cluster.resources import NODES, SLICES
from allotment.drivers.driver import Driver, SimulatedDriver
from allotment.drivers.host import DriverHost, FileStorage, read_boot_id
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.publishing.publisher import SIMULATED, Publisher
from allotment.kubelet_plugin.server import serve_plugin
from allotment.kubelet_plugin.sockets import socket_paths
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.resource import ResourceSlice

log = logging.getLogger(__name__)

#: Told what a kubelet said of the driver: empty if it registered it, else why not.
OnRegistration = Callable[[str], None]


class DriverOptions(NamedTuple):
    """Where a driver runs: its node, its own pod (if one may start before the last has ended), the node's folders.

    ``metadata``: whether programs there can read of their devices in files.
    """

    node: str
    pod_uid: str = ""
    plugins: Path = Path("/var/lib/kubelet/plugins")
    registry: Path = Path("/var/lib/kubelet/plugins_registry")
    cdi: Path = Path("/var/run/cdi")
    metadata: bool = False


def default_options(environment: Mapping[str, str] = os.environ) -> DriverOptions:
    """As a driver's pod is told: NODE_NAME, or else the name of the machine; POD_UID.

    >>> usual_place({"NODE_NAME": "n1"}).node
    'n1'
    """
    return DriverOptions(environment.get("NODE_NAME") or os.uname().nodename, environment.get("POD_UID", ""))


def run_until_signal(driver: Driver, place: DriverOptions, target: Target) -> None:
    """Be the driver of a node until SIGTERM or SIGINT. Raises what :func:`drive` does, in groups."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve_in_cluster(driver, place, target, stop)

    asyncio.run(main())


async def serve_in_cluster(driver: Driver, place: DriverOptions, target: Target, stop: asyncio.Event) -> None:
    """Drive a node's devices in a cluster until ``stop`` is set.

    Raises Unreachable and StatusError when the cluster does not answer at first, SocketUnusable, and Held.
    """
    async with HttpClient(target, driver.name) as client:
        features = Features(kube=release_of(await client.read("/version")))
        speaking = Negotiated(client)
        await _serve_in_cluster(driver, place, speaking, features, stop, Clock(), Random(), UNOBSERVED, lambda _: None)


def node_program(driver: Driver, place: DriverOptions, features: Features, heard: OnRegistration) -> Program:
    """The same as a program; ``heard``: what the kubelet said. It raises SocketUnusable and Held, in groups."""

    async def run(context: Context) -> None:
        stop = asyncio.Event()
        with context.stopping.telling(stop.set):
            await _serve_in_cluster(
                driver, place, context.client_for(driver.name, driver.name), features, stop, context.clock,
                context.random, context.observing, heard,
            )  # fmt: skip

    return run


async def _serve_in_cluster(
    driver: Driver, place: DriverOptions, client: Client, features: Features, stop: asyncio.Event, clock: Clock,
    random: Random, observing: Observing, heard: OnRegistration,
) -> None:  # fmt: skip
    # Only what is the node's own: a driver may not be allowed to see more.
    mine = f"spec.driver={driver.name},spec.nodeName={place.node}"
    slices: Cache[ResourceSlice] = Cache(client, SLICES, ResourceSlice, clock=clock, random=random, fields=mine)
    itself = f"metadata.name={place.node}"
    nodes: Cache[Node] = Cache(client, NODES, Node, clock=clock, random=random, fields=itself)
    folder = place.plugins / driver.name
    host = DriverHost(
        place.node, read_boot_id(), FileStorage(folder / "checkpoint.json"), FolderStore(place.cdi), folder
    )
    node_driver = NodeDriver(driver, host, client, clock, metadata=place.metadata, random=random, observing=observing)
    if isinstance(driver, SimulatedDriver):
        log.warning(
            "%s on node %s: SIMULATED devices (%s): slices have the label %s, containers get variables and no devices",
            driver.name, place.node, driver.hardware, SIMULATED,
        )  # fmt: skip
    publisher = Publisher(
        client, slices, nodes, clock=clock, features=features, random=random, observing=observing,
        simulated=isinstance(driver, SimulatedDriver),
    )  # fmt: skip
    async with asyncio.TaskGroup() as group:
        caches = [group.create_task(cache.run(), name=f"cache {cache.resource.plural}") for cache in (slices, nodes)]
        caches.append(group.create_task(_warn_if_missing(nodes, place.node), name="looking for the node"))
        try:
            await serve(node_driver, publisher, place, stop, heard)
        finally:
            for task in caches:
                task.cancel()


async def _warn_if_missing(nodes: Cache[Node], name: str) -> None:
    """Say so if the cluster does not have the node: a name that is wrong would look like waiting for ever."""
    await nodes.synced.wait()
    if nodes.item("", name) is None:
        log.warning("the cluster has no node %s (yet): until it has, nothing is published", name)


async def serve(
    node_driver: NodeDriver,
    publisher: Publisher,
    place: DriverOptions,
    stop: asyncio.Event,
    heard: OnRegistration = lambda _: None,
) -> None:
    """Serve a kubelet until ``stop`` is set. Slices stay, for the next process to find."""
    endpoint, registration = socket_paths(
        node_driver.name, plugins_dir=place.plugins, registry_dir=place.registry, pod_uid=place.pod_uid
    )

    def registered(well: bool, error: str) -> None:
        heard("" if well else f"the kubelet refused the driver: {error}")
        if not well:
            log.error("%s: the kubelet refused the driver: %s", node_driver.name, error)
            return
        log.info("%s: registered", node_driver.name)
        # A kubelet that starts removes all slices of its node.
        node_driver.publish(publisher)

    await node_driver.recover()
    async with asyncio.TaskGroup() as group:
        work = [
            group.create_task(publisher.run(), name="publishing"),
            group.create_task(node_driver.run(publisher), name=node_driver.name),
        ]
        try:
            async with serve_plugin(node_driver, endpoint, registration, on_registered=registered):
                log.info("%s: serves node %s, waits for its kubelet at %s", node_driver.name, place.node, registration)
                await stop.wait()
        finally:
            for task in work:
                task.cancel()
            await node_driver.wait_idle()
