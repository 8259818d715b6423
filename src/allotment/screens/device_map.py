"""The map: all devices of a cluster by node, with who uses them, as `allot free` counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from allotment.cluster.gc_pause import gc_paused
from allotment.fleet.catalog.labels import INSTANCE_TYPE, REGION, ZONE
from allotment.model.core import Node
from allotment.model.meta import Value
from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.screens.device_geometry import geometry_of
from allotment.screens.header import Screen, command, header
from allotment.screens.holders import Holders, MapHolder
from allotment.tools.free import STATES, DeviceReport, FreeReport, NodeReport, RemainingAmount
from allotment.watched.view import ClusterView

_Key = TypeVar("_Key", bound=Hashable)

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


class DeviceKind(Value, frozen=True):
    """Devices of one driver and product with the same memory. ``count``: in the whole cluster."""

    driver: str
    product: str
    memory: str = ""
    count: int = 0


class MapDevice(Value, frozen=True):
    """A device. ``kind`` and ``holders``: indices in the lists of the map.

    ``card``: the hardware whose partition it is; ``span``: first part, number of parts and their total on the card.
    ``used``: the used fraction of a device that is shared. ``prepared``: None if it is not known.
    """

    name: str
    kind: int
    state: str
    holders: tuple[int, ...] = ()
    card: str = ""
    span: tuple[int, int, int] | None = None
    used: float = 0.0
    taints: tuple[str, ...] = ()
    admin_access: bool = False
    prepared: bool | None = None
    pool: str = ""
    """Empty if it has the name of the node."""


class MapNode(Value, frozen=True):
    """A node with its devices; an empty name stands for devices that several nodes can use.

    ``problems``: the pools that Kubernetes ignores, with the reason.
    """

    name: str
    labels: dict[str, str] = {}
    unschedulable: str = ""
    problems: tuple[str, ...] = ()
    devices: tuple[MapDevice, ...] = ()


class DeviceMap(Screen, frozen=True):
    """The map. ``totals``: devices by state, of the whole cluster. ``since``: only nodes that changed after this
    revision are listed, and ``removed`` ones no longer exist; 0: all nodes."""

    totals: dict[str, int]
    kinds: tuple[DeviceKind, ...] = ()
    holders: tuple[MapHolder, ...] = ()
    nodes: tuple[MapNode, ...] = ()
    removed: tuple[str, ...] = ()
    since: int = 0


def device_map(view: ClusterView, since: int = 0, names: Collection[str] = ()) -> DeviceMap:
    """Return the map of all nodes, of those that changed after a revision, or of some nodes."""
    report = view.free
    changed = view.changed_nodes(since) if since else None
    wanted = changed if changed is not None else frozenset(names) if names else None
    nodes = [node for node in report.nodes if wanted is None or node.node in wanted]
    with gc_paused():
        drawing = _Drawing(view, {node.node for node in nodes} if wanted is not None else None)
        drawn = tuple(map(drawing.node, nodes))
    known = {node.node for node in report.nodes}
    return DeviceMap(
        cluster=header(view),
        command=command(view, "free"),
        totals=_ordered(_sum(view.of_nodes("states", _states_of_node))),
        kinds=drawing.numbered_kinds(report if wanted is None else None),
        holders=tuple(drawing.holders),
        nodes=drawn,
        removed=tuple(sorted(changed - known)) if changed is not None else (),
        since=since if changed is not None else 0,
    )


def totals(report: FreeReport) -> dict[str, int]:
    """Return the number of devices by state, best first, without states that no device has."""
    return _ordered(Counter([device.state for node in report.nodes for device in node.devices]))


def _ordered(found: Mapping[str, int]) -> dict[str, int]:
    return {state: found[state] for state in STATES if found.get(state)}


class _Drawing:
    """Numbers kinds and holders while nodes are drawn. ``among``: only these nodes; None: all."""

    def __init__(self, view: ClusterView, among: Collection[str] | None) -> None:
        self._view = view
        self._kinds: dict[_KindKey, int] = {}
        self._memory: list[str] = []
        self._counts: Counter[int] = Counter()
        self._numbers: dict[tuple[str, bool], int] = {}
        self.holders: list[MapHolder] = []
        self._users = Holders(view)
        self._labels: dict[str, dict[str, str]] = {}
        self._admins: dict[tuple[str, str, str], list[str]] = {}
        slices: list[ResourceSlice] = []
        for value in view.inputs.cluster:
            if type(value) is ResourceSlice:
                if among is None or (value.spec.node_name or "") in among or not value.spec.node_name:
                    slices.append(value)
            elif type(value) is Node:
                if among is None or value.metadata.name in among:
                    self._labels[value.metadata.name] = _grouping(value.metadata.labels)
            elif type(value) is ResourceClaim and value.status.allocation is not None:
                for result in value.status.allocation.devices.results:
                    if result.admin_access:
                        place = (result.driver, result.pool, result.device)
                        self._admins.setdefault(place, []).append(str(value.key))
        self._geometry = geometry_of(slices)

    def node(self, report: NodeReport) -> MapNode:
        return MapNode(
            name=report.node,
            labels=self._labels.get(report.node, {}),
            unschedulable=report.unschedulable,
            problems=tuple(f"{problem.why}: {problem.text}" for problem in report.problems),
            devices=tuple([self._device(device, report.node) for device in report.devices]),
        )

    def _device(self, device: DeviceReport, node: str) -> MapDevice:
        place = (device.driver, device.pool, device.device)
        geometry = self._geometry.get(place)
        admins = self._admins.get(place, ())
        holders = tuple([self._number(holder.claim) for holder in device.holders])
        prepared = self._users.is_prepared(device.holders[0].claim, *place) if device.holders else None
        return MapDevice(
            name=device.device,
            kind=self._kind(device),
            state=device.state,
            holders=(*holders, *(self._number(claim, is_admin=True) for claim in admins)),
            card=geometry.card if geometry is not None else "",
            span=geometry.span if geometry is not None else None,
            used=_used(device.capacity) if device.state in ("shared", "full") else 0.0,
            taints=device.taints,
            admin_access=bool(admins),
            prepared=prepared,
            pool=device.pool if device.pool != node else "",
        )

    def _kind(self, device: DeviceReport) -> int:
        key = _kind_key(device)
        number = self._kinds.get(key)
        if number is None:
            number = self._kinds[key] = len(self._kinds)
            memory = (str(amount.total) for amount in device.capacity if amount.name == "memory")
            self._memory.append(next(memory, ""))
        self._counts[number] += 1
        return number

    def _number(self, claim: str, *, is_admin: bool = False) -> int:
        number = self._numbers.get((claim, is_admin))
        if number is None:
            number = self._numbers[claim, is_admin] = len(self.holders)
            self.holders.append(self._users.of(claim, is_admin=is_admin))
        return number

    def numbered_kinds(self, whole: FreeReport | None) -> tuple[DeviceKind, ...]:
        """The kinds in the order of their numbers. ``whole``: the report of all nodes, if all have been drawn."""
        counts = self._counts if whole is not None else self._counts_of_all()
        return tuple(
            DeviceKind(driver=key.driver, product=key.product, memory=self._memory[number], count=counts[number])
            for key, number in self._kinds.items()
        )

    def _counts_of_all(self) -> Mapping[int, int]:
        every = self._view.remember("screens.kinds", lambda: _sum(self._view.of_nodes("kinds", _kinds_of_node)))
        return {number: every[key] for key, number in self._kinds.items()}


class _KindKey(NamedTuple):
    """The properties that devices of one kind share; the memory in nano units, -1 if they publish none."""

    driver: str
    product: str
    memory: int


def _kind_key(device: DeviceReport) -> _KindKey:
    for amount in device.capacity:
        if amount.name == "memory":
            return _KindKey(device.driver, device.kind or device.driver, amount.total.nano)
    return _KindKey(device.driver, device.kind or device.driver, -1)


def _kinds_of_node(node: NodeReport) -> tuple[tuple[_KindKey, int], ...]:
    return tuple(Counter([_kind_key(device) for device in node.devices]).items())


def _states_of_node(node: NodeReport) -> tuple[tuple[str, int], ...]:
    return tuple(Counter([device.state for device in node.devices]).items())


def _sum(parts: Iterable[tuple[tuple[_Key, int], ...]]) -> dict[_Key, int]:
    found: dict[_Key, int] = {}
    for part in parts:
        for key, count in part:
            found[key] = found.get(key, 0) + count
    return found


def _used(capacity: Sequence[RemainingAmount]) -> float:
    """The largest used fraction of any capacity."""
    parts = [1 - amount.left.nano / amount.total.nano for amount in capacity if amount.total.nano]
    return round(max(parts, default=0.0), 4)


def _grouping(labels: Mapping[str, str]) -> dict[str, str]:
    found = {name: next((labels[key] for key in keys if key in labels), "") for name, keys in GROUPING.items()}
    return {name: value for name, value in found.items() if value}
