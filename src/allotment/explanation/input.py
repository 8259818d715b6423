"""The objects of an explanation by kind, with defaults applied, and those that the API server would reject."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from typing import Final

from msgspec.structs import replace

from allotment.cel.validation_context import validation_context
from allotment.engine.diagnosis.published_names import PublishedNames, published_names
from allotment.engine.diagnosis.reader import EVERYTHING, Reader
from allotment.engine.refusal import SuggestedChange
from allotment.explanation.fixes import apply_change
from allotment.explanation.node_eligibility import UNSCHEDULABLE
from allotment.explanation.orphaned_slices import split_orphaned
from allotment.explanation.subjects import ANY_POD, pod_spec_of
from allotment.model.core import Namespace, Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey, ObjectMeta
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from allotment.model.validation import FieldError, create
from allotment.model.validation.admission import AdmissionResult
from allotment.model.workloads import PodGroup

_RESOURCES: Final = (ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule, ResourceClaimTemplate)
#: The time for defaulting; no reason depends on it.
_NOW = "2000-01-01T00:00:00Z"


#: Returns who reads the answers about the pods and claims of a namespace.
Readers = Callable[[str], Reader]


def reads_everything(namespace: str) -> Reader:
    """The reader of all answers if all objects were given by the user who reads them."""
    return EVERYTHING


class AdmittedObjects:
    """The admitted objects of a cluster, for explanations that follow each other: unchanged ones are validated once.

    Objects are compared by identity, and kept, so that no other object can have their identity. Only objects without a
    namespace are kept, because the labels of a namespace affect the validation of the objects in it.
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        self._results: dict[int, tuple[Object, AdmissionResult]] = {}

    def admit(self, value: Object) -> AdmissionResult:
        """Default and validate an object, unless that was done before."""
        if id(value) not in self._results:
            result = create(value, validation_context(self.features), version="v1", now=_NOW)
            self._results[id(value)] = (value, result)
        return self._results[id(value)][1]


@dataclass(slots=True)
class ExplainInput:
    """Objects by key, as the API server would store them. ``refused`` are the errors of those that it would reject."""

    features: Features
    nodes: list[Node] = field(default_factory=list)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    slices: list[ResourceSlice] = field(default_factory=list)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    rules: list[DeviceTaintRule] = field(default_factory=list)
    claims: dict[ObjectKey, ResourceClaim] = field(default_factory=dict)
    templates: dict[ObjectKey, ResourceClaimTemplate] = field(default_factory=dict)
    groups: dict[ObjectKey, PodGroup] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    volume_claims: dict[ObjectKey, PersistentVolumeClaim] = field(default_factory=dict)
    storage_classes: dict[str, StorageClass] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    others: list[Pod] = field(default_factory=list)
    """Pods that are not explained."""
    workloads: list[Object] = field(default_factory=list)
    refused: dict[tuple[str, ObjectKey], list[FieldError]] = field(default_factory=dict)
    missing_nodes: tuple[str, ...] = ()
    """Nodes that slices name but that do not exist in the cluster; their devices cannot be allocated."""
    default_namespace: str = "default"
    """The namespace of new objects whose file names none."""
    readers: Readers = reads_everything
    named_in: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """See `namespaces_naming`; computed when it is first needed."""
    names: list[PublishedNames] = field(default_factory=list)
    """See `published`; computed when they are first needed."""

    def published(self) -> PublishedNames:
        """The names that the devices of the cluster have."""
        if not self.names:
            self.names.append(published_names(self.slices))
        return self.names[0]

    def namespaces_naming(self, kind: str, name: str) -> set[str]:
        """The namespaces of the pods and workloads that refer to a claim or template of this kind and name."""
        if not self.named_in:
            written = (v for v in self.workloads if not v.metadata.name.startswith(ANY_POD))
            for value in (*written, *self.others):
                for entry in pod_spec_of(value).resource_claims:
                    for reference in (
                        ("ResourceClaim", entry.resource_claim_name or ""),
                        ("ResourceClaimTemplate", entry.resource_claim_template_name or ""),
                    ):
                        self.named_in.setdefault(reference, set()).add(value.metadata.namespace)
        return self.named_in.get((kind, name), set())


