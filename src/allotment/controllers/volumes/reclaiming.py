"""Reclaiming of volumes whose claims are gone: they are kept, deleted or recycled, as their policy states."""

from __future__ import annotations

import re
from typing import Final

from allotment.cluster.client import Client
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import VOLUMES
from allotment.controllers.volumes.phases import VolumeWrites
from allotment.model.trees import Tree
from allotment.node_fit.volume_matching import annotations_of

#: The annotation of a volume that names its provisioner.
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
#: Prefix of the provisioners that are part of Kubernetes.
IN_TREE: Final = "kubernetes.io/"
#: The only host paths that are deleted.
_TEMPORARY: Final = re.compile("/tmp/.+", re.DOTALL)


class VolumeReclaimer:
    """Reclaims released volumes of types that need no provisioner; the provisioners reclaim the others."""

    def __init__(self, client: Client, writes: VolumeWrites, recorder: Recorder) -> None:
        self._client = client
        self._writes = writes
        self._recorder = recorder

    async def release(self, volume: Tree) -> None:
        """Release a volume whose claim is gone, and reclaim it according to its policy."""
        if (volume.get("status") or {}).get("phase") not in ("Released", "Failed"):
            volume = await self._writes.set_volume_phase(volume, "Released")
        policy = volume["spec"].get("persistentVolumeReclaimPolicy")
        if policy == "Delete" and not _is_external(volume):
            await self._delete(volume)
        elif policy == "Recycle":
            await self._recycle(volume)

    async def _delete(self, volume: Tree) -> None:
        """Delete a volume of a type that needs no provisioner. The files on the host stay."""
        name = volume["metadata"]["name"]
        path = (volume["spec"].get("hostPath") or {}).get("path")
        if path is None:
            text = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
        elif not _TEMPORARY.match(path):
            text = f"host_path deleter only supports /tmp/.+ but received provided {path}"
        else:
            await self._client.delete(VOLUMES, name, uid=volume["metadata"]["uid"])
            return
        await self._fail(volume, "VolumeFailedDelete", text)

    async def _recycle(self, volume: Tree) -> None:
        """Make a volume available again. Its files stay: nothing runs on a host."""
        spec = volume["spec"]
        if "hostPath" not in spec and "nfs" not in spec:
            await self._fail(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
            return
        self._recorder.event(volume, "Normal", "VolumeRecycled", "Volume recycled")
        await self._writes.unbind(volume)

    async def _fail(self, volume: Tree, reason: str, text: str) -> None:
        if (volume.get("status") or {}).get("phase") != "Failed":
            await self._writes.set_volume_phase(volume, "Failed", text)
            self._recorder.event(volume, "Warning", reason, text)


def _is_external(volume: Tree) -> bool:
    """Whether a provisioner or CSI driver outside the controller deletes a volume."""
    by = annotations_of(volume).get(PROVISIONED_BY)
    return (by is not None and not by.startswith(IN_TREE)) or volume["spec"].get("csi") is not None
