"""Claims to try a driver with: made for devices that nobody has, in a namespace of their own, and gone afterwards.

The kit does the scheduler's part itself, so that it works where no scheduler runs and never waits for one: it reads
what is published and who has what, chooses, and writes the allocation. Before a driver hears of a claim everybody's
claims are read once more; a device that a scheduler gave away meanwhile is left to whom it belongs.

Claims are reserved for a pod, because kubelets ask drivers for no others. That pod has a scheduling gate: it exists,
and never runs.
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

#: The class that claims name when nobody chose one. It is not in the cluster: a scheduler would miss it, nobody else.
DEFAULT_CLASS: Final = "allotment-verify"
LABEL: Final = "allotment.dev/verifies"
_ATTEMPTS: Final = 3
_POD_NAME: Final = "holder"

#: Changes a claim's ``spec.devices`` and its allocation before they are written.
ClaimChange = Callable[[Tree, Tree], None]


def unchanged(spec: Tree, allocation: Tree) -> None:
    """Change nothing."""


class FixtureDevice(NamedTuple):
    """A device that a claim was given of the driver. ``request``: as allocated, with the subrequest."""

    request: str
    pool: str
    device: str
    share_id: str = ""


class ClaimFixture(NamedTuple):
    """A claim of the kit, and its devices of the driver."""

    ref: ClaimRef
    devices: tuple[FixtureDevice, ...]
    allocation: Tree


class ClaimFixtures:
    """Makes claims for one driver on one node. ``class_name``: a class of the cluster that chooses the devices."""

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

    # --- making ---------------------------------------------------------------------------------------------------

    async def create_unallocated(self) -> ClaimRef:
        """A claim that nobody has allocated."""
        return _ref(await self._create({"requests": [self.request("gpu")]}))

    async def create_allocated(self, specs: Sequence[Tree], changed: ClaimChange = unchanged) -> list[ClaimFixture]:
        """Allocated claims with these ``spec.devices``. Raises NotChecked if there are not devices enough."""
        lost = ""
        for _ in range(_ATTEMPTS):
            chosen = await self._allocate(specs)
            made: list[ClaimFixture] = []
            try:
                for spec, allocation in zip(copy.deepcopy(list(specs)), chosen, strict=True):
                    changed(spec, allocation)
                    made.append(await self.create(spec, allocation))
                lost = await self._lost_device(made)
                if not lost:
                    return made
            except BaseException:
                await self._remove_all(made)
                raise
            await self._remove_all(made)
        raise CheckSkipped(f"device {lost} was given to another claim at the same moment: try again")

    async def _remove_all(self, made: Sequence[ClaimFixture]) -> None:
        for each in made:
            await self.remove(each.ref)

    async def create(self, spec: Tree, allocation: Tree) -> ClaimFixture:
        """A claim that has this allocation, whoever else has it."""
        tree = await self._create(spec)
        pod = (await self._ensure_pod())["metadata"]
        reserved = [{"resource": "pods", "name": pod["name"], "uid": pod["uid"]}]
        status = {"allocation": allocation, "reservedFor": reserved}
        tree = await self._client.update(CLAIMS, {**tree, "status": status}, subresource="status")
        parts = tuple(
            FixtureDevice(r["request"], r["pool"], r["device"], r.get("shareID", ""))
            for r in tree["status"]["allocation"]["devices"].get("results") or ()
            if r["driver"] == self._driver
        )
        return ClaimFixture(_ref(tree), parts, tree["status"]["allocation"])

    def request(self, name: str) -> Tree:
        """A request for one device."""
        return {"name": name, "exactly": self._exactly_one()}

    def alternatives(self, name: str, *choices: str) -> Tree:
        """A request that prefers the first of some choices, which ask for the same."""
        return {"name": name, "firstAvailable": [{"name": each, **self._exactly_one()} for each in choices]}

    def _exactly_one(self) -> Tree:
        return {"deviceClassName": self._class_name, "allocationMode": "ExactCount", "count": 1}

    def config(self, parameters: Tree) -> Tree:
        """Parameters for the driver."""
        return {"opaque": {"driver": self._driver, "parameters": parameters}}

    # --- choosing -------------------------------------------------------------------------------------------------

    async def _allocate(self, specs: Sequence[Tree]) -> list[Tree]:
        names = [{"namespace": self.namespace, "name": f"c-{number}"} for number in range(len(specs))]
        wanted = [
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
        outcome = Allocator(inventory, lambda: str(uuid.uuid4())).allocate(self._node, wanted)
        if isinstance(outcome, Allocated):
            return [to_tree(result) for result in outcome.results]
        why = f": {outcome.text}" if isinstance(outcome, Aborted) else ""
        count = sum(len(spec["requests"]) for spec in specs)
        free = counted(count, "free device")
        kind = "" if self._class_name == DEFAULT_CLASS else f" of class {self._class_name}"
        raise CheckSkipped(f"needs {free}{kind}: {self._node} has {'none' if count == 1 else 'fewer'}{why}")

    async def _classes(self) -> list[DeviceClass]:
        if self._class_name != DEFAULT_CLASS:
            return [read_value(await self._client.get(DEVICE_CLASSES, self._class_name), DeviceClass)]
        selector = DeviceSelector(cel=CELDeviceSelector(expression=f'device.driver == "{self._driver}"'))
        return [DeviceClass(metadata=ObjectMeta(name=DEFAULT_CLASS), spec=DeviceClassSpec(selectors=(selector,)))]

    async def _lost_device(self, made: Sequence[ClaimFixture]) -> str:
        """A device of ours that somebody else has as well; empty if there is none."""
        ours = {(part.pool, part.device) for each in made for part in each.devices if not part.share_id}
        for tree in (await self._client.list(CLAIMS)).items:
            if tree["metadata"]["namespace"] == self.namespace:
                continue
            for result in _results(tree):
                if result["driver"] == self._driver and (result["pool"], result["device"]) in ours:
                    if not result.get("adminAccess"):
                        return f"{result['pool']}/{result['device']}"
        return ""

    # --- objects --------------------------------------------------------------------------------------------------

    async def _create(self, devices: Tree) -> Tree:
        await self._ensure_pod()
        self._count += 1
        tree = {**_object(CLAIMS, f"claim-{self._count}", namespace=self.namespace), "spec": {"devices": devices}}
        return await self._client.create(CLAIMS, tree, self.namespace)

    async def _ensure_pod(self) -> Tree:
        """The pod, in its namespace, with an account of its own: nobody else makes one where no controllers run."""
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
        """Delete a claim; none is no error."""
        await self._delete(CLAIMS, ref.name)

    async def clear(self) -> None:
        """Delete everything that was made."""
        if not self._namespace_created:
            return
        try:
            for tree in (await self._client.list(CLAIMS, self.namespace)).items:
                await self._delete(CLAIMS, tree["metadata"]["name"])
            await self._delete(PODS, _POD_NAME, grace_seconds=0)
            await self._delete(SERVICE_ACCOUNTS, _POD_NAME)
            await self._client.delete(NAMESPACES, self.namespace)
        except (StatusError, Unreachable) as error:
            log.error("namespace %s could not be cleared; delete it: %s", self.namespace, error)

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
    """As modest as the strictest namespace wants it, for it is never to run."""
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
