"""The input of a claim: manifests, the release, and the devices of a cluster or of all known hardware."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from allotment.api.cluster import Cluster
from allotment.api.load import Source
from allotment.api.manifest_files import ManifestFiles, read_manifest_files
from allotment.api.objects.unread_resources import OF_DEVICES, must_know
from allotment.cluster.inspection.snapshot import DEVICES, PODS
from allotment.errors import InvalidManifests
from allotment.fleet.device_classes import CLASSES
from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import Document
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceSlice
from allotment.tools.claims.supply import DIALECTS, Supply, known_supply, supply_of

#: The driver of each vendor's classes, if the given hardware is only ResourceSlices.
_VENDORS: Final = {dialect.driver: vendor for vendor, dialect in DIALECTS.items()}


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """``files``: the manifests of the workload. ``supply``: the devices of ``cluster``, or of all known hardware.

    ``notes``: what the user should know about reading the cluster.
    """

    files: ManifestFiles
    features: Features
    cluster: tuple[Object, ...]
    supply: Supply
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, objects: Source | None, cluster: Cluster) -> ClaimContext:
        """Read manifests and a cluster. Slices, classes and nodes among the manifests describe the hardware, too."""
        files = read_manifest_files([objects]) if objects is not None else ManifestFiles()
        files.require_syntax()
        return cls.of_files(files, cluster)

    @classmethod
    def of_files(cls, files: ManifestFiles, cluster: Cluster) -> ClaimContext:
        """Read a cluster for manifests that were read."""
        inputs = cluster.read((*DEVICES, *PODS))
        must_know(inputs.cluster, *OF_DEVICES)
        values = (*inputs.cluster, *_of_hardware(files.documents, inputs.features))
        slices = [value for value in values if isinstance(value, ResourceSlice)]
        if not slices and not cluster.source.has_objects:
            return cls(files, inputs.features, (), known_supply())
        classes = [value for value in values if isinstance(value, DeviceClass)]
        if not classes:  # slices alone: the driver's chart, which made them, has installed its classes
            vendors = dict.fromkeys(_VENDORS[s.spec.driver] for s in slices if s.spec.driver in _VENDORS)
            classes = [found for vendor in vendors for found in CLASSES[vendor]]
            values = (*values, *classes)
        return cls(files, inputs.features, values, supply_of(slices, classes), inputs.notes)


def _of_hardware(documents: Iterable[Document], known: Features) -> tuple[Object, ...]:
    """Return the slices, classes and nodes among manifests."""
    of_hardware = [document for document in documents if document.kind in ("ResourceSlice", "DeviceClass", "Node")]
    decoded = decode_all(of_hardware, strict=False, release=known.kube)
    if decoded.problems:
        raise InvalidManifests(decoded.problems, lambda file: None)
    return tuple(manifest.value for manifest in decoded.manifests if isinstance(manifest.value, Object))
