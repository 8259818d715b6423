"""Writes of the volume controller: references between claims and volumes, and the phases of both."""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.resources import VOLUME_CLAIMS, VOLUMES
from allotment.model.trees import Tree
from allotment.node_fit.volume_matching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    annotations_of,
    reserved_for,
    size_of,
)

#: Status fields of a claim that are set from its volume.
_OF_VOLUME: Final = ("accessModes", "capacity", "currentVolumeAttributesClassName")


class VolumeWrites:
    """Writes claims and volumes only if they change, and records the result in the caches."""

    def __init__(self, client: Client, claims: Cache[Any], volumes: Cache[Any]) -> None:
        self._client = client
        self._claims = claims
        self._volumes = volumes

    async def bind(self, volume: Tree, claim: Tree) -> None:
        """Bind a claim and a volume to each other, or complete a binding that was interrupted."""
        reserved = reserved_for(volume, claim)
        volume = reserved if reserved is volume else await self.update_volume(reserved)
        volume = await self.set_volume_phase(volume, "Bound")
        metadata, spec = claim["metadata"], claim["spec"]
        annotations, name = annotations_of(claim), volume["metadata"]["name"]
        added: dict[str, str] = {}
        if spec.get("volumeName") != name:
            spec = {**spec, "volumeName": name}
            added[BOUND_BY_CONTROLLER] = "yes"
        if BIND_COMPLETED not in annotations:
            added[BIND_COMPLETED] = "yes"
        if added:
            metadata = {**metadata, "annotations": {**added, **annotations, **added}}
            claim = await self.update_claim({**claim, "metadata": metadata, "spec": spec})
        await self.set_claim_phase(claim, "Bound", volume)

    async def unbind(self, volume: Tree) -> None:
        """Free a volume from its claim, except for the name of the claim if a user reserved it for that name."""
        metadata, spec = volume["metadata"], volume["spec"]
        annotations = annotations_of(volume)
        if BOUND_BY_CONTROLLER in annotations:
            rest = {name: value for name, value in annotations.items() if name != BOUND_BY_CONTROLLER}
            metadata = {**metadata, "annotations": rest}
            spec = {name: value for name, value in spec.items() if name != "claimRef"}
        else:
            kept = {name: value for name, value in spec["claimRef"].items() if name != "uid"}
            spec = {**spec, "claimRef": kept}
        volume = await self.update_volume({**volume, "metadata": metadata, "spec": spec})
        await self.set_volume_phase(volume, "Available")

    async def set_volume_phase(self, volume: Tree, phase: str, message: str = "") -> Tree:
        """Set the phase of a volume; return the volume."""
        status = volume.get("status") or {}
        if status.get("phase") == phase:
            return volume
        status = {name: value for name, value in status.items() if name != "message"} | {"phase": phase}
        if message:
            status["message"] = message
        written = await self._client.update(VOLUMES, {**volume, "status": status}, subresource="status")
        self._volumes.record_write(written)
        return written

    async def set_claim_phase(self, claim: Tree, phase: str, volume: Tree | None = None) -> Tree:
        """Set the phase of a claim, and the fields of its status that are those of its volume; return the claim."""
        before: Tree = claim.get("status") or {}
        status = {name: value for name, value in before.items() if name not in _OF_VOLUME} | {"phase": phase}
        if volume is not None:
            spec = volume["spec"]
            status["accessModes"] = spec.get("accessModes") or []
            capacity = before.get("capacity") or {}
            if before.get("phase") != phase:
                capacity = {"storage": str(size_of(volume))}
            status["capacity"] = capacity
            attributes = before.get("currentVolumeAttributesClassName")
            if before.get("phase") == "Pending" and phase == "Bound":
                attributes = spec.get("volumeAttributesClassName")
            if attributes:
                status["currentVolumeAttributesClassName"] = attributes
        if status == before:
            return claim
        written = await self._client.update(VOLUME_CLAIMS, {**claim, "status": status}, subresource="status")
        self._claims.record_write(written)
        return written

    async def update_volume(self, volume: Tree) -> Tree:
        """Write a volume; return it as written."""
        written = await self._client.update(VOLUMES, volume)
        self._volumes.record_write(written)
        return written

    async def update_claim(self, claim: Tree) -> Tree:
        """Write a claim; return it as written."""
        written = await self._client.update(VOLUME_CLAIMS, claim)
        self._claims.record_write(written)
        return written