def sort_objects(
    values: Iterable[Object],
    features: Features,
    others: Iterable[Pod] = (),
    default_namespace: str = "default",
    readers: Readers = reads_everything,
    admitted: AdmittedObjects | None = None,
) -> ExplainInput:
    """Sort objects by kind; default and validate those of ``resource.k8s.io`` that are not from an API server.

    ``others``: pods that are not explained. ``default_namespace``: that of new objects whose file names none.
    ``admitted``: the objects that an earlier explanation with the same features has validated.
    """
    found = ExplainInput(features, others=list(others), default_namespace=default_namespace, readers=readers)
    resources: list[Object] = []
    for value in values:
        if isinstance(value, _RESOURCES):
            resources.append(value)
        elif isinstance(value, Pod):
            found.pods.append(value)
            found.workloads.append(value)
        elif isinstance(value, Node):
            found.nodes.append(value)
        elif isinstance(value, Namespace):
            found.namespaces[value.metadata.name] = value
        elif isinstance(value, PodGroup):
            found.groups[value.key] = value
        elif isinstance(value, PersistentVolume):
            found.volumes[value.metadata.name] = value
        elif isinstance(value, PersistentVolumeClaim):
            found.volume_claims[value.key] = value
        elif isinstance(value, StorageClass):
            found.storage_classes[value.metadata.name] = value
        else:
            found.workloads.append(value)
    for value in resources:
        _admit(found, value, admitted)
    kept = split_orphaned(found.slices, found.nodes)
    found.slices, found.missing_nodes = list(kept.slices), kept.gone
    return found


def with_change(given: ExplainInput, change: SuggestedChange) -> ExplainInput | None:
    """The input with one of its objects changed; None if it does not contain the object.

    Labels of a namespace affect the validation of its claims and templates, so rejected ones are validated again.
    """
    kind, _, full = change.object.partition(" ")
    namespace, _, name = full.rpartition("/")
    key = ObjectKey(namespace, name)
    new = replace_fields(
        given,
        namespaces=dict(given.namespaces),
        classes=dict(given.classes),
        claims=dict(given.claims),
        templates=dict(given.templates),
        refused=dict(given.refused),
    )
    if kind == "PodGroup":
        if key not in given.groups:
            return None
        new.groups = {**given.groups, key: apply_change(given.groups[key], change.path, change.becomes)}
        return new
    if kind == "Node":
        new.nodes = [_changed_node(n, change) if n.metadata.name == name else n for n in given.nodes]
        return new
    if kind == "Namespace":
        old = new.namespaces.get(name) or Namespace(metadata=ObjectMeta(name=name))
        new.namespaces[name] = apply_change(old, change.path, change.becomes)
        to_validate: list[Object | None] = [
            (new.claims if k == "ResourceClaim" else new.templates).get(refused)
            for k, refused in given.refused
            if refused.namespace == name
        ]
    elif kind == "DeviceClass":
        to_validate = [new.classes.pop(name, None)]
    else:
        to_validate = [new.claims.pop(key, None) if kind == "ResourceClaim" else new.templates.pop(key, None)]
    for value in to_validate:
        if value is None:
            return None
        new.refused.pop((type(value).__name__, value.key), None)
        _admit(new, value if kind == "Namespace" else apply_change(value, change.path, change.becomes))
    return new


def _changed_node(node: Node, change: SuggestedChange) -> Node:
    """A node after a change; the taint of a cordoned one goes with ``spec.unschedulable``."""
    node = apply_change(node, change.path, change.becomes)
    if node.spec.unschedulable:
        return node
    taints = tuple(taint for taint in node.spec.taints if taint != UNSCHEDULABLE)
    return replace(node, spec=replace(node.spec, taints=taints))


def _admit(found: ExplainInput, value: Object, admitted: AdmittedObjects | None = None) -> None:
    """Default and validate an object that is not from an API server, and store it."""
    if value.metadata.uid:  # an API server has already validated and defaulted it
        _store(found, value, value)
        return
    key = value.key
    if admitted is not None and isinstance(value, ResourceSlice | DeviceClass | DeviceTaintRule):
        result = admitted.admit(value)
    else:
        namespace = found.namespaces.get(key.namespace)
        labels = namespace.metadata.labels if namespace is not None else {}
        result = create(value, validation_context(found.features), version="v1", now=_NOW, namespace_labels=labels)
    if result.errors:
        found.refused[type(value).__name__, key] = result.errors
    _store(found, value, result.value)


def _store(found: ExplainInput, given: Object, stored: Object) -> None:
    """Store an object; a claim keeps its given status, which a create request would drop."""
    if isinstance(stored, ResourceClaim) and isinstance(given, ResourceClaim):  # there are most of these
        found.claims[stored.key] = stored if stored is given else replace(stored, status=given.status)
    elif isinstance(stored, ResourceSlice):
        found.slices.append(stored)
    elif isinstance(stored, DeviceClass):
        found.classes[stored.metadata.name] = stored
    elif isinstance(stored, DeviceTaintRule):
        found.rules.append(stored)
    elif isinstance(stored, ResourceClaimTemplate):
        found.templates[stored.key] = stored
