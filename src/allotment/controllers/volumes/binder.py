"""The volume controller: binds PersistentVolumeClaims and PersistentVolumes, and reclaims volumes that are released.

A claim whose class waits for its first consumer is bound by the scheduler, which reserves a volume or selects a node.
Volumes of other classes are provisioned by the provisioner that the class names; it reads the claim's annotations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.pods import is_finished
from allotment.controllers.volumes.phases import VolumeWrites
from allotment.controllers.volumes.reclaiming import IN_TREE, PROVISIONED_BY, VolumeReclaimer
from allotment.model.pod_volume_claims import claim_names
from allotment.model.trees import Tree
from allotment.node_fit.volume_matching import (
    BIND_COMPLETED,
    SELECTED_NODE,
    annotations_of,
    best_match,
    class_of,
    default_class,
    has_class,
    is_bound_to,
    mismatch,
    volume_mode,
    waits_for_consumer,
)

#: The provisioner of a claim, under its present and its former name.
PROVISIONER: Final = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_NO_CLASS: Final = "no persistent volumes available for this claim and no storage class is set"
_EXTERNAL: Final = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)
_LOST: Final = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
_LOST_REFERENCE: Final = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
_MISBOUND: Final = "Two claims are bound to the same volume, this one is bound incorrectly"

_Key = tuple[str, str]


async def volume_binder(context: ProgramContext) -> None:
    """Run the volume controller."""
    await _VolumeBinder(context).run()


class _VolumeBinder:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("persistent-volume-binder")
        self._recorder = context.recorder("persistentvolume-controller")
        caches = context.caches
        self._claims = caches.trees(VOLUME_CLAIMS)
        self._volumes = caches.trees(VOLUMES)
        self._classes = caches.trees(STORAGE_CLASSES)
        self._pods = caches.trees(PODS)
        self._users = self._pods.index("volume claims", _claims_of_pod)
        self._pending = self._claims.index("unbound", _unbound)
        self._reserving = self._volumes.index("claim", _reserved_claim)
        self._free = self._volumes.index("free", _free_class)
        self._taken: set[str] = set()
        """The names of volumes that are being bound to a claim which has chosen them."""
        self._writes = VolumeWrites(self._client, self._claims, self._volumes)
        self._reclaimer = VolumeReclaimer(self._client, self._writes, self._recorder)
        self._claim_queue: WorkQueue[_Key] = WorkQueue(
            "volume-claims", self._sync_claim, clock=context.clock, random=context.random
        )
        self._volume_queue: WorkQueue[str] = WorkQueue(
            "volumes", self._sync_volume, clock=context.clock, random=context.random
        )

    async def run(self) -> None:
        await run_queues(
            [self._claim_queue, self._volume_queue],
            [
                (self._classes, self._class_changed), (self._pods, self._pod_changed),
                (self._volumes, self._volume_changed), (self._claims, self._claim_changed),
            ],
        )  # fmt: skip

    # --- changes ---------------------------------------------------------------------------------------------------

    def _claim_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        item = new or old
        assert item is not None
        if new is not None and (old is None or _changed(old, new)):
            self._claim_queue.add(new.key)
        for volume in self._reserving[item.key]:
            self._volume_queue.add(volume.name)

    def _volume_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        item = new or old
        assert item is not None
        if new is not None:
            self._volume_queue.add(new.name)
        for key in _reserved_claim(item):
            if self._claims.item(*key) is not None:
                self._claim_queue.add(key)
        if new is None or (_is_free(new) and (old is None or not _is_free(old) or old.labels != new.labels)):
            for claim in (*self._pending[class_of(item.tree), ""], *self._pending["", item.name]):
                self._claim_queue.add(claim.key)

    def _class_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        """Claims may wait for the class, or without one for a default class."""
        if new is not None:
            for claim in (*self._pending[new.name, ""], *self._pending["", ""]):
                self._claim_queue.add(claim.key)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        """The events of claims name the pods that use them."""
        if old is None and new is not None and not new.spec.get("nodeName"):
            for key in _claims_of_pod(new):
                claim = self._claims.item(*key)
                if claim is not None and waits_for_consumer(self._classes.tree("", class_of(claim.tree))):
                    self._claim_queue.add(key)

    # --- claims ----------------------------------------------------------------------------------------------------

    async def _sync_claim(self, key: _Key) -> None:
        item = self._claims.item(*key)
        if item is None:
            return
        if BIND_COMPLETED in annotations_of(item.tree):
            await self._sync_bound(item.tree)
        elif name := item.spec.get("volumeName"):
            await self._sync_named(item.tree, name)
        else:
            await self._sync_unbound(item.tree)

    async def _sync_unbound(self, claim: Tree) -> None:
        """Find or order a volume for a claim."""
        storage_class = self._classes.tree("", class_of(claim))
        delayed = waits_for_consumer(storage_class)
        key = claim["metadata"]["namespace"], claim["metadata"]["name"]
        volumes = [item.tree for item in (*self._free[class_of(claim)], *self._reserving[key])]
        volume = best_match(
            claim, [each for each in volumes if each["metadata"]["name"] not in self._taken], delayed=delayed
        )
        if volume is not None:
            name = volume["metadata"]["name"]
            self._taken.add(name)
            try:
                await self._writes.bind(volume, claim)
            finally:
                self._taken.discard(name)
            return
        if not has_class(claim) and (found := default_class(item.tree for item in self._classes.items())):
            spec = {**claim["spec"], "storageClassName": found["metadata"]["name"]}
            await self._writes.update_claim({**claim, "spec": spec})
            return
        if delayed and not annotations_of(claim).get(SELECTED_NODE):
            self._event(claim, "Normal", *self._awaited(claim))
        elif name := class_of(claim):
            await self._order(claim, name, storage_class)
            return
        else:
            self._event(claim, "Normal", "FailedBinding", _NO_CLASS)
        await self._writes.set_claim_phase(claim, "Pending")

    def _awaited(self, claim: Tree) -> tuple[str, str]:
        """Reason and message of a claim that is bound with its first pod."""
        key = claim["metadata"]["namespace"], claim["metadata"]["name"]
        names = sorted(pod.name for pod in self._users[key] if not is_finished(pod) and not pod.spec.get("nodeName"))
        if not names:
            return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
        noun = "pods" if len(names) > 1 else "pod"
        return "WaitForPodScheduled", f"waiting for {noun} {','.join(names)} to be scheduled"

    async def _order(self, claim: Tree, name: str, storage_class: Tree | None) -> None:
        """Name the provisioner in the claim's annotations: that is its order."""
        if storage_class is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            self._event(claim, "Warning", "ProvisioningFailed", text)
            return
        provisioner: str = storage_class["provisioner"]
        if provisioner.startswith(IN_TREE):
            self._event(claim, "Warning", "ProvisioningFailed", f"no volume plugin matched name: {provisioner}")
            return
        annotations = annotations_of(claim)
        if annotations.get(PROVISIONER[0]) != provisioner:
            metadata = {**claim["metadata"], "annotations": {**annotations, **dict.fromkeys(PROVISIONER, provisioner)}}
            claim = await self._writes.update_claim({**claim, "metadata": metadata})
        self._event(claim, "Normal", "ExternalProvisioning", _EXTERNAL.format(provisioner))

    async def _sync_named(self, claim: Tree, name: str) -> None:
        """Bind a claim to the volume that its user or a provisioner named."""
        volume = self._volumes.tree("", name)
        if volume is None:
            await self._writes.set_claim_phase(claim, "Pending")
            return
        reserved = is_bound_to(volume, claim)
        if volume["spec"].get("claimRef") is None and (why := mismatch(volume, claim)):
            text = f'Cannot bind to requested volume "{name}": {why}'
            self._event(claim, "Warning", "VolumeMismatch", text)
        elif volume["spec"].get("claimRef") is None or reserved:
            await self._writes.bind(volume, claim)
            return
        else:
            text = f'volume "{name}" already bound to a different claim.'
            self._event(claim, "Warning", "FailedBinding", text)
        await self._writes.set_claim_phase(claim, "Pending")

    async def _sync_bound(self, claim: Tree) -> None:
        """Complete or keep the binding of a claim, or report that it is lost."""
        name = claim["spec"].get("volumeName")
        volume = self._volumes.tree("", name) if name else None
        if not name:
            await self._lose(claim, "ClaimLost", _LOST_REFERENCE)
        elif volume is None:
            await self._lose(claim, "ClaimLost", _LOST)
        elif (volume["spec"].get("claimRef") or {}).get("uid", claim["metadata"]["uid"]) != claim["metadata"]["uid"]:
            await self._lose(claim, "ClaimMisbound", _MISBOUND)
        else:
            await self._writes.bind(volume, claim)

    async def _lose(self, claim: Tree, reason: str, text: str) -> None:
        if (claim.get("status") or {}).get("phase") != "Lost":
            await self._writes.set_claim_phase(claim, "Lost")
            self._event(claim, "Warning", reason, text)

    # --- volumes ---------------------------------------------------------------------------------------------------

    async def _sync_volume(self, name: str) -> None:
        volume = self._volumes.tree("", name)
        if volume is None:
            return
        reference: Tree = volume["spec"].get("claimRef") or {}
        if not reference.get("uid"):
            await self._writes.set_volume_phase(volume, "Available")
            return
        claim = await self._claim_of(reference)
        if claim is None:
            await self._reclaimer.release(volume)
        elif not claim["spec"].get("volumeName"):
            self._reserved(volume, claim)
        elif claim["spec"]["volumeName"] == name:
            await self._writes.set_volume_phase(volume, "Bound")
        elif _is_provisioned(volume) and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            await self._reclaimer.release(volume)
        else:
            await self._writes.unbind(volume)

    async def _claim_of(self, reference: Tree) -> Tree | None:
        """The claim with the uid of a reference, read from the API if the cache has none: the volume would be lost."""
        namespace, name = reference.get("namespace", ""), reference.get("name", "")
        claim = self._claims.tree(namespace, name)
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            try:
                claim = await self._client.get(VOLUME_CLAIMS, name, namespace)
            except StatusError as error:
                if error.code != 404:
                    raise
                return None
        return claim if claim["metadata"]["uid"] == reference["uid"] else None

    def _reserved(self, volume: Tree, claim: Tree) -> None:
        """Continue the binding of a claim for which a volume is reserved."""
        name, about = volume["metadata"]["name"], claim["metadata"]
        if volume_mode(volume) == volume_mode(claim):
            self._claim_queue.add((about["namespace"], about["name"]))
            return
        rest = "due to incompatible volumeMode."
        text = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{about["name"]}" {rest}'
        self._event(volume, "Warning", "VolumeMismatch", text)
        text = f'Cannot bind PersistentVolume "{name}" to requested PersistentVolumeClaim {rest}'
        self._event(claim, "Warning", "VolumeMismatch", text)

    def _event(self, about: Tree, type: Any, reason: str, text: str) -> None:
        self._recorder.event(about, type, reason, text)


