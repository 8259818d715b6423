"""The kubelets of all simulated nodes, in one program: each pod bound to one of them runs until it is deleted.

A node is simulated when it says so (annotation ``allotment.dev/simulated``); pods on other nodes are left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from allotment.cluster.cache import Cache, Item
from allotment.cluster.client import Client
from allotment.cluster.program import Context
from allotment.cluster.resources import CLAIMS, NODES, PODS, SLICES
from allotment.model.core import Node, Pod
from allotment.model.resource import Device, ResourceClaim, ResourceSlice
from allotment.model.trees import to_value
from allotment.node import reach
from allotment.node.containers import Container, environment_of
from allotment.node.devices import devices_of
from allotment.node.machine import Machine
from allotment.node.plugins import Plugins
from allotment.node.pod import PodRun, needs_claims
from allotment.node.pod_claims import ClaimsError, claim_names
from allotment.node.programs import Inside

SIMULATED: Final = "allotment.dev/simulated"
Tree = dict[str, Any]

log = logging.getLogger(__name__)


class _Kept(NamedTuple):
    run: PodRun
    task: asyncio.Task[None]
    retry: asyncio.Event


class Kubelets:
    """What runs on the simulated nodes, for whoever asks for logs or a shell. :meth:`run` is the program."""

    def __init__(self, plugins: Plugins | None = None, machines: Mapping[str, Machine] | None = None) -> None:
        #: The drivers of the nodes; may be added to at any time.
        self.plugins = Plugins() if plugins is None else plugins
        #: How nodes run pods, by name; nodes that are not in it are simulated. May be added to at any time.
        self.machines: Mapping[str, Machine] = {} if machines is None else machines
        self._pods: dict[str, _Kept] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._last_ip: dict[str, int] = {}

    def find(self, uid: str) -> PodRun | None:
        """The run of a pod, by uid; None when it runs on no simulated node (yet)."""
        kept = self._pods.get(uid)
        return kept.run if kept else None

    async def run(self, context: Context) -> None:
        """Run the pods of all simulated nodes, for ever."""
        pods: Cache[Pod] = context.caches.of(PODS, Pod)
        nodes: Cache[Node] = context.caches.of(NODES, Node)
        claims: Cache[ResourceClaim] = context.caches.of(CLAIMS, ResourceClaim)
        slices: Cache[ResourceSlice] = context.caches.of(SLICES, ResourceSlice)
        for cache in (nodes, claims, slices, pods):
            await cache.synced.wait()
        work = _Work(self, context, context.client_for("kubelet"), pods, nodes, claims, slices)
        ends = [
            pods.on_change(work.pod_changed),
            nodes.on_change(work.node_changed),
            claims.on_change(work.claim_changed),
        ]
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for end in ends:
                end()
            tasks = [kept.task for kept in self._pods.values()] + list(self._stopping)
            for kept in self._pods.values():
                kept.run.hush()
            self._pods.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- what clients ask of a node -------------------------------------------------------------------------------

    def logs(
        self, pod: Tree, container: str, *, follow: bool, previous: bool, timestamps: bool, tail: int | None,
        since: datetime | None, since_seconds: int | None,
    ) -> AsyncIterator[bytes]:  # fmt: skip
        """What a container printed. Raises StatusError while it has not run."""
        found = reach.running(self._of(pod), pod, container)
        return reach.logs(
            found, follow=follow, previous=previous, timestamps=timestamps, tail=tail, since=since,
            since_seconds=since_seconds,
        )  # fmt: skip

    async def exec(
        self, pod: Tree, container: str, command: Sequence[str], *, stdin: AsyncIterator[bytes] | None,
        stdout: reach.Write, stderr: reach.Write, tty: bool, sizes: AsyncIterator[tuple[int, int]],
    ) -> int:  # fmt: skip
        """Run a command in a container; its exit code."""
        found = reach.running(self._of(pod), pod, container)
        return await reach.command(found, command, stdin=stdin, stdout=stdout, stderr=stderr)

    async def attach(
        self, pod: Tree, container: str, *, stdin: AsyncIterator[bytes] | None, stdout: reach.Write,
        stderr: reach.Write, tty: bool, sizes: AsyncIterator[tuple[int, int]],
    ) -> int:  # fmt: skip
        """Share what a container prints; its exit code when it ends."""
        return await reach.attach(reach.running(self._of(pod), pod, container), stdout)

    async def port(self, pod: Tree, port: int) -> reach.Page:
        """Connect to a port. Raises OSError when nobody listens."""
        return reach.page(self._of(pod), pod, port)

    def _of(self, pod: Tree) -> PodRun | None:
        return self.find(pod["metadata"]["uid"])

    def address(self, node: str, place: int) -> str:
        """The next address of a pod on a node: 10.244 is the pods' network, a quarter of a thousand a node."""
        number = self._last_ip[node] = self._last_ip.get(node, 1) + 1
        return f"10.{244 + place // 256}.{place % 256}.{number % 253 + 2}"


