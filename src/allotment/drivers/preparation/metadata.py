"""Device metadata for programs: a file of attributes for each request of a claim (KEP-5304).

The path of a file in the container follows from the pod's name for the claim, the request and the driver. It contains
the published attributes of the devices and those that are known only after preparation: one JSON object for each
version of the API, newest first, of which a program reads the first that it knows. On the host the file is in the
driver's folder; a separate CDI file mounts it.
"""

from __future__ import annotations

import json
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
from allotment.drivers.device_values import attributes_of
from allotment.drivers.driver import AllocatedClaim, PreparedClaim
from allotment.drivers.preparation.checkpoint import CheckpointDevice
from allotment.files import atomic_write
from allotment.files.atomic_write import PUBLIC, Sync
from allotment.model.features import Features
from allotment.model.releases import release_table
from allotment.model.resource import Device as PublishedDevice
from allotment.model.trees import Tree

_CONTAINER_FOLDER: Final = "/var/run/kubernetes.io/dra-device-attributes"
_FOLDER: Final = "dra-device-metadata"
_GROUP: Final = "metadata.resource.k8s.io"
OLDEST_METADATA: Final = "v1alpha1"
#: The version that upstream's kubeletplugin helper writes for all files.
_CDI_VERSION: Final = "0.5.0"


def metadata_versions(features: Features) -> tuple[str, ...]:
    """The versions of the metadata of a release's drivers, newest first; v1alpha1 before 1.36, which had none.

    >>> metadata_versions(Features("1.37"))
    ('v1beta1', 'v1alpha1')
    """
    return release_table(features.kube).plugins[_GROUP] or (OLDEST_METADATA,)


def metadata_documents(
    driver: str, claim: AllocatedClaim, pod_claim: str, prepared: PreparedClaim,
    published: Mapping[tuple[str, str], PublishedDevice],
) -> dict[str, Tree]:  # fmt: skip
    """Return the metadata of a claim's devices by request, in v1alpha1; all versions have the same fields.

    ``pod_claim``: the pod's name for a claim from a template. ``published``: devices by pool and name.
    """
    documents: dict[str, Tree] = {}
    for allocated in claim.devices:
        request = allocated.request.partition("/")[0]
        if request not in documents:
            documents[request] = {
                "apiVersion": f"{_GROUP}/{OLDEST_METADATA}",
                "kind": "DeviceMetadata",
                "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": 1},
                **({"podClaimName": pod_claim} if pod_claim else {}),
                "requests": [{"name": allocated.request, "devices": []}],
            }
        device, ready = published.get((allocated.pool, allocated.device)), prepared.devices.get(allocated.key)
        attributes = dict(device.attributes) if device is not None else {}
        if ready is not None:
            attributes |= attributes_of(allocated.device, ready.attributes)
        documents[request]["requests"][0]["devices"].append(
            {
                "driver": driver,
                "pool": allocated.pool,
                "name": allocated.device,
                **({"attributes": msgspec.to_builtins(attributes)} if attributes else {}),
            }
        )
    return documents


class MetadataFiles:
    """The metadata files of one driver in its ``folder``, in these ``versions``. The methods block on disk I/O."""

    def __init__(self, driver: str, store: SpecStore, folder: Path, versions: Sequence[str]) -> None:
        self._driver = driver
        self._store = store
        self._kind = f"{driver}/metadata"
        self._prefix = f"{driver}_metadata_"
        self._root = folder / _FOLDER
        self._versions = versions

    def with_cdi_ids(self, uid: str, devices: Sequence[CheckpointDevice]) -> tuple[CheckpointDevice, ...]:
        """Return the devices with the IDs of the metadata files; the first device of a request gets them."""
        assigned: set[str] = set()
        result = []
        for device in devices:
            ids = [
                qualified_name(self._kind, f"{uid}_{request}") for request in device.requests if request not in assigned
            ]
            assigned.update(device.requests)
            result.append(replace(device, cdi_ids=(*device.cdi_ids, *ids)))
        return tuple(result)

    def write(self, uid: str, documents: Mapping[str, Tree]) -> None:
        """Write the files of a claim, each before the CDI file that mounts it. Raises OSError, InvalidSpec."""
        for request, document in documents.items():
            path = self._path(document, request)
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write.replace(path, self._content(document), mode=PUBLIC, sync=Sync.NONE, single_writer=True)
            self._store.write(f"{self._prefix}{uid}_{request}", self._spec(uid, request, document))

    def _content(self, document: Tree) -> bytes:
        versions = ({**document, "apiVersion": f"{_GROUP}/{version}"} for version in self._versions)
        return b"".join(msgspec.json.format(msgspec.json.encode(each), indent=2) + b"\n" for each in versions)

    def restore(self, uid: str, documents: Mapping[str, Tree]) -> None:
        """Rewrite missing files. Raises OSError, InvalidSpec."""
        present = self._store.names() if documents else frozenset()
        self.write(
            uid,
            {
                request: document
                for request, document in documents.items()
                if f"{self._prefix}{uid}_{request}" not in present or not self._path(document, request).exists()
            },
        )

    def remove(self, uid: str) -> None:
        """Delete the files of a claim, if any. Raises OSError."""
        for name in self._store.names():
            if name.startswith(f"{self._prefix}{uid}_") and not name.endswith(".yaml"):
                self._store.remove(name)
        for folder, owner in self._folders():
            if owner == uid:
                shutil.rmtree(folder, ignore_errors=True)

    def remove_others(self, uids: Collection[str]) -> None:
        """Delete all files except those of these claims. Raises OSError."""
        for name in self._store.names():
            uid = name.removeprefix(self._prefix).rpartition("_")[0]
            if name.startswith(self._prefix) and uid not in uids and not name.endswith(".yaml"):
                self._store.remove(name)
        for folder, owner in self._folders():
            if owner not in uids:
                shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> Iterator[tuple[Path, str]]:
        """Yield the folders with their claims' UIDs; a later claim can have the same name."""
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
            first, _ = json.JSONDecoder().raw_decode(file.read_text("utf-8"))
            return str(first["metadata"]["uid"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return ""
