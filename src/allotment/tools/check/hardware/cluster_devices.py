"""The devices of the given cluster, and which of them a request's class and selectors leave."""

from __future__ import annotations

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.resource import CELDeviceSelector, Device, DeviceClass, DeviceClassSpec, DeviceSelector
from allotment.tools.check.bundle import Bundle
from allotment.tools.explain.node_eligibility import labels_by_node
from allotment.tools.matches import ClassMatches, matches
from allotment.tools.views import RequestView


class Devices:
    """The devices that nodes of the cluster could be given, free or not."""

    def __init__(self, bundle: Bundle) -> None:
        slices = bundle.slices or ()
        nodes = labels_by_node(bundle.nodes, slices)
        self._features: Features = bundle.features
        self._classes = bundle.known_classes
        self._inventory = Inventory.of(bundle.features, nodes=nodes.items(), slices=slices)
        self.by_id: dict[DeviceID, Device] = {
            DeviceID(one.spec.driver, one.spec.pool.name, device.name): device
            for one in slices
            for device in one.spec.devices or ()
        }

    def of_class(self, device_class: DeviceClass) -> ClassMatches:
        """What a class selects, node by node."""
        return matches(device_class, self._inventory, self._features)

    def of_request(self, request: RequestView) -> list[DeviceID] | None:
        """What class and selectors of a request leave; None where that cannot be told."""
        device_class = self._classes.get(request.class_name)
        if device_class is None:
            return None
        own = (DeviceSelector(cel=CELDeviceSelector(expression=selector.expression)) for selector in request.selectors)
        selectors = (*device_class.spec.selectors, *own)
        found = self.of_class(
            DeviceClass(metadata=ObjectMeta(name=request.class_name), spec=DeviceClassSpec(selectors=selectors))
        )
        if any(node.error for node in found.nodes):
            return None
        return [DeviceID(one.driver, one.pool, one.device) for node in found.nodes for one in node.matched]


def devices_of(bundle: Bundle) -> Devices | None:
    """The devices of the cluster that a bundle is checked for; None where none was given."""
    return bundle.kept(Devices) if bundle.slices else None
