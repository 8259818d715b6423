"""Endpoints controller: the pod addresses of each Service as EndpointSlices and as a legacy Endpoints object.

``kubectl port-forward service/x`` and ``kubectl describe service`` read them. A slice has up to a hundred endpoints
with the same ports: pods may define one port name with different numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.conditions import condition_of
from allotment.controllers.label_selectors import has_all
from allotment.controllers.pods import is_finished, is_ready, owner_reference
from allotment.controllers.template_hash import template_hash
from allotment.model.trees import Tree

#: Labels of EndpointSlices: their Service and their controller.
SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_MANAGER: Final = "endpointslice-controller.k8s.io"
_ENDPOINTS_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_HEADLESS: Final = "service.kubernetes.io/headless"
_MOST: Final = 100
_MOST_ADDRESSES: Final = 1000
#: Pods change in bursts; changes within this time are combined into one write.
_BUNCH_SECONDS: Final = 0.1

Key = tuple[str, str]
Ports = tuple[tuple[str, str, int, str], ...]


async def endpoints(context: ProgramContext) -> None:
    """Run the endpoints controller."""
    await _Endpoints(context).run()


class _Endpoints:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("endpointslice-controller")
        self._services = context.caches.trees(SERVICES)
        self._pods = context.caches.trees(PODS)
        self._slices = context.caches.trees(ENDPOINT_SLICES)
        self._endpoints = context.caches.trees(ENDPOINTS)
        self._of_service = self._slices.index("service", service_of)
        self._selecting = self._services.index("selecting namespace", _selecting)
        self._times = TriggerTimes()
        #: What this controller last wrote, by kind and object: an object that differs was changed by another client.
        self._written: dict[tuple[str, Key], Tree] = {}
        # Pods indexed by label, so that a Service examines few of them.
        self._labelled = self._pods.index("label", _labels_of)
        self._queue: WorkQueue[Key] = WorkQueue("endpoints", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await run_queues(
            [self._queue],
            [
                (self._services, self._service_changed),
                (self._pods, self._pod_changed),
                (self._slices, self._slice_changed),
                (self._endpoints, self._endpoints_changed),
            ],
        )

    def _service_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        service = new or old
        assert service is not None
        self._queue.add(service.key)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        pod = new or old
        assert pod is not None
        services = self._selecting[pod.namespace]
        if not services or (old is not None and new is not None and _endpoint_state(old) == _endpoint_state(new)):
            return
        for service in services:
            if any(pod is not None and has_all(service.spec["selector"], pod.labels) for pod in (old, new)):
                self._queue.add(service.key, after=_BUNCH_SECONDS)

    def _slice_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        """Restore a slice that another client changed or deleted."""
        known = old or new
        assert known is not None
        if self._is_foreign("EndpointSlice", known.key, new):
            for key in {key for item in (old, new) if item is not None for key in service_of(item)}:
                self._queue.add(key, after=_BUNCH_SECONDS)

    def _endpoints_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        known = old or new
        assert known is not None
        if self._is_foreign("Endpoints", known.key, new):
            self._queue.add(known.key, after=_BUNCH_SECONDS)

    def _is_foreign(self, kind: str, key: Key, new: CachedItem[Any] | None) -> bool:
        """Whether an object that this controller wrote is now another one."""
        written = self._written.get((kind, key))
        if written is None:
            return False
        if new is None:
            return True
        return any((new.tree.get(field) or []) != (written[field] or []) for field in written)

    async def _sync(self, key: Key) -> None:
        service = self._services.item(*key)
        if service is None:
            await self._delete_slices(key)
            return
        if service.deleting or not service.spec.get("selector") or service.spec.get("type") == "ExternalName":
            return  # endpoints of a Service without a selector are managed by users
        groups = self._groups(service)
        time = self._times.of(service, (pod for pods in groups.values() for pod in pods))
        await self._write_slices(service, groups, time)
        await self._write_endpoints(service, groups, time)

    async def _delete_slices(self, key: Key) -> None:
        """Delete the Endpoints of a deleted Service; its slices are garbage collected by their owner."""
        self._times.forget(key)
        self._written.pop(("Endpoints", key), None)
        for endpoint_slice in self._of_service[key]:
            self._written.pop(("EndpointSlice", endpoint_slice.key), None)
        if self._endpoints.item(*key) is None:
            return
        try:
            await self._client.delete(ENDPOINTS, key[1], key[0])
        except StatusError as error:
            if error.code != 404:
                raise

    def _groups(self, service: CachedItem[Any]) -> dict[Ports, list[CachedItem[Any]]]:
        """The pods that have an address, grouped by the port numbers that the Service's ports resolve to."""
        selector: dict[str, str] = service.spec["selector"]
        found = min((self._labelled[service.namespace, *pair] for pair in selector.items()), key=len)
        groups: dict[Ports, list[CachedItem[Any]]] = {}
        for pod in found:
            if has_all(selector, pod.labels) and pod.status.get("podIP") and not is_finished(pod):
                groups.setdefault(_ports(service, pod), []).append(pod)
        for pods in groups.values():
            pods.sort(key=lambda pod: pod.name)
        return groups

    # --- slices ---------------------------------------------------------------------------------------------------

    async def _write_slices(
        self, service: CachedItem[Any], groups: dict[Ports, list[CachedItem[Any]]], time: str | None
    ) -> None:
        publish = bool(service.spec.get("publishNotReadyAddresses"))
        wanted: list[tuple[str, Tree]] = []
        for ports, pods in groups.items():
            for number, start in enumerate(range(0, len(pods), _MOST)):
                listed = [{"name": name, "protocol": protocol, "port": port} for name, protocol, port, _ in ports]
                body = {
                    "addressType": "IPv4",
                    "endpoints": [_endpoint(pod, publish) for pod in pods[start : start + _MOST]],
                    "ports": listed,
                }
                wanted.append((f"{service.name}-{_suffix(ports, number)}", body))
        if not wanted:
            # A Service without pods has one empty slice, which shows that it was processed.
            empty = {"addressType": "IPv4", "endpoints": [], "ports": []}
            wanted = [(f"{service.name}-{_suffix((), 0)}", empty)]
        known = {endpoint_slice.name: endpoint_slice for endpoint_slice in self._of_service[service.key]}
        for name, body in wanted:
            await self._write_slice(service, name, body, known.pop(name, None), time)
        for endpoint_slice in known.values():
            self._written.pop(("EndpointSlice", endpoint_slice.key), None)
            await delete_slice(self._client, self._slices, endpoint_slice)

    async def _write_slice(
        self, service: CachedItem[Any], name: str, body: Tree, known: CachedItem[Any] | None, time: str | None
    ) -> None:
        labels = {**service.labels, SERVICE_NAME: service.name, MANAGED_BY: _MANAGER, **_headless(service)}
        self._written["EndpointSlice", (service.namespace, name)] = body
        if known is None:
            metadata = {
                "name": name,
                "generateName": f"{service.name}-",
                "namespace": service.namespace,
                "labels": labels,
                "annotations": _with_trigger_time(None, time),
                "ownerReferences": [owner_reference(service.tree)],
            }
            tree = {"kind": "EndpointSlice", "apiVersion": ENDPOINT_SLICES.api_version, "metadata": metadata, **body}
            self._slices.record_write(await self._client.create(ENDPOINT_SLICES, tree, service.namespace))
        elif known.labels != labels or any((known.tree.get(field) or []) != (body[field] or []) for field in body):
            annotations = _with_trigger_time(known.metadata.get("annotations"), time)
            metadata = {**known.metadata, "labels": labels, "annotations": annotations}
            tree = {**known.tree, "metadata": metadata, **body}
            self._slices.record_write(await self._client.update(ENDPOINT_SLICES, tree))

    # --- Endpoints -------------------------------------------------------------------------------------------

    async def _write_endpoints(
        self, service: CachedItem[Any], groups: dict[Ports, list[CachedItem[Any]]], time: str | None
    ) -> None:
        publish = bool(service.spec.get("publishNotReadyAddresses"))
        subsets: list[Tree] = []
        for ports, pods in groups.items():
            subset: Tree = {}
            for field, ready in (("addresses", True), ("notReadyAddresses", False)):
                chosen = [pod for pod in pods if not pod.deleting and (is_ready(pod) or publish) == ready]
                if chosen:
                    subset[field] = [_address(pod) for pod in chosen[:_MOST_ADDRESSES]]
            if subset:
                listed = [
                    {**({"name": name} if name else {}), "port": port, "protocol": protocol}
                    for name, protocol, port, _ in ports
                ]
                subsets.append({**subset, "ports": listed} if listed else subset)
        known = self._endpoints.item(*service.key)
        labels = {**service.labels, _ENDPOINTS_MANAGED_BY: "endpoint-controller", **_headless(service)}
        self._written["Endpoints", service.key] = {"subsets": subsets}
        if known is None:
            metadata = {
                "name": service.name,
                "namespace": service.namespace,
                "labels": labels,
                "annotations": _with_trigger_time(None, time),
            }
            tree: Tree = {"kind": "Endpoints", "apiVersion": "v1", "metadata": metadata}
            if subsets:
                tree["subsets"] = subsets
            self._endpoints.record_write(await self._client.create(ENDPOINTS, tree, service.namespace))
        elif (known.tree.get("subsets") or []) != subsets or known.labels != labels:
            annotations = _with_trigger_time(known.metadata.get("annotations"), time)
            metadata = {**known.metadata, "labels": labels, "annotations": annotations}
            tree = {**known.tree, "metadata": metadata, "subsets": subsets}
            self._endpoints.record_write(await self._client.update(ENDPOINTS, tree))


