"""A node as it is drawn: where its devices are, which most nodes have in common, and what distinguishes each of them.

Computed once for each report on a node, and kept for later views.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from allotment.fleet.catalog.labels import INSTANCE_TYPE, REGION, ZONE
from allotment.model.core import Node
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.screens.device_geometry import DeviceGeometry, geometry_of
from allotment.screens.holders import Holders
from allotment.tools.free import DeviceReport, NodeReport, RemainingAmount
from allotment.watched.view import ClusterView

#: The labels of nodes by which the map is grouped.
GROUPING: Final[Mapping[str, tuple[str, ...]]] = {
    "zone": (ZONE,),
    "region": (REGION,),
    "rack": ("topology.kubernetes.io/rack", "cloud.google.com/gke-placement-group"),
    "clique": ("nvidia.com/gpu.clique",),
    "product": ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator"),
    "instanceType": (INSTANCE_TYPE,),
    "pool": ("cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool",
             "karpenter.sh/nodepool"),
}  # fmt: skip


class KindKey(NamedTuple):
    """The properties that devices of one kind share; the memory in nano units, -1 if they publish none."""

    driver: str
    product: str
    memory: int


class PlacedDevice(NamedTuple):
    """A device of a layout. ``memory``: as its driver writes it. ``pool``: empty if it has the name of the node."""

    name: str
    kind: KindKey
    memory: str
    card: str
    span: tuple[int, int, int] | None
    pool: str


class Layout:
    """The devices of nodes with equal hardware, in order; compared by identity."""

    __slots__ = ("devices",)

    def __init__(self, devices: tuple[PlacedDevice, ...]) -> None:
        self.devices = devices


class DrawnDevice(NamedTuple):
    """A device that claims hold, or that has taints. ``at``: its position in the layout. ``claims``: those that hold
    it; ``admins``: those with admin access to it. ``prepared``: None if it is not known."""

    at: int
    claims: tuple[str, ...]
    admins: tuple[str, ...]
    used: float
    taints: tuple[str, ...]
    prepared: bool | None


class DrawnNode(NamedTuple):
    """``states``: the positions of the devices in each state but free."""

    report: NodeReport
    labels: dict[str, str]
    layout: Layout
    states: dict[str, tuple[int, ...]]
    devices: tuple[DrawnDevice, ...]


def drawn_nodes(view: ClusterView, among: Collection[str] | None = None) -> tuple[DrawnNode, ...]:
    """Return all nodes of a view, of which those that did not change are known; or only these."""
    drawing = _NodeDrawing(view)
    if among is None:
        return view.of_nodes("drawn", drawing.node)
    return tuple(drawing.node(report) for report in view.free.nodes if report.node in among)


def kind_key(device: DeviceReport) -> KindKey:
    """Return the kind of a device."""
    memory = _memory(device)
    return KindKey(device.driver, device.kind or device.driver, memory.total.nano if memory is not None else -1)


def _memory(device: DeviceReport) -> RemainingAmount | None:
    for amount in device.capacity:
        if amount.name == "memory":
            return amount
    return None


class _NodeDrawing:
    """Draws nodes of a view."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._users = Holders(view)
        self._slices = view.cached("screens.slices", lambda: _slices_of_nodes(view))
        self._admins = view.cached("screens.admins", lambda: _admins(view))

    def node(self, report: NodeReport) -> DrawnNode:
        geometry = self._geometry(report.node)
        states: dict[str, list[int]] = {}
        devices = []
        for at, device in enumerate(report.devices):
            if device.state != "free":
                states.setdefault(device.state, []).append(at)
            place = (device.driver, device.pool, device.device)
            admins = self._admins.get(place, ())
            if device.holders or device.taints or admins:
                devices.append(self._device(at, device, tuple(sorted(admins))))
        value = self._view.find(Node.__name__, ObjectKey("", report.node)) if report.node else None
        return DrawnNode(
            report=report,
            labels=_grouping(value.metadata.labels) if value is not None else {},
            layout=_layout(tuple([_placed(device, report.node, geometry) for device in report.devices])),
            states={state: tuple(positions) for state, positions in states.items()},
            devices=tuple(devices),
        )

    def _device(self, at: int, device: DeviceReport, admins: tuple[str, ...]) -> DrawnDevice:
        place = (device.driver, device.pool, device.device)
        claims = tuple([holder.claim for holder in device.holders])
        return DrawnDevice(
            at=at,
            claims=claims,
            admins=admins,
            used=_used(device.capacity) if device.state in ("shared", "full") else 0.0,
            taints=device.taints,
            prepared=self._users.is_prepared(claims[0], *place) if claims else None,
        )

    def _geometry(self, node: str) -> Mapping[tuple[str, str, str], DeviceGeometry]:
        found = self._slices.get(node, ())
        if node:  # the counters of its cards may be in a slice that several nodes see
            found = (*found, *(slice_ for slice_ in self._slices.get("", ()) if slice_.spec.shared_counters))
        return geometry_of(sorted(found, key=lambda slice_: slice_.metadata.name))


def _slices_of_nodes(view: ClusterView) -> Mapping[str, Sequence[ResourceSlice]]:
    found: dict[str, list[ResourceSlice]] = {}
    for value in view.of_kind(ResourceSlice):
        found.setdefault(value.spec.node_name or "", []).append(value)
    return found


def _admins(view: ClusterView) -> Mapping[tuple[str, str, str], Sequence[str]]:
    """The claims with admin access by device."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for value in view.of_kind(ResourceClaim):
        if value.status.allocation is not None:
            for result in value.status.allocation.devices.results:
                if result.admin_access:
                    found.setdefault((result.driver, result.pool, result.device), []).append(str(value.key))
    return found


def _placed(device: DeviceReport, node: str, geometry: Mapping[tuple[str, str, str], DeviceGeometry]) -> PlacedDevice:
    place = geometry.get((device.driver, device.pool, device.device))
    memory = _memory(device)
    return PlacedDevice(
        device.device,
        kind_key(device),
        str(memory.total) if memory is not None else "",
        place.card if place is not None else "",
        place.span if place is not None else None,
        device.pool if device.pool != node else "",
    )


@lru_cache(maxsize=8192)
def _layout(devices: tuple[PlacedDevice, ...]) -> Layout:
    """One object for equal devices."""
    return Layout(devices)


def _used(capacity: Sequence[RemainingAmount]) -> float:
    """The largest used fraction of any capacity."""
    parts = [1 - amount.left.nano / amount.total.nano for amount in capacity if amount.total.nano]
    return round(max(parts, default=0.0), 4)


def _grouping(labels: Mapping[str, str]) -> dict[str, str]:
    found = {name: next((labels[key] for key in keys if key in labels), "") for name, keys in GROUPING.items()}
    return {name: value for name, value in found.items() if value}
