"""EndpointSlice mirroring: the Endpoints of Services without a selector, which users write, as EndpointSlices.

Proxies and ingress controllers read only slices. Each subset becomes one slice per address family.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.endpoints import MANAGED_BY, SERVICE_NAME, Key, delete_slice, service_of
from allotment.controllers.pods import owner_reference
from allotment.controllers.template_hash import template_hash
from allotment.model.trees import Tree

_MANAGER: Final = "endpointslicemirroring-controller.k8s.io"
_SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
#: Annotations of Endpoints that are not mirrored.
_UNMIRRORED: Final = frozenset({
    "endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration",
})  # fmt: skip
#: Mirrored addresses per slice.
_MOST: Final = 1000


async def endpoint_mirroring(context: ProgramContext) -> None:
    """Run the EndpointSlice mirroring controller."""
    await _Mirroring(context).run()


class _Mirroring:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("endpointslicemirroring-controller")
        self._services = context.caches.trees(SERVICES)
        self._endpoints = context.caches.trees(ENDPOINTS)
        self._slices = context.caches.trees(ENDPOINT_SLICES)
        self._mirrored = self._slices.index("mirrored service", _service_of)
        self._queue: WorkQueue[Key] = WorkQueue(
            "endpoint-mirroring", self._sync, clock=context.clock, random=context.random
        )

    async def run(self) -> None:
        await run_queues(
            [self._queue],
            [
                (self._services, self._service_changed),
                (self._endpoints, self._endpoints_changed),
                (self._slices, self._slice_changed),
            ],
        )

    def _service_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for service in (old, new):
            if service is not None and not service.spec.get("selector"):
                self._queue.add(service.key)

    def _endpoints_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for endpoints in (old, new):
            if endpoints is not None and _is_mirrored(endpoints):
                self._queue.add(endpoints.key)

    def _slice_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for key in {key for item in (old, new) if item is not None for key in _service_of(item)}:
            self._queue.add(key)

    async def _sync(self, key: Key) -> None:
        service, endpoints = self._services.item(*key), self._endpoints.item(*key)
        wanted: list[Tree] = []
        if service is not None and endpoints is not None and not endpoints.deleting:
            if not service.spec.get("selector") and _is_mirrored(endpoints):
                wanted = list(_slices_of(endpoints))
        known = {endpoint_slice.name: endpoint_slice for endpoint_slice in self._mirrored[key]}
        for tree in wanted:
            await self._write(tree, known.pop(tree["metadata"]["name"], None))
        for endpoint_slice in known.values():
            await delete_slice(self._client, self._slices, endpoint_slice)

    async def _write(self, tree: Tree, known: CachedItem[Any] | None) -> None:
        if known is None:
            self._slices.record_write(await self._client.create(ENDPOINT_SLICES, tree, tree["metadata"]["namespace"]))
            return
        metadata = {
            **known.metadata,
            "labels": tree["metadata"]["labels"],
            "annotations": tree["metadata"]["annotations"],
        }
        same = (
            known.labels == metadata["labels"]
            and (known.metadata.get("annotations") or {}) == (metadata["annotations"])
        )
        if not same or any((known.tree.get(field) or []) != tree[field] for field in ("endpoints", "ports")):
            self._slices.record_write(
                await self._client.update(ENDPOINT_SLICES, {**known.tree, **tree, "metadata": metadata})
            )


def _is_mirrored(endpoints: CachedItem[Any]) -> bool:
    """Whether Endpoints are neither excluded nor the lock of a leader election."""
    annotations = endpoints.metadata.get("annotations") or {}
    return endpoints.labels.get(_SKIP) != "true" and _LEADER not in annotations


def _service_of(endpoint_slice: CachedItem[Any]) -> Sequence[Key]:
    return service_of(endpoint_slice, _MANAGER)


def _slices_of(endpoints: CachedItem[Any]) -> Iterator[Tree]:
    """The slices that mirror some Endpoints."""
    annotations = endpoints.metadata.get("annotations") or {}
    kept = {name: value for name, value in annotations.items() if name not in _UNMIRRORED}
    labels = {**endpoints.labels, SERVICE_NAME: endpoints.name, MANAGED_BY: _MANAGER}
    groups: dict[tuple[str, str], tuple[list[Tree], list[Tree]]] = {}  # subsets with the same ports are one group
    for subset in endpoints.tree.get("subsets") or ():
        ports = [_port(port) for port in subset.get("ports") or ()]
        for family, endpoint in _endpoints_of(subset):
            groups.setdefault((family, template_hash(ports)), (ports, []))[1].append(endpoint)
    for (family, ports_hash), (ports, listed) in groups.items():
        yield {
            "kind": "EndpointSlice",
            "apiVersion": ENDPOINT_SLICES.api_version,
            "metadata": {
                "name": f"{endpoints.name}-{template_hash([family, ports_hash])[:5]}",
                "generateName": f"{endpoints.name}-",
                "namespace": endpoints.namespace,
                "labels": labels,
                "annotations": kept,
                "ownerReferences": [owner_reference({"apiVersion": "v1", "kind": "Endpoints", **endpoints.tree})],
            },
            "addressType": family,
            "endpoints": listed[:_MOST],
            "ports": ports,
        }


def _port(port: Tree) -> Tree:
    mirrored = {"name": port.get("name") or "", "protocol": port.get("protocol") or "TCP", "port": port["port"]}
    return mirrored | {"appProtocol": port["appProtocol"]} if port.get("appProtocol") else mirrored


def _endpoints_of(subset: Tree) -> Iterator[tuple[str, Tree]]:
    """The mirrored addresses of a subset as endpoints, with their families."""
    listed: Iterable[tuple[Tree, bool]] = [
        *((address, True) for address in subset.get("addresses") or ()),
        *((address, False) for address in subset.get("notReadyAddresses") or ()),
    ]
    for address, ready in listed:
        ip = ip_address(address["ip"])
        endpoint: Tree = {"addresses": [str(ip)], "conditions": {"ready": ready}}
        endpoint |= {name: address[name] for name in ("hostname", "targetRef", "nodeName") if address.get(name)}
        yield f"IPv{ip.version}", endpoint
