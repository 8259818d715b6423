"""A driver as a program on a node: recovery, sockets, slices and health, until it is stopped.

Recovery from the previous process comes first. The kubelet may call as soon as the registration socket exists, even if
there are no devices, because it may have to unprepare claims.
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
from allotment.cluster.instrumentation import UNOBSERVED, Instrumentation
from allotment.cluster.program import Program, ProgramContext
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.version_negotiation import NegotiatingClient
from allotment.cluster.resources import NODES, SLICES
from allotment.drivers.driver import Driver, SimulatedDriver
from allotment.drivers.host import DriverHost, FileStorage, read_boot_id
from allotment.drivers.preparation.metadata import metadata_versions
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.publishing.publisher import SIMULATED, Publisher
from allotment.kubelet_plugin.server import serve_plugin
from allotment.kubelet_plugin.sockets import socket_paths
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.resource import ResourceSlice

log = logging.getLogger(__name__)

#: Called after a registration with "" or with the kubelet's error.
OnRegistration = Callable[[str], None]


class DriverOptions(NamedTuple):
    """A driver's node, its pod UID (for rolling updates), and the node's folders.

    ``metadata``: whether to write files in which programs can read the attributes of their devices.
    """

    node: str
    pod_uid: str = ""
    plugins: Path = Path("/var/lib/kubelet/plugins")
    registry: Path = Path("/var/lib/kubelet/plugins_registry")
    cdi: Path = Path("/var/run/cdi")
    metadata: bool = False


def default_options(environment: Mapping[str, str] = os.environ) -> DriverOptions:
    """Return the options of a driver's pod: NODE_NAME, or else the machine's hostname; POD_UID.

    >>> default_options({"NODE_NAME": "n1"}).node
    'n1'
    """
    return DriverOptions(environment.get("NODE_NAME") or os.uname().nodename, environment.get("POD_UID", ""))


def run_until_signal(driver: Driver, options: DriverOptions, target: ClusterTarget) -> None:
    """Run a node's driver until SIGTERM or SIGINT. Raises what :func:`serve_in_cluster` raises, in groups."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve_in_cluster(driver, options, target, stop)

    asyncio.run(main())


async def serve_in_cluster(driver: Driver, options: DriverOptions, target: ClusterTarget, stop: asyncio.Event) -> None:
    """Run a node's driver in a cluster until ``stop`` is set.

    Raises Unreachable and StatusError if the first request to the cluster fails, SocketError, and CheckpointLocked.
    """
    async with HttpClient(target, driver.name) as client:
        features = Features(kube=release_of(await client.read("/version")))
        negotiated = NegotiatingClient(client)
        await _serve_in_cluster(
            driver, options, negotiated, features, stop, Clock(), Random(), UNOBSERVED, lambda _: None
        )


def node_program(
    driver: Driver, options: DriverOptions, features: Features, on_registration: OnRegistration
) -> Program:
    """Return a driver as a Program, which raises SocketError and CheckpointLocked, in groups."""

    async def run(context: ProgramContext) -> None:
        stop = asyncio.Event()
        with context.stopping.callback(stop.set):
            await _serve_in_cluster(
                driver, options, context.client_for(driver.name, driver.name), features, stop, context.clock,
                context.random, context.observing, on_registration,
            )  # fmt: skip

    return run


async def _serve_in_cluster(
    driver: Driver, options: DriverOptions, client: Client, features: Features, stop: asyncio.Event, clock: Clock,
    random: Random, observing: Instrumentation, on_registration: OnRegistration,
) -> None:  # fmt: skip
    # Only the node's objects: the driver may have no permission for others.
    own_slices = f"spec.driver={driver.name},spec.nodeName={options.node}"
    slices: Cache[ResourceSlice] = Cache(client, SLICES, ResourceSlice, clock=clock, random=random, fields=own_slices)
    own_node = f"metadata.name={options.node}"
    nodes: Cache[Node] = Cache(client, NODES, Node, clock=clock, random=random, fields=own_node)
    folder = options.plugins / driver.name
    host = DriverHost(
        options.node, read_boot_id(), FileStorage(folder / "checkpoint.json"), FolderStore(options.cdi), folder
    )
    metadata = metadata_versions(features) if options.metadata else ()
    node_driver = NodeDriver(driver, host, client, clock, metadata=metadata, random=random, observing=observing)
    if isinstance(driver, SimulatedDriver):
        log.warning(
            "%s on node %s: SIMULATED devices (%s): slices have the label %s, and containers get environment variables "
            "instead of devices",
            driver.name, options.node, driver.simulated_hardware, SIMULATED,
        )  # fmt: skip
    publisher = Publisher(
        client, slices, nodes, clock=clock, features=features, random=random, observing=observing,
        simulated=isinstance(driver, SimulatedDriver),
    )  # fmt: skip
    async with asyncio.TaskGroup() as group:
        caches = [group.create_task(cache.run(), name=f"cache {cache.resource.plural}") for cache in (slices, nodes)]
        caches.append(group.create_task(_warn_if_missing(nodes, options.node), name="node check"))
        try:
            await serve(node_driver, publisher, options, stop, on_registration)
        finally:
            for task in caches:
                task.cancel()


async def _warn_if_missing(nodes: Cache[Node], name: str) -> None:
    """Log a warning if the cluster does not have the node, which may be a wrong name."""
    await nodes.synced.wait()
    if nodes.item("", name) is None:
        log.warning("node %s not found in the cluster: no slices are published until it is created", name)


async def serve(
    node_driver: NodeDriver,
    publisher: Publisher,
    options: DriverOptions,
    stop: asyncio.Event,
    on_registration: OnRegistration = lambda _: None,
) -> None:
    """Serve a kubelet until ``stop`` is set. The slices stay for the next process."""
    endpoint, registration = socket_paths(
        node_driver.name, plugins_dir=options.plugins, registry_dir=options.registry, pod_uid=options.pod_uid
    )

    def handle_registration(registered: bool, error: str) -> None:
        on_registration("" if registered else f"the kubelet rejected the registration: {error}")
        if not registered:
            log.error("%s: the kubelet rejected the registration: %s", node_driver.name, error)
            return
        log.info("%s: registered", node_driver.name)
        # A kubelet removes all slices of its node at startup.
        node_driver.publish(publisher)

    await node_driver.recover()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(publisher.run(), name="publishing"),
            group.create_task(node_driver.run(publisher), name=node_driver.name),
        ]
        try:
            async with serve_plugin(node_driver, endpoint, registration, on_registered=handle_registration):
                log.info(
                    "%s: serving node %s, waiting for its kubelet at %s", node_driver.name, options.node, registration
                )
                await stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            await node_driver.wait_idle()
