"""Volumes as far as they decide where pods can go: which nodes reach them, and where new ones may be made."""

from __future__ import annotations

from allotment.model.meta import Object, Value
from allotment.model.node_selectors import NodeSelector


class VolumeNodeAffinity(Value, frozen=True):
    """Which nodes reach a volume; all of them if nothing is required."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Value, frozen=True):
    """Of a volume that is there."""

    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Object, frozen=True):
    """A volume of the cluster."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class PersistentVolumeClaimSpec(Value, frozen=True):
    """``volume_name``: what it is bound to. ``storage_class_name``: None is the default class, empty is none."""

    volume_name: str = ""
    storage_class_name: str | None = None


class PersistentVolumeClaim(Object, frozen=True):
    """A wish for a volume."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class TopologyLabelRequirement(Value, frozen=True):
    """A label of nodes, and the values that it may have."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Value, frozen=True):
    """All of it must hold."""

    match_label_expressions: tuple[TopologyLabelRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """How volumes are made: ``Immediate``, or when their first pod has a node (``WaitForFirstConsumer``)."""

    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class PersistentVolumeClaimTemplate(Value, frozen=True):
    """Of a volume that lives as long as its pod."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class ClaimVolumeSource(Value, frozen=True):
    """A volume claim by name."""

    claim_name: str = ""


class EphemeralVolumeSource(Value, frozen=True):
    """A claim that is made for the pod alone."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class PodVolume(Value, frozen=True):
    """A volume of a pod, if it is one that a claim stands for."""

    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