def _changed(old: CachedItem[Any], new: CachedItem[Any]) -> bool:
    """Whether a claim changed in anything but its own status."""
    return (
        old.spec != new.spec
        or old.metadata.get("annotations") != new.metadata.get("annotations")
        or (old.uid != new.uid or new.status.get("phase") != old.status.get("phase"))
    )


def _claims_of_pod(pod: CachedItem[Any]) -> Iterator[_Key]:
    for name, _ in claim_names(pod.tree):
        yield pod.namespace, name


def _unbound(claim: CachedItem[Any]) -> Iterable[tuple[str, str]]:
    """Class and volume name of a claim that is not bound; the class only if it names no volume."""
    if BIND_COMPLETED in annotations_of(claim.tree):
        return ()
    name = claim.spec.get("volumeName") or ""
    return ((("" if name else class_of(claim.tree)), name),)


def _is_free(volume: CachedItem[Any]) -> bool:
    return not volume.spec.get("claimRef") and volume.status.get("phase") == "Available"


def _free_class(volume: CachedItem[Any]) -> Iterable[str]:
    """The class of a volume that any claim can get."""
    return (class_of(volume.tree),) if _is_free(volume) else ()


def _reserved_claim(volume: CachedItem[Any]) -> Iterable[_Key]:
    reference = volume.spec.get("claimRef") or {}
    return ((reference.get("namespace", ""), reference["name"]),) if reference.get("name") else ()


def _is_provisioned(volume: Tree) -> bool:
    return PROVISIONED_BY in annotations_of(volume)