def _headless(service: CachedItem[Any]) -> Tree:
    return {_HEADLESS: ""} if service.spec.get("clusterIP") == "None" else {}


def _endpoint(pod: CachedItem[Any], publish: bool) -> Tree:
    serving = is_ready(pod)
    endpoint: Tree = {
        "addresses": [pod.status["podIP"]],
        "conditions": {
            "ready": publish or (serving and not pod.deleting),
            "serving": serving,
            "terminating": pod.deleting,
        },
        "targetRef": _reference(pod),
    }
    if pod.spec.get("nodeName"):
        endpoint["nodeName"] = pod.spec["nodeName"]
    if pod.spec.get("hostname") and pod.spec.get("subdomain"):
        endpoint["hostname"] = pod.spec["hostname"]
    return endpoint


def _address(pod: CachedItem[Any]) -> Tree:
    address = {"ip": pod.status["podIP"], "nodeName": pod.spec.get("nodeName"), "targetRef": _reference(pod)}
    return {key: value for key, value in address.items() if value}


def _reference(pod: CachedItem[Any]) -> Tree:
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _ports(service: CachedItem[Any], pod: CachedItem[Any]) -> Ports:
    """The target ports of a Service as numbers in a pod; a port name that the pod lacks is omitted."""
    found = []
    for port in service.spec.get("ports") or ():
        target = port.get("targetPort") or port["port"]
        number = target if isinstance(target, int) else _named(pod, target)
        if number is not None:
            name, protocol = port.get("name") or "", port.get("protocol") or "TCP"
            found.append((name, protocol, number, port.get("appProtocol") or ""))
    return tuple(found)


