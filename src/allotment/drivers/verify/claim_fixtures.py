"""Claims for testing a driver: on free devices, in a separate namespace, and deleted afterwards.

They are allocated here, so that no scheduler is needed: the published slices and all claims are read, devices are
chosen, and the allocation is written. Before the driver is called, all claims are read again; if a scheduler has
allocated one of the devices in the meantime, the claim is deleted.

The claims are reserved for a pod, because kubelets prepare no others. The pod has a scheduling gate, so it exists but
never runs.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, SLICES
from allotment.drivers.verify.verdict import CheckSkipped
from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Aborted, Allocated
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.resource import (
    CELDeviceSelector,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
    ResourceClaim,
    ResourceSlice,
)
from allotment.model.trees import Tree, read_value, to_tree
from allotment.phrases import counted

log = logging.getLogger(__name__)

#: The default class of claims. It is not in the cluster, which only a scheduler would need.
DEFAULT_CLASS: Final = "allotment-verify"
LABEL: Final = "allotment.dev/verifies"
_ATTEMPTS: Final = 3
_POD_NAME: Final = "holder"

#: Changes a claim's ``spec.devices`` and its allocation before they are written.
ClaimChange = Callable[[Tree, Tree], None]


def unchanged(spec: Tree, allocation: Tree) -> None:
    """Do not change the claim."""


class FixtureDevice(NamedTuple):
    """A device of the driver in a claim. ``request``: as in the allocation, with the subrequest."""

    request: str
    pool: str
    device: str
    share_id: str = ""


class ClaimFixture(NamedTuple):
    """A test claim, with its devices of the driver."""

    ref: ClaimRef
    devices: tuple[FixtureDevice, ...]
    allocation: Tree


class ClaimFixtures:
    """Creates claims for one driver on one node. ``class_name``: a class of the cluster that selects the devices."""

    def __init__(self, client: Client, driver: str, node: str, features: Features, class_name: str = "") -> None:
        self._client = client
        self._driver = driver
        self._node = node
        self._features = features
        self._class_name = class_name or DEFAULT_CLASS
        self.namespace = f"allotment-verify-{uuid.uuid4().hex[:8]}"
        self._namespace_created = False
        self._pod: Tree | None = None
        self._setup_lock = asyncio.Lock()
        self._count = 0

    # --- creation ---------------------------------------------------------------------------------------------------

    async def create_unallocated(self) -> ClaimRef:
        """Return a claim without allocation."""
        return _ref(await self._create({"requests": [self.request("gpu")]}))

    async def create_allocated(self, specs: Sequence[Tree], change: ClaimChange = unchanged) -> list[ClaimFixture]:
        """Return allocated claims with these ``spec.devices``. Raises CheckSkipped if too few devices are free."""
        lost = ""
        for _ in range(_ATTEMPTS):
            allocations = await self._allocate(specs)
            claims: list[ClaimFixture] = []
            try:
                for spec, allocation in zip(copy.deepcopy(list(specs)), allocations, strict=True):
                    change(spec, allocation)
                    claims.append(await self.create(spec, allocation))
                lost = await self._lost_device(claims)
                if not lost:
                    return claims
            except BaseException:
                await self._remove_all(claims)
                raise
            await self._remove_all(claims)
        raise CheckSkipped(f"device {lost} was allocated to another claim at the same time: try again")

    async def _remove_all(self, claims: Sequence[ClaimFixture]) -> None:
        for claim in claims:
            await self.remove(claim.ref)

    async def create(self, spec: Tree, allocation: Tree) -> ClaimFixture:
        """Return a claim with this allocation, even if other claims have the devices."""
        tree = await self._create(spec)
        pod = (await self._ensure_pod())["metadata"]
        reserved = [{"resource": "pods", "name": pod["name"], "uid": pod["uid"]}]
        status = {"allocation": allocation, "reservedFor": reserved}
        tree = await self._client.update(CLAIMS, {**tree, "status": status}, subresource="status")
        devices = tuple(
            FixtureDevice(r["request"], r["pool"], r["device"], r.get("shareID", ""))
            for r in tree["status"]["allocation"]["devices"].get("results") or ()
            if r["driver"] == self._driver
        )
        return ClaimFixture(_ref(tree), devices, tree["status"]["allocation"])

    def request(self, name: str) -> Tree:
        """Return a request for one device."""
        return {"name": name, "exactly": self._exactly_one()}

    def alternatives(self, name: str, *choices: str) -> Tree:
        """Return a request with several equal alternatives."""
        return {"name": name, "firstAvailable": [{"name": choice, **self._exactly_one()} for choice in choices]}

    def _exactly_one(self) -> Tree:
        return {"deviceClassName": self._class_name, "allocationMode": "ExactCount", "count": 1}

    def config(self, parameters: Tree) -> Tree:
        """Return the configuration with these parameters for the driver."""
        return {"opaque": {"driver": self._driver, "parameters": parameters}}

    # --- allocation -------------------------------------------------------------------------------------------------

    async def _allocate(self, specs: Sequence[Tree]) -> list[Tree]:
        names = [{"namespace": self.namespace, "name": f"c-{number}"} for number in range(len(specs))]
        pending_claims = [
            read_value({"metadata": metadata, "spec": {"devices": spec}}, ResourceClaim)
            for metadata, spec in zip(names, specs, strict=True)
        ]
        slices, classes, claims, node = await asyncio.gather(
            self._client.list(SLICES), self._classes(), self._client.list(CLAIMS), self._client.get(NODES, self._node)
        )
        inventory = Inventory.of(
            self._features,
            nodes=[(self._node, node["metadata"].get("labels") or {})],
            slices=[read_value(tree, ResourceSlice) for tree in slices.items],
            classes=classes,
            claims=[read_value(tree, ResourceClaim) for tree in claims.items],
        )
        outcome = Allocator(inventory, lambda: str(uuid.uuid4())).allocate(self._node, pending_claims)
        if isinstance(outcome, Allocated):
            return [to_tree(result) for result in outcome.results]
        reason = f": {outcome.text}" if isinstance(outcome, Aborted) else ""
        count = sum(len(spec["requests"]) for spec in specs)
        free = counted(count, "free device")
        kind = "" if self._class_name == DEFAULT_CLASS else f" of class {self._class_name}"
        raise CheckSkipped(f"requires {free}{kind}; {self._node} has {'none' if count == 1 else 'fewer'}{reason}")

    async def _classes(self) -> list[DeviceClass]:
        if self._class_name != DEFAULT_CLASS:
            return [read_value(await self._client.get(DEVICE_CLASSES, self._class_name), DeviceClass)]
        selector = DeviceSelector(cel=CELDeviceSelector(expression=f'device.driver == "{self._driver}"'))
        return [DeviceClass(metadata=ObjectMeta(name=DEFAULT_CLASS), spec=DeviceClassSpec(selectors=(selector,)))]

    async def _lost_device(self, claims: Sequence[ClaimFixture]) -> str:
        """Return a device of these claims that another claim has, too, or ""."""
        own = {(device.pool, device.device) for claim in claims for device in claim.devices if not device.share_id}
        for tree in (await self._client.list(CLAIMS)).items:
            if tree["metadata"]["namespace"] == self.namespace:
                continue
            for result in _results(tree):
                if result["driver"] == self._driver and (result["pool"], result["device"]) in own:
                    if not result.get("adminAccess"):
                        return f"{result['pool']}/{result['device']}"
        return ""

    # --- objects ----------------------------------------------------------------------------------------------------

    async def _create(self, devices: Tree) -> Tree:
        await self._ensure_pod()
        self._count += 1
        tree = {**_object(CLAIMS, f"claim-{self._count}", namespace=self.namespace), "spec": {"devices": devices}}
        return await self._client.create(CLAIMS, tree, self.namespace)

    async def _ensure_pod(self) -> Tree:
        """Return the pod, after creating its namespace and service account."""
        async with self._setup_lock:
            if not self._namespace_created:
                await self._client.create(NAMESPACES, _object(NAMESPACES, self.namespace, labels={LABEL: self._driver}))
                self._namespace_created = True
            if self._pod is None:
                account = _object(SERVICE_ACCOUNTS, _POD_NAME, namespace=self.namespace)
                await self._client.create(SERVICE_ACCOUNTS, account, self.namespace)
                self._pod = await self._client.create(PODS, _pod(self.namespace), self.namespace)
        return self._pod

    async def remove(self, ref: ClaimRef) -> None:
        """Delete a claim, if it exists."""
        await self._delete(CLAIMS, ref.name)

    async def clear(self) -> None:
        """Delete everything that was created."""
        if not self._namespace_created:
            return
        try:
            for tree in (await self._client.list(CLAIMS, self.namespace)).items:
                await self._delete(CLAIMS, tree["metadata"]["name"])
            await self._delete(PODS, _POD_NAME, grace_seconds=0)
            await self._delete(SERVICE_ACCOUNTS, _POD_NAME)
            await self._client.delete(NAMESPACES, self.namespace)
        except (StatusError, Unreachable) as error:
            log.error("cannot delete namespace %s; delete it manually: %s", self.namespace, error)

    async def _delete(self, resource: Resource, name: str, **more: Any) -> None:
        try:
            await self._client.delete(resource, name, self.namespace, **more)
        except StatusError as error:
            if error.code != 404:
                raise


def _ref(tree: Tree) -> ClaimRef:
    metadata = tree["metadata"]
    return ClaimRef(metadata["namespace"], metadata["uid"], metadata["name"])


def _results(claim: Mapping[str, Any]) -> Sequence[Tree]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results: Sequence[Tree] = (allocation.get("devices") or {}).get("results") or ()
    return results


def _object(resource: Resource, name: str, **metadata: Any) -> Tree:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name, **metadata}}


def _pod(namespace: str) -> Tree:
    """Accepted by the strictest namespaces, since the pod never runs."""
    safe = {
        "allowPrivilegeEscalation": False, "runAsNonRoot": True, "runAsUser": 65534, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    requests = {"cpu": "1m", "memory": "1Mi"}
    resources = {"requests": requests, "limits": requests}
    container = {"name": "none", "image": "registry.k8s.io/pause:3.10", "securityContext": safe, "resources": resources}
    return {
        **_object(PODS, _POD_NAME, namespace=namespace),
        "spec": {
            "schedulingGates": [{"name": "allotment.dev/never-runs"}],
            "serviceAccountName": _POD_NAME,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }
