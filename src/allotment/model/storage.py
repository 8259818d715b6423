"""Volumes and storage classes, as far as they restrict the nodes of pods."""

from __future__ import annotations

from allotment.model.meta import Object, Value
from allotment.model.node_selectors import NodeSelector


class VolumeNodeAffinity(Value, frozen=True):
    """The nodes that can access a volume; all of them if ``required`` is unset."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Value, frozen=True):
    """The node affinity of an existing volume."""

    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Object, frozen=True):
    """A volume of the cluster."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class PersistentVolumeClaimSpec(Value, frozen=True):
    """``volume_name``: the bound volume. ``storage_class_name``: None is the default class, empty is no class."""

    volume_name: str = ""
    storage_class_name: str | None = None


class PersistentVolumeClaim(Object, frozen=True):
    """A request for a volume."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class TopologyLabelRequirement(Value, frozen=True):
    """A node label and its allowed values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Value, frozen=True):
    """All requirements must match."""

    match_label_expressions: tuple[TopologyLabelRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """A class of volumes, provisioned immediately or when their first pod is scheduled (``WaitForFirstConsumer``)."""

    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class PersistentVolumeClaimTemplate(Value, frozen=True):
    """The template of an ephemeral volume's claim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class ClaimVolumeSource(Value, frozen=True):
    """A reference to a PersistentVolumeClaim."""

    claim_name: str = ""


class EphemeralVolumeSource(Value, frozen=True):
    """A volume whose claim is created for one pod and deleted with it."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class PodVolume(Value, frozen=True):
    """A volume of a pod; only volumes with a PersistentVolumeClaim have one of the fields set."""

    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
