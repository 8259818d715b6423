"""Export to Karpenter: a NodePool of the chosen types, and NodeOverlays with their prices.

Karpenter knows its cloud's list prices; an overlay (alpha, feature gate NodeOverlay) replaces the list price,
so that Karpenter uses negotiated prices. An overlay cannot contain slices, so Karpenter learns a node's devices only
from other sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from allotment.fleet.catalog.export.naming import object_name
from allotment.fleet.catalog.instance_type import CapacityType, InstanceType
from allotment.fleet.catalog.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from allotment.model.trees import Tree


class NodeClass(NamedTuple):
    """Reference to the cloud-specific node class object, which must exist."""

    group: str
    kind: str
    name: str = "default"


#: Node class kinds by cloud with a Karpenter provider.
NODE_CLASSES: Final[Mapping[str, NodeClass]] = {
    "aws": NodeClass("karpenter.k8s.aws", "EC2NodeClass"),
    "azure": NodeClass("karpenter.azure.com", "AKSNodeClass"),
    "gcp": NodeClass("karpenter.k8s.gcp", "GCENodeClass"),
}


def karpenter_exclusion(instance: InstanceType, node_class: NodeClass | None = None) -> str:
    """Return why a type cannot be exported to Karpenter; empty if it can."""
    if node_class is None and instance.provider not in NODE_CLASSES:
        return f"no Karpenter node class is known for {instance.provider}; set --node-class"
    if "+" in instance.name:
        return "it is a host with attached GPUs, which the provider does not offer as an instance type"
    return instance.unusable


def karpenter_objects(
    types: Iterable[InstanceType],
    capacities: Sequence[CapacityType] = ("on-demand", "spot"),
    node_class: NodeClass | None = None,
) -> tuple[Tree, ...]:
    """A NodePool for each provider and one overlay for each price; types with a `karpenter_exclusion` are omitted."""
    chosen = [instance for instance in types if not karpenter_exclusion(instance, node_class)]
    chosen.sort(key=lambda instance: instance.provider)  # stable
    objects: list[Tree] = []
    for provider, group in groupby(chosen, key=lambda instance: instance.provider):
        listed = list(group)
        sold = [capacity for capacity in capacities if any(instance.price(capacity) is not None for instance in listed)]
        if sold:
            objects.append(_pool(provider, listed, sold, node_class or NODE_CLASSES[provider]))
            objects += [
                _overlay(instance, capacity) for instance in listed for capacity in sold if instance.price(capacity)
            ]
    return tuple(objects)


def _requirement(key: str, values: Iterable[str]) -> Tree:
    return {"key": key, "operator": "In", "values": list(dict.fromkeys(values))}


def _pool(provider: str, types: Sequence[InstanceType], sold: Sequence[CapacityType], node_class: NodeClass) -> Tree:
    requirements = [
        _requirement(INSTANCE_TYPE, (instance.name for instance in types)),
        _requirement(CAPACITY_TYPE, sold),
        _requirement(ARCH, (instance.arch for instance in types)),
        _requirement("kubernetes.io/os", ("linux",)),
    ]
    zones = [zone for instance in types for zone in instance.zones if zone != instance.region]
    if zones:
        requirements.append(_requirement(ZONE, zones))
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": object_name("catalog", provider)},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": node_class.group, "kind": node_class.kind, "name": node_class.name},
                    "requirements": requirements,
                    "expireAfter": "720h",
                }
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "5m",
                "budgets": [{"nodes": "10%"}],
            },
        },
    }


def _overlay(instance: InstanceType, capacity: CapacityType) -> Tree:
    price = instance.price(capacity)
    assert price is not None
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {
            "name": object_name("price", instance.key, capacity),
            "annotations": {
                "allotment.dev/price-as-of": instance.as_of, "allotment.dev/price-source": instance.price_source
            },
        },
        "spec": {
            "requirements": [_requirement(INSTANCE_TYPE, (instance.name,)), _requirement(CAPACITY_TYPE, (capacity,))],
            "price": format(price, "f"),
            "weight": 1,
        },
    }  # fmt: skip
