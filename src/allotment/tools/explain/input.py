"""The objects of an explanation, sorted: what there is, what is asked, what the API server would refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from allotment.cel.admission import validation_context
from allotment.model.core import Namespace, Node, Pod
from allotment.model.features import Features
from allotment.model.meta import ObjectKey, Value
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.validation import FieldError, create

#: Stands for the time at which defaults are set; no reason depends on it.
_NOW = "2000-01-01T00:00:00Z"


@dataclass(slots=True)
class Input:
    """Objects by key, each as the API server would have stored it. ``refused`` are those it would not have stored."""

    features: Features
    nodes: list[Node] = field(default_factory=list)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    slices: list[ResourceSlice] = field(default_factory=list)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    rules: list[DeviceTaintRule] = field(default_factory=list)
    claims: dict[ObjectKey, ResourceClaim] = field(default_factory=dict)
    templates: dict[ObjectKey, ResourceClaimTemplate] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    workloads: list[Value] = field(default_factory=list)
    refused: dict[tuple[str, ObjectKey], list[FieldError]] = field(default_factory=dict)


def key_of(value: Value) -> ObjectKey:
    """Namespace and name of an object."""
    metadata = value.metadata  # type: ignore[attr-defined]  # every kind has one
    return ObjectKey(metadata.namespace, metadata.name)


def sort(values: Iterable[Value], features: Features) -> Input:
    """Sort objects by kind; those of ``resource.k8s.io`` that no API server has seen are completed and validated."""
    found = Input(features)
    resources: list[Value] = []
    for value in values:
        if isinstance(value, Node):
            found.nodes.append(value)
        elif isinstance(value, Namespace):
            found.namespaces[value.metadata.name] = value
        elif isinstance(value, Pod):
            found.pods.append(value)
            found.workloads.append(value)
        elif isinstance(value, ResourceSlice | DeviceClass | DeviceTaintRule | ResourceClaim | ResourceClaimTemplate):
            resources.append(value)
        else:
            found.workloads.append(value)
    context = validation_context(features)
    for value in resources:
        key = key_of(value)
        if value.metadata.uid:  # type: ignore[attr-defined]  # an API server has accepted and completed it
            _keep(found, value, value)
            continue
        namespace = found.namespaces.get(key.namespace)
        labels = namespace.metadata.labels if namespace is not None else {}
        admitted = create(value, context, version="v1", now=_NOW, namespace_labels=labels)
        if admitted.errors:
            found.refused[type(value).__name__, key] = admitted.errors
        _keep(found, value, admitted.value)
    return found


def _keep(found: Input, given: Value, stored: Value) -> None:
    """File an object; a claim keeps the status that it came with, which a creation would have cut."""
    if isinstance(stored, ResourceSlice):
        found.slices.append(stored)
    elif isinstance(stored, DeviceClass):
        found.classes[stored.metadata.name] = stored
    elif isinstance(stored, DeviceTaintRule):
        found.rules.append(stored)
    elif isinstance(stored, ResourceClaim) and isinstance(given, ResourceClaim):
        found.claims[key_of(stored)] = replace(stored, status=given.status)
    elif isinstance(stored, ResourceClaimTemplate):
        found.templates[key_of(stored)] = stored
