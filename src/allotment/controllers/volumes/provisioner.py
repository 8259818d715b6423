"""The provisioner of a lab's own volumes: creates, expands and deletes the volumes of classes that name it.

It also creates the default StorageClass, unless the cluster has another one. A volume can be used on every node, as all
nodes are on one machine; where containers are real, it is a folder. As in Kubernetes, the volume controller orders a
volume by an annotation of the claim, and the scheduler by selecting a node.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import all_synced
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.resources import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.volumes.binder import PROVISIONER
from allotment.controllers.volumes.reclaiming import PROVISIONED_BY
from allotment.model.trees import Tree
from allotment.node_fit.volume_matching import (
    DEFAULT_CLASS,
    SELECTED_NODE,
    annotations_of,
    class_of,
    default_class,
    reference_to,
    requested_size,
    size_of,
    waits_for_consumer,
)

#: The provisioner, as StorageClasses name it, and the default class.
NAME: Final = "allotment.dev/volumes"
CLASS_NAME: Final = "standard"
#: Where nodes have the volumes, as the objects say; real containers have them in a folder of the lab.
_PATH: Final = "/var/lib/allotment/volumes"

_Key = tuple[str, str]


def volume_provisioner(folder: Path | None = None) -> Program:
    """The provisioner. ``folder``: of the volumes' files; None if containers are simulated and write none."""

    async def run(context: ProgramContext) -> None:
        await _Provisioner(context, folder).run()

    return run


