"""The nodes on which pods can use their volumes: a volume in a zone requires machines in that zone.

A volume that is not provisioned yet follows its pod, within the allowed topologies of its StorageClass. A missing
claim, or an unbound one with immediate binding, excludes the pod from the plan, as the scheduler waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.explanation.input import ExplainInput
from allotment.model.core import Affinity, NodeAffinity, Pod, PodSpec
from allotment.model.meta import ObjectKey
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageClass
from allotment.model.workload_pods import pods_of
from allotment.model.workloads import StatefulSet

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
#: Labels of volumes that their nodes must have too (filter VolumeZone); ``__`` separates alternative values.
_ZONES: Final = (
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)  # fmt: skip
_BETA: Final = "failure-domain.beta.kubernetes.io/"


class VolumeTopology(NamedTuple):
    """``nodes``: selectors that all must match the node. ``problem``: the reason why no node can be used, as text."""

    nodes: tuple[NodeSelector, ...] = ()
    problem: str = ""


class VolumeTopologies:
    """The topologies of the volumes in a cluster, including those of future StatefulSet pods."""

    def __init__(self, objects: ExplainInput) -> None:
        self._volumes = objects.volumes
        self._classes = objects.storage_classes
        self._claims = {claim.key: claim for claim in _stateful_set_claims(objects)} | objects.volume_claims
        self._specs: dict[tuple[int, tuple[NodeSelector, ...]], tuple[PodSpec, PodSpec]] = {}

    def of_pod(self, pod: Pod) -> VolumeTopology:
        """The topology of all volumes of a pod."""
        selectors: list[NodeSelector] = []
        namespace, name = pod.metadata.namespace, pod.metadata.name
        for volume in pod.spec.volumes:
            ephemeral_claim: PersistentVolumeClaim | None = None
            if volume.persistent_volume_claim is not None:
                key = ObjectKey(namespace, volume.persistent_volume_claim.claim_name)
            elif volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
                key = ObjectKey(namespace, f"{name}-{volume.name}")
                ephemeral_claim = PersistentVolumeClaim(spec=volume.ephemeral.volume_claim_template.spec)
            else:
                continue
            claim = self._claims.get(key, ephemeral_claim)
            if claim is None:
                return VolumeTopology(problem=f"PersistentVolumeClaim {key} does not exist")
            if claim.metadata.deletion_timestamp is not None:
                return VolumeTopology(problem=f"PersistentVolumeClaim {key} is being deleted")
            if not claim.spec.volume_name:
                topology = self._unbound_topology(claim)
                if topology.problem:
                    return VolumeTopology(problem=f"PersistentVolumeClaim {key} {topology.problem}")
                selectors += topology.nodes
            elif (bound := self._volumes.get(claim.spec.volume_name)) is not None:
                selectors += _volume_node_selectors(bound)
        return VolumeTopology(tuple(dict.fromkeys(selectors)))

    def with_volume_affinity(self, pod: Pod, nodes: tuple[NodeSelector, ...]) -> Pod:
        """The pod with the topology of its volumes added to its node affinity; equal pods share one spec."""
        if not nodes:
            return pod
        key = (id(pod.spec), nodes)
        if key not in self._specs:
            self._specs[key] = (pod.spec, _with_node_affinity(pod.spec, nodes))
        return replace(pod, spec=self._specs[key][1])

    def _unbound_topology(self, claim: PersistentVolumeClaim) -> VolumeTopology:
        """The topology in which a volume can be provisioned for a claim."""
        class_ = self._class_of(claim.spec)
        if class_ is None:
            if claim.spec.storage_class_name == "" and claim.metadata.uid:
                return VolumeTopology(problem="is not bound to a volume and has no StorageClass to provision one")
            return VolumeTopology()  # the StorageClass is not among the objects
        if class_.volume_binding_mode != _WAIT_FOR_FIRST_CONSUMER and claim.metadata.uid:
            name = class_.metadata.name
            return VolumeTopology(
                problem=f"is not bound yet, although StorageClass {name} has volumeBindingMode Immediate"
            )
        terms = tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(key=requirement.key, operator="In", values=requirement.values)
                    for requirement in term.match_label_expressions
                )
            )
            for term in class_.allowed_topologies
        )
        return VolumeTopology((NodeSelector(node_selector_terms=terms),) if terms else ())

    def _class_of(self, spec: PersistentVolumeClaimSpec) -> StorageClass | None:
        if spec.storage_class_name is not None:
            return self._classes.get(spec.storage_class_name)
        defaults = [c for c in self._classes.values() if c.metadata.annotations.get(_DEFAULT_CLASS) == "true"]
        return max(defaults, key=lambda c: (c.metadata.creation_timestamp or "", c.metadata.name), default=None)


def _stateful_set_claims(objects: ExplainInput) -> Iterable[PersistentVolumeClaim]:
    """The claims that a StatefulSet's controller creates before its pods."""
    for value in objects.workloads:
        if isinstance(value, StatefulSet) and value.spec.volume_claim_templates:
            for pod in pods_of(value):
                for template in value.spec.volume_claim_templates:
                    name = f"{template.metadata.name}-{pod.metadata.name}"
                    metadata = replace(template.metadata, name=name, namespace=value.metadata.namespace)
                    yield replace(template, metadata=metadata)


def _volume_node_selectors(volume: PersistentVolume) -> Iterable[NodeSelector]:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        yield affinity.required
    for label in _ZONES:
        if value := volume.metadata.labels.get(label):
            key = f"topology.kubernetes.io/{label.removeprefix(_BETA)}" if label.startswith(_BETA) else label
            requirement = NodeSelectorRequirement(key=key, operator="In", values=tuple(value.split("__")))
            yield NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))


def _with_node_affinity(spec: PodSpec, nodes: Iterable[NodeSelector]) -> PodSpec:
    affinity = spec.affinity or Affinity()
    node_affinity = affinity.node_affinity or NodeAffinity()
    required = node_affinity.required_during_scheduling_ignored_during_execution
    for selector in nodes:
        required = selector if required is None else _both(required, selector)
    node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=required)
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity))


def _both(selector: NodeSelector, other: NodeSelector) -> NodeSelector:
    """A selector that matches the nodes that both match: terms are alternatives, so each is combined with each."""
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=(*a.match_expressions, *b.match_expressions),
                match_fields=(*a.match_fields, *b.match_fields),
            )
            for a, b in product(selector.node_selector_terms, other.node_selector_terms)
        )
    )