def _named(pod: CachedItem[Any], name: str) -> int | None:
    for field in ("containers", "initContainers"):
        for container in pod.spec.get(field) or ():
            for port in container.get("ports") or ():
                if port.get("name") == name:
                    return int(port["containerPort"])
    return None


def _suffix(ports: Ports, number: int) -> str:
    """The suffix of a slice's name, derived from the ports, so that a restart finds its slices again."""
    return template_hash([ports, number])[:5]


def service_of(endpoint_slice: CachedItem[Any], manager: str = _MANAGER) -> Sequence[Key]:
    """The Service of a slice; empty if another controller manages it."""
    if endpoint_slice.labels.get(MANAGED_BY) != manager or SERVICE_NAME not in endpoint_slice.labels:
        return ()
    return ((endpoint_slice.namespace, endpoint_slice.labels[SERVICE_NAME]),)


async def delete_slice(client: Client, cache: Cache[Any], endpoint_slice: CachedItem[Any]) -> None:
    """Delete a slice that is not wanted any more; another client may have been faster."""
    try:
        await client.delete(ENDPOINT_SLICES, endpoint_slice.name, endpoint_slice.namespace, uid=endpoint_slice.uid)
    except StatusError as error:
        if error.code != 404:
            raise
    cache.record_deletion(endpoint_slice.tree)


def _selecting(service: CachedItem[Any]) -> Sequence[str]:
    return (service.namespace,) if service.spec.get("selector") else ()


def _labels_of(pod: CachedItem[Any]) -> list[tuple[str, str, str]]:
    return [(pod.namespace, key, value) for key, value in pod.labels.items()]


def _endpoint_state(pod: CachedItem[Any]) -> tuple[object, ...]:
    """The fields of a pod that affect endpoints."""
    return pod.deleting, is_finished(pod), is_ready(pod), pod.status.get("podIP"), pod.labels, pod.spec.get("nodeName")


#: Trigger time of endpoint changes, from which network programming latency is measured: first the creation time of the
#: Service, later the earliest time at which one of the changed pods became ready or unready; absent if unknown.
_TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class TriggerTimes:
    """The trigger times of Services, from the pod states when their endpoints were last computed."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], dict[str, str]] = {}

    def of(self, service: CachedItem[Any], pods: Iterable[CachedItem[Any]]) -> str | None:
        """Return the time for this sync, and store the state for the next one."""
        times = {pod.name: time for pod in pods if (time := _ready_since(pod))}
        before = self._seen.get(service.key)
        self._seen[service.key] = times
        if before is None:
            return str(service.metadata.get("creationTimestamp"))
        return min((time for name, time in times.items() if time > before.get(name, "")), default=None)

    def forget(self, key: tuple[str, str]) -> None:
        """Drop the state of a deleted Service."""
        self._seen.pop(key, None)


def _with_trigger_time(annotations: dict[str, str] | None, time: str | None) -> dict[str, str]:
    """The annotations with the trigger time set, or removed for None."""
    kept = {key: value for key, value in (annotations or {}).items() if key != _TRIGGER_TIME}
    return {**kept, _TRIGGER_TIME: time} if time else kept


def _ready_since(pod: CachedItem[Any]) -> str:
    condition = condition_of(pod.status.get("conditions"), "Ready") or {}
    return str(condition.get("lastTransitionTime") or "")
