"""The controller of ComputeDomains: creates their objects, removes stale node labels, and updates their status.

The daemons of a simulated fabric do not communicate, so only this controller determines the nodes of a domain: the
nodes that run a pod of its DaemonSet, in the clique from the daemon's claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem, by_uid
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DAEMON_SETS, NAMESPACES, NODES, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.drivers.nvidia.compute_domain.names import (
    COMPUTE_DOMAINS,
    DRIVER_NAMESPACE,
    FINALIZER,
    LABEL,
    objects_name,
)
from allotment.drivers.nvidia.compute_domain.objects import daemon_set, daemon_template, workload_template
from allotment.fleet.nvidia.compute_domain import COMPUTE_DOMAIN_DRIVER
from allotment.model.trees import Tree

_CHANNEL_CONFIG: Final = "ComputeDomainChannelConfig"


async def compute_domains(context: ProgramContext) -> None:
    """Run the controller."""
    await _ComputeDomainController(context).run()


class _ComputeDomainController:
    def __init__(self, context: ProgramContext, namespace: str = DRIVER_NAMESPACE) -> None:
        self._client = context.client_for("compute-domain-controller", "compute-domain-controller")
        self._recorder = context.recorder("compute-domain-controller")
        self._namespace = namespace
        self._domains = context.caches.trees(COMPUTE_DOMAINS)
        self._daemon_sets = context.caches.trees(DAEMON_SETS)
        self._templates = context.caches.trees(CLAIM_TEMPLATES)
        self._pods = context.caches.trees(PODS)
        self._nodes = context.caches.trees(NODES)
        self._claims = context.caches.trees(CLAIMS)
        self._by_uid = self._domains.index("uid", by_uid)
        self._pods_of = self._pods.index(LABEL, _domain_uids)
        self._nodes_of = self._nodes.index(LABEL, _domain_uids)
        self._channels_of = self._claims.index("compute domain", lambda item: tuple(_channels(item.tree)))
        self._queue: WorkQueue[str] = WorkQueue(
            "compute_domains", self._sync, clock=context.clock, random=context.random
        )

    async def run(self) -> None:
        await run_queues(
            [self._queue],
            [
                (self._nodes, self._on_labelled_change),
                (self._pods, self._on_labelled_change),
                (self._daemon_sets, self._on_labelled_change),
                (self._templates, self._on_labelled_change),
                (self._claims, self._on_claim_change),
                (self._domains, self._on_domain_change),
            ],
        )

    # --- event handlers -----------------------------------------------------------------------------------------------

    def _on_domain_change(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        item = new or old
        assert item is not None
        self._queue.add(item.uid)

    def _on_labelled_change(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for item in (old, new):
            for uid in _domain_uids(item) if item is not None else ():
                self._queue.add(uid)

    def _on_claim_change(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        self._on_labelled_change(old, new)
        for item in (old, new):
            for uid in _channels(item.tree) if item is not None else ():
                self._queue.add(uid)

    # --- reconciliation------------------------------------------------------------------------------------------------

    async def _sync(self, uid: str) -> None:
        domain = next(iter(self._by_uid[uid]), None)
        if domain is not None and not domain.deleting:
            await self._ensure_objects(domain)
        await self._remove_stale_labels(uid)
        if domain is None:
            return
        if domain.deleting:
            await self._finalize(domain)
        else:
            await self._update_status(domain)

    async def _ensure_objects(self, domain: CachedItem[Any]) -> None:
        """Create the domain's objects. The finalizer is added first, so that no object is left behind."""
        finalizers = domain.metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            metadata = {**domain.metadata, "finalizers": [*finalizers, FINALIZER]}
            self._domains.record_write(
                await self._client.update(COMPUTE_DOMAINS, {**domain.tree, "metadata": metadata})
            )
        await self._ensure(domain, CLAIM_TEMPLATES, daemon_template(domain.tree, self._namespace))
        await self._ensure(domain, DAEMON_SETS, daemon_set(domain.tree, self._namespace))
        await self._ensure(domain, CLAIM_TEMPLATES, workload_template(domain.tree))

    async def _ensure(self, domain: CachedItem[Any], resource: Resource, tree: Tree) -> None:
        namespace, name = tree["metadata"]["namespace"], tree["metadata"]["name"]
        cache = self._daemon_sets if resource is DAEMON_SETS else self._templates
        cached = cache.item(namespace, name)
        if cached is None:
            try:
                cache.record_write(await self._create(resource, tree, namespace))
                return
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
            existing = await self._client.get(resource, name, namespace)
            labels = existing["metadata"].get("labels") or {}
        else:
            labels = cached.labels
        if labels.get(LABEL) != domain.uid:
            text = f"{resource.kind} {namespace}/{name} already exists and does not belong to this ComputeDomain"
            self._recorder.event(domain.tree, "Warning", "NameTaken", text)

    async def _create(self, resource: Resource, tree: Tree, namespace: str) -> Tree:
        try:
            return await self._client.create(resource, tree, namespace)
        except StatusError as error:
            if error.code != 404 or namespace != self._namespace:
                raise
        # The controller creates only the drivers' own namespace.
        await self._client.create(NAMESPACES, {"metadata": {"name": namespace}})
        return await self._client.create(resource, tree, namespace)

    async def _remove_stale_labels(self, uid: str) -> None:
        """Remove the label from nodes on which no claim has a channel of the domain."""
        suspects = [node for node in self._nodes_of[uid] if node.name not in self._nodes_with_channels(uid)]
        if not suspects:
            return
        # The cache can have a node's label before the claim that caused it, so list the claims.
        listing = await self._client.list(CLAIMS)
        used = {node for claim in listing.items if uid in set(_channels(claim)) for node in _channel_nodes(claim)}
        for node in suspects:
            if node.name not in used:
                metadata = {"labels": {LABEL: None}, "resourceVersion": node.metadata["resourceVersion"]}
                self._nodes.record_write(await self._client.patch(NODES, node.name, {"metadata": metadata}))

    def _nodes_with_channels(self, uid: str) -> set[str]:
        return {node for claim in self._channels_of[uid] for node in _channel_nodes(claim.tree)}

    async def _finalize(self, domain: CachedItem[Any]) -> None:
        """Delete the workload's template; after the last workload the daemons, and finally the finalizer."""
        finalizers = domain.metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            return
        name = domain.spec["channel"]["resourceClaimTemplate"]["name"]
        remaining = await self._delete_owned(CLAIM_TEMPLATES, domain.namespace, name, domain.uid)
        if self._nodes_with_channels(domain.uid):
            return
        owned = objects_name(domain.uid)
        remaining |= await self._delete_owned(DAEMON_SETS, self._namespace, owned, domain.uid)
        remaining |= await self._delete_owned(CLAIM_TEMPLATES, self._namespace, owned, domain.uid)
        if remaining or self._pods_of[domain.uid]:
            return
        metadata = {**domain.metadata, "finalizers": [finalizer for finalizer in finalizers if finalizer != FINALIZER]}
        await self._client.update(COMPUTE_DOMAINS, {**domain.tree, "metadata": metadata})

    async def _delete_owned(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Delete an object of the domain; returns whether it existed."""
        cache = self._daemon_sets if resource is DAEMON_SETS else self._templates
        item = cache.item(namespace, name)
        if item is None or item.labels.get(LABEL) != uid:
            return False
        if not item.deleting:
            try:
                await self._client.delete(resource, name, namespace, uid=item.uid)
            except StatusError as error:
                if error.code != 404:
                    raise
        return True

    # --- status -------------------------------------------------------------------------------------------------------

    async def _update_status(self, domain: CachedItem[Any]) -> None:
        domain = self._domains.item(domain.namespace, domain.name) or domain
        nodes = self._members(domain)
        enough = len(nodes) >= max(1, domain.spec.get("numNodes") or 0)
        ready = enough and all(node["status"] == "Ready" for node in nodes)
        status = {"status": "Ready" if ready else "NotReady", "nodes": nodes}
        if {"nodes": [], **domain.status} != status:
            tree = {**domain.tree, "status": status}
            self._domains.record_write(await self._client.update(COMPUTE_DOMAINS, tree, subresource="status"))

    def _members(self, domain: CachedItem[Any]) -> list[Tree]:
        known = {node["name"]: node for node in domain.status.get("nodes") or ()}
        members: list[Tree] = []
        for pod in sorted(self._pods_of[domain.uid], key=lambda pod: str(pod.spec.get("nodeName"))):
            node, address = pod.spec.get("nodeName"), pod.status.get("podIP")
            if pod.deleting or not node or not address or any(node == member["name"] for member in members):
                continue
            clique = self._clique(pod)
            member: Tree = {"name": node, "ipAddress": address, "cliqueID": clique}
            previous = known.get(node)
            if previous is not None and previous.get("cliqueID") == clique and "index" in previous:
                member["index"] = previous["index"]
            members.append(member | {"status": "Ready" if _is_ready(pod) else "NotReady"})
        _assign_indexes(members)
        return members

    def _clique(self, pod: CachedItem[Any]) -> str:
        """The node's clique in the fabric, from the status of the daemon's claim."""
        for status in pod.status.get("resourceClaimStatuses") or ():
            claim = self._claims.item(pod.namespace, status.get("resourceClaimName") or "")
            for device in (claim.status.get("devices") or ()) if claim is not None else ():
                if device.get("driver") == COMPUTE_DOMAIN_DRIVER:
                    return str((device.get("data") or {}).get("cliqueID") or "")
        return ""


def _assign_indexes(members: Iterable[Tree]) -> None:
    """Assign indexes within each clique: a member keeps its index, a new one gets the lowest free index."""
    used_by_clique: defaultdict[str, set[int]] = defaultdict(set)
    members = list(members)
    for member in members:
        if "index" in member:
            used_by_clique[member["cliqueID"]].add(member["index"])
    for member in members:
        if "index" not in member:
            used = used_by_clique[member["cliqueID"]]
            member["index"] = next(number for number in range(len(used) + 1) if number not in used)
            used.add(member["index"])


def _is_ready(pod: CachedItem[Any]) -> bool:
    conditions = pod.status.get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def _domain_uids(item: CachedItem[Any]) -> tuple[str, ...]:
    uid = item.labels.get(LABEL)
    return (uid,) if uid else ()


def _channels(claim: Tree) -> Iterable[str]:
    """The domains of an allocated claim's channels."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for entry in (allocation.get("devices") or {}).get("config") or ():
        opaque = entry.get("opaque") or {}
        parameters = opaque.get("parameters")
        if opaque.get("driver") == COMPUTE_DOMAIN_DRIVER and isinstance(parameters, dict):
            if parameters.get("kind") == _CHANNEL_CONFIG and isinstance(parameters.get("domainID"), str):
                yield parameters["domainID"]


def _channel_nodes(claim: Tree) -> Iterable[str]:
    """The nodes of an allocated claim's channels: pools are named after nodes."""
    for result in claim["status"]["allocation"]["devices"].get("results") or ():
        if result["driver"] == COMPUTE_DOMAIN_DRIVER and result["device"].startswith("channel-"):
            yield result["pool"]
