"""The catalogue in the words of other autoscalers: what they need to know of types that have no node yet."""

from allotment.fleet.catalog.export.cluster_autoscaler import template_objects
from allotment.fleet.catalog.export.karpenter import NODE_CLASSES, NodeClass, karpenter_exclusion, karpenter_objects
from allotment.fleet.catalog.export.kwok import kwok_objects

__all__ = ["NODE_CLASSES", "NodeClass", "karpenter_objects", "kwok_objects", "template_objects", "why_not_karpenter"]
