"""What programs can read of their devices: a file of attributes for each request of a claim (KEP-5304).

A program knows the name by which its pod calls a claim, and the name of a request; where the file is follows from
these and the driver's name. It has what is published of the devices, and what is known of them only when they are
prepared. On the host it is in the driver's own folder; a CDI file of its own mounts it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from allotment.cdi.naming import qualified_name
from allotment.cdi.spec import CdiDevice, ContainerEdits, Mount, Spec
from allotment.cdi.store import SpecStore
from allotment.drivers.driver import AllocatedClaim, PreparedClaim
from allotment.drivers.preparation.checkpoint import CheckpointDevice
from allotment.files import atomic_write
from allotment.files.atomic_write import PUBLIC, Sync
from allotment.model.resource import Device as PublishedDevice
from allotment.model.trees import Tree

_CONTAINER_FOLDER: Final = "/var/run/kubernetes.io/dra-device-attributes"
_FOLDER: Final = "dra-device-metadata"
#: What the kubelet's own helper for drivers writes, whatever the fields need.
_CDI_VERSION: Final = "0.5.0"


def metadata_documents(
    driver: str, claim: AllocatedClaim, pod_claim: str, prepared: PreparedClaim,
    published: Mapping[tuple[str, str], PublishedDevice],
) -> dict[str, Tree]:  # fmt: skip
    """What is told of a claim's devices, by request. ``pod_claim``: what its pod calls a claim made of a template.

    ``published``: devices by pool and name.
    """
    found: dict[str, Tree] = {}
    for granted in claim.devices:
        base = granted.request.partition("/")[0]
        if base not in found:
            found[base] = {
                "apiVersion": "metadata.resource.k8s.io/v1alpha1",
                "kind": "DeviceMetadata",
                "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": 1},
                **({"podClaimName": pod_claim} if pod_claim else {}),
                "requests": [{"name": granted.request, "devices": []}],
            }
        device, ready = published.get((granted.pool, granted.device)), prepared.devices.get(granted.key)
        attributes = {**(device.attributes if device is not None else {}), **(ready.attributes if ready else {})}
        found[base]["requests"][0]["devices"].append(
            {
                "driver": driver,
                "pool": granted.pool,
                "name": granted.device,
                **({"attributes": msgspec.to_builtins(attributes)} if attributes else {}),
            }
        )
    return found


class MetadataFiles:
    """The files of one driver, of which ``folder`` is the own one. Its methods take the disk's time."""

    def __init__(self, driver: str, store: SpecStore, folder: Path) -> None:
        self._driver = driver
        self._store = store
        self._kind = f"{driver}/metadata"
        self._prefix = f"{driver}_metadata_"
        self._root = folder / _FOLDER

    def with_cdi_ids(self, uid: str, parts: Sequence[CheckpointDevice]) -> tuple[CheckpointDevice, ...]:
        """Parts with the ids of the files; the first part of a request has it."""
        told: set[str] = set()
        found = []
        for part in parts:
            ids = [qualified_name(self._kind, f"{uid}_{request}") for request in part.requests if request not in told]
            told.update(part.requests)
            found.append(replace(part, cdi_ids=(*part.cdi_ids, *ids)))
        return tuple(found)

    def write(self, uid: str, told: Mapping[str, Tree]) -> None:
        """Write a claim's files: first what is mounted, then what mounts it. Raises OSError, InvalidSpec."""
        for request, document in told.items():
            path = self._path(document, request)
            path.parent.mkdir(parents=True, exist_ok=True)
            content = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
            atomic_write.replace(path, content, mode=PUBLIC, sync=Sync.NONE, single_writer=True)
            self._store.write(f"{self._prefix}{uid}_{request}", self._spec(uid, request, document))

    def restore(self, uid: str, told: Mapping[str, Tree]) -> None:
        """Write again what is missing. Raises OSError, InvalidSpec."""
        there = self._store.names() if told else frozenset()
        self.write(
            uid,
            {
                request: document
                for request, document in told.items()
                if f"{self._prefix}{uid}_{request}" not in there or not self._path(document, request).exists()
            },
        )

    def remove(self, uid: str) -> None:
        """Remove a claim's files; none is no error. Raises OSError."""
        for name in self._store.names():
            if name.startswith(f"{self._prefix}{uid}_") and not name.endswith(".yaml"):
                self._store.remove(name)
        for folder, owner in self._folders():
            if owner == uid:
                shutil.rmtree(folder, ignore_errors=True)

    def remove_others(self, uids: Collection[str]) -> None:
        """Remove all files but those of these claims. Raises OSError."""
        for name in self._store.names():
            uid = name.removeprefix(self._prefix).rpartition("_")[0]
            if name.startswith(self._prefix) and uid not in uids and not name.endswith(".yaml"):
                self._store.remove(name)
        for folder, owner in self._folders():
            if owner not in uids:
                shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> Iterator[tuple[Path, str]]:
        """Every claim's folder and the uid of the claim; names alone would be those of later claims, too."""
        if self._root.is_dir():
            for entry in os.scandir(self._root):
                yield Path(entry.path), _claim_uid(Path(entry.path))

    def _path(self, document: Tree, request: str) -> Path:
        meta = document["metadata"]
        return self._root / f"{meta['namespace']}_{meta['name']}" / request / "metadata.json"

    def _spec(self, uid: str, request: str, document: Tree) -> Spec:
        pod_claim = document.get("podClaimName")
        claim = f"resourceclaimtemplates/{pod_claim}" if pod_claim else f"resourceclaims/{document['metadata']['name']}"
        mount = Mount(
            host_path=str(self._path(document, request)),
            container_path=f"{_CONTAINER_FOLDER}/{claim}/{request}/{self._driver}-metadata.json",
            options=("ro", "bind"),
        )
        device = CdiDevice(f"{uid}_{request}", ContainerEdits(mounts=(mount,)))
        return Spec(self._kind, (device,), cdi_version=_CDI_VERSION)


def _claim_uid(folder: Path) -> str:
    for file in folder.glob("*/metadata.json"):
        try:
            return str(msgspec.json.decode(file.read_bytes())["metadata"]["uid"])
        except (OSError, msgspec.DecodeError, KeyError, TypeError):
            continue
    return ""
