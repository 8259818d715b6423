"""Export of the catalog to other autoscalers: templates of nodes, prices and slices of types without a node."""

from allotment.fleet.catalog.export.cluster_autoscaler import template_objects
from allotment.fleet.catalog.export.karpenter import NODE_CLASSES, NodeClass, karpenter_exclusion, karpenter_objects
from allotment.fleet.catalog.export.kwok import kwok_objects

__all__ = ["NODE_CLASSES", "NodeClass", "karpenter_objects", "kwok_objects", "template_objects", "karpenter_exclusion"]