class _Provisioner:
    def __init__(self, context: ProgramContext, folder: Path | None) -> None:
        self._folder = folder
        self._stopping = context.stopping
        self._client = context.client_for("volume-provisioner", "volume-provisioner")
        self._recorder = context.recorder(NAME)
        self._claims = context.caches.trees(VOLUME_CLAIMS)
        self._volumes = context.caches.trees(VOLUMES)
        self._classes = context.caches.trees(STORAGE_CLASSES)
        self._claim_queue: WorkQueue[_Key] = WorkQueue(
            "volume-provisioner", self._sync_claim, clock=context.clock, random=context.random
        )
        self._volume_queue: WorkQueue[str] = WorkQueue(
            "released-volumes", self._sync_volume, clock=context.clock, random=context.random
        )

    async def run(self) -> None:
        if not await self._stopping.run_until_shutdown(all_synced(self._classes)):
            return
        await self._create_class()
        await run_queues(
            [self._claim_queue, self._volume_queue],
            [(self._claims, self._claim_changed), (self._volumes, self._volume_changed)],
        )

    async def _create_class(self) -> None:
        """Create the default class, unless it exists or the cluster has another one."""
        if self._classes.item("", CLASS_NAME) or default_class(item.tree for item in self._classes.items()):
            return
        tree = {
            "apiVersion": STORAGE_CLASSES.api_version,
            "kind": STORAGE_CLASSES.kind,
            "metadata": {"name": CLASS_NAME, "annotations": {DEFAULT_CLASS: "true"}},
            "provisioner": NAME,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": True,
        }
        try:
            self._classes.record_write(await self._client.create(STORAGE_CLASSES, tree))
        except StatusError as error:
            if error.code != 409:
                raise

    def _claim_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and annotations_of(new.tree).get(PROVISIONER[0]) == NAME:
            self._claim_queue.add(new.key)

    def _volume_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if (
            new is not None
            and _is_provisioned_here(new.tree)
            and (new.status.get("phase") == "Released" or new.deleting)
        ):
            self._volume_queue.add(new.name)
        elif new is None and old is not None and _is_provisioned_here(old.tree):
            self._volume_queue.add(old.name)

    # --- claims ----------------------------------------------------------------------------------------------------

    async def _sync_claim(self, key: _Key) -> None:
        claim = self._claims.tree(*key)
        if claim is None or "deletionTimestamp" in claim["metadata"]:
            return
        if not claim["spec"].get("volumeName"):
            await self._provision(claim)
        elif (claim.get("status") or {}).get("phase") == "Bound":
            await self._expand(claim)

    async def _provision(self, claim: Tree) -> None:
        storage_class = self._classes.tree("", class_of(claim))
        if storage_class is None or storage_class["provisioner"] != NAME:
            return
        if waits_for_consumer(storage_class) and not annotations_of(claim).get(SELECTED_NODE):
            return
        about = claim["metadata"]
        name = f"pvc-{about['uid']}"
        if self._volumes.item("", name) is not None:
            return
        text = f'External provisioner is provisioning volume for claim "{about["namespace"]}/{about["name"]}"'
        self._recorder.event(claim, "Normal", "Provisioning", text)
        try:
            self._volumes.record_write(await self._client.create(VOLUMES, _volume(name, claim, storage_class)))
        except StatusError as error:
            if error.code == 409:
                return
            text = f'failed to provision volume with StorageClass "{storage_class["metadata"]["name"]}": {error}'
            self._recorder.event(claim, "Warning", "ProvisioningFailed", text)
            raise
        self._recorder.event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    async def _expand(self, claim: Tree) -> None:
        """Give a claim and its volume the larger size that the claim requests."""
        volume = self._volumes.tree("", claim["spec"]["volumeName"])
        if volume is None or not _is_provisioned_here(volume):
            return
        wanted, size = requested_size(claim), str(requested_size(claim))
        if size_of(volume) < wanted:
            text = "waiting for an external controller to expand this PVC"
            self._recorder.event(claim, "Normal", "ExternalExpanding", text)
            name = volume["metadata"]["name"]
            self._recorder.event(claim, "Normal", "Resizing", f"External resizer is resizing volume {name}")
            spec = {**volume["spec"], "capacity": {**volume["spec"]["capacity"], "storage": size}}
            self._volumes.record_write(await self._client.update(VOLUMES, {**volume, "spec": spec}))
            self._recorder.event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")
        status: Tree = claim.get("status") or {}
        if _status_size(claim) < wanted:
            sized = {"capacity": {**(status.get("capacity") or {}), "storage": size}}
            sized["allocatedResources"] = {"storage": size}
            tree = {**claim, "status": {**status, **sized}}
            self._claims.record_write(await self._client.update(VOLUME_CLAIMS, tree, subresource="status"))

    # --- volumes ---------------------------------------------------------------------------------------------------

    async def _sync_volume(self, name: str) -> None:
        """Delete a released volume, and the files of a volume that is gone."""
        volume = self._volumes.tree("", name)
        if volume is None:
            if self._folder is not None:
                await asyncio.to_thread(shutil.rmtree, self._folder / name, ignore_errors=True)
            return
        if volume["spec"].get("persistentVolumeReclaimPolicy") != "Delete" or "deletionTimestamp" in volume["metadata"]:
            return
        try:
            await self._client.delete(VOLUMES, name, uid=volume["metadata"]["uid"])
        except StatusError as error:
            if error.code not in (404, 409):
                raise


def _is_provisioned_here(volume: Tree) -> bool:
    return annotations_of(volume).get(PROVISIONED_BY) == NAME


def _status_size(claim: Tree) -> Any:
    return size_of({"spec": {"capacity": (claim.get("status") or {}).get("capacity")}})


def _volume(name: str, claim: Tree, storage_class: Tree) -> Tree:
    """The volume of a claim."""
    spec = claim["spec"]
    made: Tree = {
        "accessModes": spec["accessModes"],
        "capacity": {"storage": str(requested_size(claim))},
        "claimRef": reference_to(claim),
        "hostPath": {"path": f"{_PATH}/{name}", "type": "DirectoryOrCreate"},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": class_of(claim),
        "volumeMode": spec.get("volumeMode") or "Filesystem",
    }
    if storage_class.get("mountOptions"):
        made["mountOptions"] = storage_class["mountOptions"]
    if spec.get("volumeAttributesClassName"):
        made["volumeAttributesClassName"] = spec["volumeAttributesClassName"]
    metadata = {"name": name, "annotations": {PROVISIONED_BY: NAME}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": made}
