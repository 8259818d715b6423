"""Where pods can go by their volumes: one that is in some zone brings its pods there, so machines are bought there.

A volume that is still to be made follows its pod, within the topologies that its StorageClass allows. What the
scheduler would wait for (a claim that is missing, or that is bound at once and is not yet) keeps a pod from any plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.model.core import Affinity, NodeAffinity, Pod, PodSpec
from allotment.model.meta import ObjectKey
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageClass
from allotment.model.workload_pods import pods_of
from allotment.model.workloads import StatefulSet
from allotment.tools.explain.input import Input

_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_LATE: Final = "WaitForFirstConsumer"
#: Labels of volumes that their nodes must have, too (the filter VolumeZone); between two underscores, any of several.
_ZONES: Final = (
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)  # fmt: skip
_BETA: Final = "failure-domain.beta.kubernetes.io/"


class Reach(NamedTuple):
    """``nodes``: each must admit the node. ``missing``: what is not there, in words; then the pod can go nowhere."""

    nodes: tuple[NodeSelector, ...] = ()
    missing: str = ""


class Volumes:
    """The volumes of a cluster and of the pods that are to come."""

    def __init__(self, given: Input) -> None:
        self._volumes = given.volumes
        self._classes = given.storage_classes
        self._claims = {one.key: one for one in _of_sets(given)} | given.volume_claims
        self._narrowed: dict[tuple[int, tuple[NodeSelector, ...]], tuple[PodSpec, PodSpec]] = {}

    def reach(self, pod: Pod) -> Reach:
        """From where all volumes of a pod can be used."""
        found: list[NodeSelector] = []
        namespace, name = pod.metadata.namespace, pod.metadata.name
        for volume in pod.spec.volumes:
            made: PersistentVolumeClaim | None = None
            if volume.persistent_volume_claim is not None:
                key = ObjectKey(namespace, volume.persistent_volume_claim.claim_name)
            elif volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
                key = ObjectKey(namespace, f"{name}-{volume.name}")
                made = PersistentVolumeClaim(spec=volume.ephemeral.volume_claim_template.spec)
            else:
                continue
            claim = self._claims.get(key, made)
            if claim is None:
                return Reach(missing=f"PersistentVolumeClaim {key} does not exist")
            if claim.metadata.deletion_timestamp is not None:
                return Reach(missing=f"PersistentVolumeClaim {key} is being deleted")
            if not claim.spec.volume_name:
                told = self._unbound(claim)
                if told.missing:
                    return Reach(missing=f"PersistentVolumeClaim {key} {told.missing}")
                found += told.nodes
            elif (bound := self._volumes.get(claim.spec.volume_name)) is not None:
                found += _of_volume(bound)
        return Reach(tuple(dict.fromkeys(found)))

    def narrowed(self, pod: Pod, nodes: tuple[NodeSelector, ...]) -> Pod:
        """The pod with the reach of its volumes among what it asks of a node; one object for all equal ones."""
        if not nodes:
            return pod
        key = (id(pod.spec), nodes)
        if key not in self._narrowed:
            self._narrowed[key] = (pod.spec, _within(pod.spec, nodes))
        return replace(pod, spec=self._narrowed[key][1])

    def _unbound(self, claim: PersistentVolumeClaim) -> Reach:
        """Where a volume can be made for a claim."""
        class_ = self._class_of(claim.spec)
        if class_ is None:
            if claim.spec.storage_class_name == "" and claim.metadata.uid:
                return Reach(missing="is not bound to a volume, and names no StorageClass that would make one")
            return Reach()  # of which nobody has said anything
        if class_.volume_binding_mode != _LATE and claim.metadata.uid:
            return Reach(missing=f"is not bound yet, and StorageClass {class_.metadata.name} binds at once")
        terms = tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(key=one.key, operator="In", values=one.values)
                    for one in term.match_label_expressions
                )
            )
            for term in class_.allowed_topologies
        )
        return Reach((NodeSelector(node_selector_terms=terms),) if terms else ())

    def _class_of(self, spec: PersistentVolumeClaimSpec) -> StorageClass | None:
        if spec.storage_class_name is not None:
            return self._classes.get(spec.storage_class_name)
        usual = [one for one in self._classes.values() if one.metadata.annotations.get(_DEFAULT) == "true"]
        return max(usual, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name), default=None)


def _of_sets(given: Input) -> Iterable[PersistentVolumeClaim]:
    """The claims that a StatefulSet's controller will make before its pods."""
    for value in given.workloads:
        if isinstance(value, StatefulSet) and value.spec.volume_claim_templates:
            for pod in pods_of(value):
                for template in value.spec.volume_claim_templates:
                    name = f"{template.metadata.name}-{pod.metadata.name}"
                    metadata = replace(template.metadata, name=name, namespace=value.metadata.namespace)
                    yield replace(template, metadata=metadata)


def _of_volume(volume: PersistentVolume) -> Iterable[NodeSelector]:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        yield affinity.required
    for label in _ZONES:
        if value := volume.metadata.labels.get(label):
            key = f"topology.kubernetes.io/{label.removeprefix(_BETA)}" if label.startswith(_BETA) else label
            one = NodeSelectorRequirement(key=key, operator="In", values=tuple(value.split("__")))
            yield NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(one,)),))


def _within(spec: PodSpec, nodes: Iterable[NodeSelector]) -> PodSpec:
    affinity = spec.affinity or Affinity()
    of_nodes = affinity.node_affinity or NodeAffinity()
    asked = of_nodes.required_during_scheduling_ignored_during_execution
    for selector in nodes:
        asked = selector if asked is None else _both(asked, selector)
    of_nodes = replace(of_nodes, required_during_scheduling_ignored_during_execution=asked)
    return replace(spec, affinity=replace(affinity, node_affinity=of_nodes))


def _both(one: NodeSelector, other: NodeSelector) -> NodeSelector:
    """What both admit: terms are alternatives, so each of one with each of the other."""
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=(*a.match_expressions, *b.match_expressions),
                match_fields=(*a.match_fields, *b.match_fields),
            )
            for a, b in product(one.node_selector_terms, other.node_selector_terms)
        )
    )
