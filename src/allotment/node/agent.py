"""The node agent: runs the pods of all nodes that one process serves.

It watches pods, nodes and claims, runs a :class:`~allotment.node.pod_lifecycle.PodRun` for each pod of its nodes, and
keeps the per-node state: prepared claims, device health, ResourceSlices of unregistered drivers. It uses only
callbacks and one task per pod, so a node without pods costs nothing here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from allotment.cdi.lookup import CdiDevices
from allotment.cluster.backoff import Backoff
from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import CLAIMS, NODES, PODS, SERVICES, SLICES, VOLUME_CLAIMS, VOLUMES
from allotment.model import pod_groups
from allotment.model.core import Node, Pod
from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.model.trees import Tree
from allotment.node import checkpoint, kubelet_api
from allotment.node.checkpoint import CorruptCheckpoint
from allotment.node.claims import NodeClaims
from allotment.node.container_files import Directory
from allotment.node.device_health import DeviceHealths
from allotment.node.device_view import DeviceView
from allotment.node.driver_lifecycle import Drivers
from allotment.node.kubelet_features import KubeletFeatures
from allotment.node.node_config import Machine
from allotment.node.plugins import Plugins
from allotment.node.pod_lifecycle import PodRun
from allotment.node.pod_mounts import PersistentVolumes
from allotment.node.pod_network import PodNetwork
from allotment.node.runtimes.runtime import Connection, Runtime
from allotment.node.sandbox_builder import NodeContext, address_of

#: Seconds between two cleanups of claims of deleted pods.
_RECONCILE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 1.0
#: Seconds of the lab's clock before a pod worker that failed is restarted.
_RESTART_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class _PodWorker(NamedTuple):
    run: PodRun
    task: asyncio.Task[None]


class Agent:
    """Runs the pods of the nodes for which ``serves`` is true.

    ``claims``: the prepared claims by node, kept from the previous agent: unprepare calls may still be due.
    ``simulated``: the runtime of nodes without their own.
    """

    def __init__(
        self, context: ProgramContext, plugins: Plugins, machines: Mapping[str, Machine],
        serves: Callable[[Tree], bool], claims: dict[str, NodeClaims], features: KubeletFeatures,
        simulated: Runtime,
    ) -> None:  # fmt: skip
        self._context = context
        self._plugins = plugins
        self._machines = machines
        self._serves = serves
        self._claims_by_node = claims
        self._features = features
        self._client = context.client_for("kubelet")
        self._recorder = context.recorder("kubelet")
        self._pods: Cache[Pod] = context.caches.of(PODS, Pod)
        self._members = self._pods.index("group", _group_key)
        self._nodes: Cache[Node] = context.caches.of(NODES, Node)
        self._claims: Cache[ResourceClaim] = context.caches.of(CLAIMS, ResourceClaim)
        self._slices: Cache[ResourceSlice] = context.caches.of(SLICES, ResourceSlice)
        self._services = context.caches.trees(SERVICES)
        self._services_in = self._services.index("namespace", lambda service: (service.namespace,))
        self._volume_claims, self._volumes = context.caches.trees(VOLUME_CLAIMS), context.caches.trees(VOLUMES)
        self._volume_files: dict[str, Directory] = {}
        self._device_view = DeviceView(self._claims, self._slices)
        self._simulated = simulated
        self._healths = DeviceHealths(self._health_changed)
        self._workers: dict[str, _PodWorker] = {}
        self._on_node: dict[str, set[str]] = {}
        self._node_contexts: dict[str, tuple[Machine, NodeContext]] = {}
        self._last_ip: dict[str, int] = {}
        self._network = PodNetwork(self._all_pods, self._services_of, self._connect)
        #: The files of nodes that simulated containers see in ``hostPath`` volumes.
        self._host_files: dict[str, Directory] = {}
        #: Tasks of pods that are terminating after their deletion, or being deleted from the API; values are pod uids.
        self._endings: dict[asyncio.Task[None], str] = {}

    def find(self, uid: str) -> PodRun | None:
        """The run of the pod with this uid."""
        kept = self._workers.get(uid)
        return kept.run if kept else None

    async def run(self) -> None:
        """Run the pods of the nodes until cancelled."""
        for cache in (
            self._nodes, self._claims, self._slices, self._services, self._volume_claims, self._volumes, self._pods
        ):  # fmt: skip
            await cache.synced.wait()
        drivers = Drivers(
            self._client, self._plugins, self._slices, self._healths, self._driver_changed,
            self._features.health_services,
        )  # fmt: skip
        ends = [
            self._pods.on_change(self._pod_changed),
            self._nodes.on_change(self._node_changed),
            self._claims.on_change(self._claim_changed),
            self._volumes.on_change(self._volume_changed),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(drivers.run(), name="drivers of nodes")
                group.create_task(self._reconcile(), name="claims of nodes")
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    # First of all: containers that end with this program must not be reported in pod statuses.
                    for kept in self._workers.values():
                        kept.run.stop_reporting()
        finally:
            for end in ends:
                end()
            await self._stop()

    async def _stop(self) -> None:
        """Cancel the pod workers without changing the pods in the API."""
        tasks = [*(kept.task for kept in self._workers.values()), *self._endings]
        for kept in self._workers.values():
            kept.run.stop_reporting()
        self._workers.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- watch callbacks ------------------------------------------------------------------------------------------

    def _pod_changed(self, old: CachedItem[Pod] | None, new: CachedItem[Pod] | None) -> None:
        if new is None:
            if old is not None:
                self._pod_deleted(old)
            return
        kept = self._workers.get(new.uid)
        if kept is None:
            self._begin(new)
            return
        kept.run.tree = new.tree
        if _marked_not_ready(new):
            kept.run.refresh()
        if old is not None and old.metadata.get("generation") != new.metadata.get("generation") and not new.deleting:
            kept.run.spec_changed()
        if old is None or _claim_statuses(old) != _claim_statuses(new):
            kept.run.retry_now()
        if new.deleting and not (old is not None and old.deleting):
            self._end(new, kept)
        elif new.deleting and old is not None and _grace(new) < _grace(old):
            kept.run.end(_grace(new))

    def _pod_deleted(self, old: CachedItem[Pod]) -> None:
        kept = self._workers.pop(old.uid, None)
        if kept is None:
            return
        self._on_node[kept.run.context.name].discard(old.uid)
        for uid in self._on_node[kept.run.context.name]:
            self._workers[uid].run.resources_released()
        if not kept.task.done():
            # Force-deleted: there is no status to write, but its claims must be unprepared.
            kept.run.stop_reporting()
            kept.run.end(0)
            self._track_ending(kept.task, old.uid)

    def _node_changed(self, old: CachedItem[Node] | None, new: CachedItem[Node] | None) -> None:
        """Start the existing pods of a new node, and load its checkpoint for claims that are still prepared."""
        if old is None and new is not None and self._serves(new.tree):
            state = self._machines.get(new.name, _DEFAULT_MACHINE).state
            if new.name in self._claims_by_node or (state is not None and (state / checkpoint.FILE).exists()):
                self._node_context(new)
            for item in tuple(self._pods.items()):
                if item.spec.get("nodeName") == new.name and item.uid not in self._workers:
                    self._begin(item)

    def _claim_changed(self, old: CachedItem[ResourceClaim] | None, new: CachedItem[ResourceClaim] | None) -> None:
        """Wake the pods for which a claim is reserved."""
        for user in (new.status.get("reservedFor") or ()) if new else ():
            kept = self._workers.get(user.get("uid", ""))
            if kept is not None:
                kept.run.retry_now()
            elif new is not None and self._features.group_claims and pod_groups.is_group(user):
                for item in self._members[new.namespace, user["name"]]:
                    if item.uid in self._workers:
                        self._workers[item.uid].run.retry_now()

    def _volume_changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        """Forget the files of a deleted PersistentVolume."""
        if new is None and old is not None:
            self._volume_files.pop(old.uid, None)

    def _driver_changed(self, node: str, driver: str) -> None:
        """Wake the pods of a node: they may be waiting for this driver."""
        for uid in tuple(self._on_node.get(node, ())):
            self._workers[uid].run.retry_now()

    def _health_changed(self, node: str, driver: str, devices: Collection[tuple[str, str]]) -> None:
        entry = self._node_contexts.get(node)
        for uid in entry[1].claims.pods_with(driver, devices) if entry else ():
            kept = self._workers.get(uid)
            if kept is not None and not kept.task.done():
                kept.run.refresh()

    # --- pods -----------------------------------------------------------------------------------------------------

    def _begin(self, item: CachedItem[Pod]) -> None:
        node = self._nodes.item("", item.spec.get("nodeName", ""))
        if node is None or not self._serves(node.tree):
            return
        if item.status.get("phase") in ("Succeeded", "Failed"):
            if item.deleting:
                self._start_deletion(item)
            return
        node_context = self._node_context(node)
        if node_context is None:
            return
        pod_ip = item.status.get("podIP") or self._next_address(node)
        run = PodRun(item.tree, node_context, pod_ip)
        task = asyncio.create_task(self._run_guarded(item.uid, run), name=f"pod {item.namespace}/{item.name}")
        kept = self._workers[item.uid] = _PodWorker(run, task)
        self._on_node.setdefault(node.name, set()).add(item.uid)
        if item.deleting:
            self._end(item, kept)

    async def _run_guarded(self, uid: str, run: PodRun) -> None:
        """Run a pod to its end, restarting it after an internal error, so that its claims are always unprepared."""
        while True:
            try:
                await run.run()
                return
            except Exception:
                log.exception("pod %s: internal error, restarting the pod worker", run.tree["metadata"]["name"])
            await self._context.clock.sleep(_RESTART_SECONDS)
            run = run.restarted()
            if (kept := self._workers.get(uid)) is not None:
                self._workers[uid] = kept._replace(run=run)

    def _end(self, item: CachedItem[Pod], kept: _PodWorker) -> None:
        """Stop a pod, then delete it from the API."""
        if not kept.task.done():
            kept.run.end(_grace(item))
        kept.task.add_done_callback(lambda task: None if task.cancelled() else self._start_deletion(item))

    def _start_deletion(self, item: CachedItem[Pod]) -> None:
        task = asyncio.create_task(self._delete_from_api(item), name=f"pod {item.namespace}/{item.name} ends")
        self._track_ending(task, item.uid)

    def _track_ending(self, task: asyncio.Task[None], uid: str) -> None:
        self._endings[task] = uid
        task.add_done_callback(lambda task: self._endings.pop(task, None))

    async def _delete_from_api(self, item: CachedItem[Pod]) -> None:
        waits = Backoff(self._context.random, first=_RETRY_SECONDS)
        while True:
            try:
                await self._client.delete(PODS, item.name, item.namespace, uid=item.uid, grace_seconds=0)
                return
            except Unreachable as error:
                log.info("pod %s/%s: %s", item.namespace, item.name, error)
            except StatusError as error:
                if error.code in (404, 409):
                    return
                log.error("pod %s/%s: cannot delete from the API: %s", item.namespace, item.name, error)
            await asyncio.sleep(waits.next())

    async def _reconcile(self) -> None:
        """Unprepare the claims of pods that no longer exist, periodically."""
        while True:
            await self._context.clock.sleep(_RECONCILE_SECONDS)
            for _, node_context in tuple(self._node_contexts.values()):
                await node_context.claims.reconcile(self._has_run)

    def _has_run(self, uid: str) -> bool:
        kept = self._workers.get(uid)
        return (kept is not None and not kept.task.done()) or uid in self._endings.values()

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _node_context(self, node: CachedItem[Node]) -> NodeContext | None:
        """The context of a node's pods, rebuilt when its machine changes; None if its checkpoint is not readable."""
        machine = self._machines.get(node.name, _DEFAULT_MACHINE)
        known = self._node_contexts.get(node.name)
        if known is not None and known[0] is machine:
            return known[1]
        context = self._context
        try:
            claims = known[1].claims if known else self._claims_on(node.name, machine)
        except (CorruptCheckpoint, OSError) as error:
            # A kubelet does not start then either: devices that may be prepared must not be prepared again.
            log.error("node %s cannot run pods: %s: %s", node.name, machine.state, error)
            return None
        built = NodeContext(
            node.name, partial(self._tree, node), self._client, context.clock, context.random, self._recorder,
            machine.runtime or self._simulated, CdiDevices(machine.cdi),
            claims, self._healths, self._device_view.devices, self._services_of,
            PersistentVolumes(self._volume_claims, self._volumes, self._volume_files, machine.volumes),
            self._host_files.setdefault(node.name, Directory()), self._network,
            partial(self._other_pods, node.name), machine.state,
        )  # fmt: skip
        self._node_contexts[node.name] = machine, built
        return built

    def _claims_on(self, node: str, machine: Machine) -> NodeClaims:
        if node not in self._claims_by_node:
            made = NodeClaims(node, self._plugins, self._client, machine.state, self._features)
            self._claims_by_node[node] = made
        return self._claims_by_node[node]

    def _services_of(self, namespace: str) -> list[Tree]:
        """The Services of a namespace, as the kubelet last saw them."""
        return [service.tree for service in self._services_in[namespace]]

    def _all_pods(self) -> Iterator[Tree]:
        return (item.tree for item in self._pods.items())

    async def _connect(self, pod: Tree, port: int) -> Connection:
        return await kubelet_api.port(self.find(pod["metadata"]["uid"]), pod, port)

    def _other_pods(self, node: str, uid: str) -> list[Tree]:
        """The pods of a node without the one with this uid."""
        return [self._workers[other].run.tree for other in self._on_node.get(node, ()) if other != uid]

    def _tree(self, node: CachedItem[Node]) -> Tree:
        return self._nodes.tree("", node.name) or node.tree

    def _next_address(self, node: CachedItem[Node]) -> str:
        """The next pod IP of a node. The pod network starts at 10.244.0.0, with a /24 per node."""
        parts = address_of(node.tree).split(".")
        numbers = [int(part) for part in parts if part.isascii() and part.isdecimal()]  # it may be a name, or IPv6
        subnet = (numbers[2] * 256 + numbers[3]) % 2048 if len(numbers) == 4 else 0
        number = self._last_ip[node.name] = self._last_ip.get(node.name, 1) + 1
        return f"10.{244 + subnet // 256}.{subnet % 256}.{number % 253 + 2}"


_DEFAULT_MACHINE: Final = Machine()


def _grace(item: CachedItem[Pod]) -> float:
    """The deletion grace period of a pod, in seconds."""
    return float(item.metadata.get("deletionGracePeriodSeconds") or 0)


def _marked_not_ready(item: CachedItem[Pod]) -> bool:
    """Whether the node lifecycle controller has marked a pod not ready because its node was lost.

    The one of Kubernetes writes no reason; a kubelet always does.
    """
    return any(
        condition["type"] == "Ready"
        and condition["status"] == "False"
        and condition.get("reason", "") in ("", "NodeNotReady")
        for condition in item.status.get("conditions") or ()
    )


def _group_key(item: CachedItem[Pod]) -> Iterator[tuple[str, str]]:
    """The index keys of a pod with claims: its namespace and PodGroup."""
    if item.spec.get("resourceClaims") and (name := pod_groups.group_name(item.spec)):
        yield item.namespace, name


def _claim_statuses(item: CachedItem[Pod]) -> tuple[Any, Any]:
    """The claim statuses in a pod's status."""
    return item.status.get("resourceClaimStatuses"), item.status.get("extendedResourceClaimStatus")