class _Work(NamedTuple):
    kubelets: Kubelets
    context: Context
    client: Client
    pods: Cache[Pod]
    nodes: Cache[Node]
    claims: Cache[ResourceClaim]
    slices: Cache[ResourceSlice]

    def pod_changed(self, old: Item[Pod] | None, new: Item[Pod] | None) -> None:
        if new is None:
            gone = self.kubelets._pods.pop(old.uid, None) if old else None
            if gone is not None:
                gone.task.cancel()
            return
        kept = self.kubelets._pods.get(new.uid)
        if kept is None:
            self._begin(new)
        else:
            kept.run.tree = new.tree
            kept.retry.set()
            if new.deleting:
                self._end(new.uid, kept)

    def node_changed(self, old: Item[Node] | None, new: Item[Node] | None) -> None:
        """A node that appears may have pods already."""
        if old is None and new is not None:
            for item in tuple(self.pods.items()):
                if item.spec.get("nodeName") == new.name and item.uid not in self.kubelets._pods:
                    self._begin(item)

    def claim_changed(self, old: Item[ResourceClaim] | None, new: Item[ResourceClaim] | None) -> None:
        """A claim that is allocated and reserved is what its pods wait for."""
        for user in (new.status.get("reservedFor") or ()) if new else ():
            kept = self.kubelets._pods.get(user.get("uid", ""))
            if kept is not None:
                kept.retry.set()

    def _begin(self, item: Item[Pod]) -> None:
        node = self.nodes.item("", item.spec.get("nodeName", ""))
        if node is None or SIMULATED not in (node.metadata.get("annotations") or {}):
            return
        if item.status.get("phase") in ("Succeeded", "Failed") and not item.deleting:
            return
        pod_ip = item.status.get("podIP") or self.kubelets.address(node.name, _place(node))
        run = PodRun(
            item.tree, client=self.client, clock=self.context.clock, host_ip=_address(node), pod_ip=pod_ip,
            container=self._container,
        )  # fmt: skip
        retry = asyncio.Event()
        task = asyncio.create_task(self._guarded(run, retry), name=f"pod {item.namespace}/{item.name}")
        kept = self.kubelets._pods[item.uid] = _Kept(run, task, retry)
        if item.deleting:
            self._end(item.uid, kept)

    def _end(self, uid: str, kept: _Kept) -> None:
        if any(task.get_name() == uid for task in self.kubelets._stopping):
            return
        task = asyncio.create_task(kept.run.stop(kept.task), name=uid)
        self.kubelets._stopping.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.kubelets._stopping.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a pod could not be stopped: %s", error)

    async def _guarded(self, run: PodRun, retry: asyncio.Event) -> None:
        try:
            await run.run(lambda: not needs_claims(run.tree, self._claims_of(run.tree)), retry)
        except Exception:
            log.exception("pod %s", run.tree["metadata"]["name"])

    def _claims_of(self, tree: Tree) -> dict[str, Tree | None]:
        try:
            named = tuple(claim_names(tree))
        except ClaimsError:
            return {"": None}
        namespace = tree["metadata"].get("namespace", "")
        return {entry: self.claims.tree(namespace, name) for entry, name, _ in named if name}

    def _container(self, tree: Tree, spec: Tree) -> Container:
        pod = to_value(tree, Pod)
        namespace = pod.metadata.namespace
        found = {name: self.claims.get(namespace, name) for _, name, _ in claim_names(tree)}
        claims = {name: claim for name, claim in found.items() if claim is not None}
        devices = devices_of(tree, spec, claims, dict(self._published(claims)))
        node = self.nodes.item("", pod.spec.node_name)
        environment = environment_of(tree, spec, _address(node) if node else "", "", devices)
        return Container(tree, spec, Inside(pod.metadata.name, devices, self.context.clock), environment)

    def _published(self, claims: dict[str, ResourceClaim]) -> Iterator[tuple[tuple[str, str, str], Device]]:
        """The devices of the pools that claims were given devices of."""
        pools = {
            (result.driver, result.pool)
            for claim in claims.values()
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        }
        by_pool = self.slices.index("pool", lambda item: [(item.value.spec.driver, item.value.spec.pool.name)])
        for driver, pool in pools:
            for item in by_pool[driver, pool]:
                for device in item.value.spec.devices or ():
                    yield (driver, pool, device.name), device


def _address(node: Item[Node]) -> str:
    addresses = node.status.get("addresses") or ()
    return next((entry["address"] for entry in addresses if entry.get("type") == "InternalIP"), "127.0.0.1")


def _place(node: Item[Node]) -> int:
    """The number that a node's pod network has, from its address."""
    parts = _address(node).split(".")
    return (int(parts[2]) * 256 + int(parts[3])) % 2048 if len(parts) == 4 else 0
