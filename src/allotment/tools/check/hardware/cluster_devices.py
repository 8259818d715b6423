"""The devices of the given cluster, and those that a class or a request selects."""

from __future__ import annotations

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.explanation.matches import ClassMatches, matches
from allotment.explanation.node_eligibility import labels_by_node
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.resource import CELDeviceSelector, Device, DeviceClass, DeviceClassSpec, DeviceSelector
from allotment.tools.check.bundle import Bundle
from allotment.tools.views import RequestView


class ClusterDevices:
    """The devices of the cluster, allocated or not."""

    def __init__(self, bundle: Bundle) -> None:
        slices = bundle.slices or ()
        nodes = labels_by_node(bundle.nodes, slices)
        self._features: Features = bundle.features
        self._classes = bundle.known_classes
        self._inventory = Inventory.of(bundle.features, nodes=nodes.items(), slices=slices)
        self.by_id: dict[DeviceID, Device] = {
            DeviceID(resource_slice.spec.driver, resource_slice.spec.pool.name, device.name): device
            for resource_slice in slices
            for device in resource_slice.spec.devices or ()
        }

    def selected_by_class(self, device_class: DeviceClass) -> ClassMatches:
        """The devices that a class selects, by node."""
        return matches(device_class, self._inventory, self._features)

    def selected_by_request(self, request: RequestView) -> list[DeviceID] | None:
        """The devices that the class and selectors of a request select; None if they cannot be evaluated."""
        device_class = self._classes.get(request.class_name)
        if device_class is None:
            return None
        request_selectors = (
            DeviceSelector(cel=CELDeviceSelector(expression=selector.expression)) for selector in request.selectors
        )
        selectors = (*device_class.spec.selectors, *request_selectors)
        class_matches = self.selected_by_class(
            DeviceClass(metadata=ObjectMeta(name=request.class_name), spec=DeviceClassSpec(selectors=selectors))
        )
        if any(node.error for node in class_matches.nodes):
            return None
        return [
            DeviceID(match.driver, match.pool, match.device) for node in class_matches.nodes for match in node.matched
        ]


def cluster_devices(bundle: Bundle) -> ClusterDevices | None:
    """The devices of the cluster that a bundle is checked for; None without slices."""
    return bundle.cached(ClusterDevices) if bundle.slices else None
