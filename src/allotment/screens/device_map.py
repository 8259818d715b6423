"""The map: all devices of a cluster by node, with who uses them, as `allot free` counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from allotment.cluster.gc_pause import gc_paused
from allotment.model.meta import Value
from allotment.screens.header import Screen, command, header
from allotment.screens.holders import Holders, MapHolder
from allotment.screens.node_drawing import DrawnDevice, DrawnNode, KindKey, Layout, PlacedDevice, drawn_nodes, kind_key
from allotment.tools.free import STATES, FreeReport, NodeReport
from allotment.watched.view import ClusterView

_Key = TypeVar("_Key", bound=Hashable)


class DeviceKind(Value, frozen=True):
    """Devices of one driver and product with the same memory. ``count``: in the whole cluster."""

    driver: str
    product: str
    memory: str = ""
    count: int = 0


class LayoutDevice(Value, frozen=True):
    """A device of a layout. ``kind``: an index in the kinds of the map.

    ``card``: the hardware whose partition it is; ``span``: first part, number of parts and their total on the card.
    ``pool``: empty if it has the name of the node.
    """

    name: str
    kind: int
    card: str = ""
    span: tuple[int, int, int] | None = None
    pool: str = ""


class NodeLayout(Value, frozen=True):
    """The devices of nodes with equal hardware, in order."""

    devices: tuple[LayoutDevice, ...] = ()


class DeviceUse(Value, frozen=True):
    """A device that claims hold, or that has taints. ``at``: its position in the layout of its node.

    ``holders``: indices in the holders of the map. ``used``: the used fraction of a device that is shared.
    ``prepared``: None if it is not known.
    """

    at: int
    holders: tuple[int, ...] = ()
    used: float = 0.0
    taints: tuple[str, ...] = ()
    admin_access: bool = False
    prepared: bool | None = None


class MapNode(Value, frozen=True):
    """A node; an empty name stands for devices that several nodes can use. ``layout``: an index in those of the map.

    ``states``: the positions, in the layout, of the devices that are not free. ``devices``: more about some of them.
    ``problems``: the pools that Kubernetes ignores, with the reason.
    """

    name: str
    layout: int
    labels: dict[str, str] = {}
    unschedulable: str = ""
    problems: tuple[str, ...] = ()
    states: dict[str, tuple[int, ...]] = {}
    devices: tuple[DeviceUse, ...] = ()


class MapDevice(Value, frozen=True):
    """All that the map tells about a device: see `LayoutDevice` and `DeviceUse`."""

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


class DeviceMap(Screen, frozen=True):
    """The map. ``totals``: devices by state, of the whole cluster. ``since``: only nodes that changed after this
    revision are listed, and ``removed`` ones no longer exist; 0: all nodes."""

    totals: dict[str, int]
    kinds: tuple[DeviceKind, ...] = ()
    holders: tuple[MapHolder, ...] = ()
    layouts: tuple[NodeLayout, ...] = ()
    nodes: tuple[MapNode, ...] = ()
    removed: tuple[str, ...] = ()
    since: int = 0

    def devices_of(self, node: MapNode) -> Iterator[MapDevice]:
        """Yield the devices of a node."""
        states = {at: state for state, positions in node.states.items() for at in positions}
        uses = {use.at: use for use in node.devices}
        for at, device in enumerate(self.layouts[node.layout].devices):
            use = uses.get(at, _UNUSED)
            yield MapDevice(
                name=device.name,
                kind=device.kind,
                state=states.get(at, "free"),
                holders=use.holders,
                card=device.card,
                span=device.span,
                used=use.used,
                taints=use.taints,
                admin_access=use.admin_access,
                prepared=use.prepared,
                pool=device.pool,
            )


_UNUSED = DeviceUse(at=-1)


def device_map(view: ClusterView, since: int = 0, names: Collection[str] = ()) -> DeviceMap:
    """Return the map of all nodes, of those that changed after a revision, or of some nodes."""
    report = view.free
    changed = view.changed_nodes(since) if since else None
    with gc_paused():
        if changed is None and names:
            nodes = drawn_nodes(view, frozenset(names))
        else:
            nodes = drawn_nodes(view)
            if changed is not None:
                nodes = tuple(node for node in nodes if node.report.node in changed)
        numbering = _Numbering(view)
        drawn = tuple(map(numbering.node, nodes))
        layouts = numbering.layouts()
    return DeviceMap(
        cluster=header(view),
        command=command(view, "free"),
        totals=_ordered(_sum(view.of_nodes("states", _states_of_node))),
        kinds=numbering.kinds(),
        holders=tuple(numbering.holders),
        layouts=layouts,
        nodes=drawn,
        removed=tuple(sorted(changed - {node.node for node in report.nodes})) if changed is not None else (),
        since=since if changed is not None else 0,
    )


def totals(report: FreeReport) -> dict[str, int]:
    """Return the number of devices by state, best first, without states that no device has."""
    return _ordered(Counter([device.state for node in report.nodes for device in node.devices]))


def _ordered(found: Mapping[str, int]) -> dict[str, int]:
    return {state: found[state] for state in STATES if found.get(state)}


class _Numbering:
    """Numbers the kinds, holders and layouts of the nodes of a map, in the order of their first use."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._users = Holders(view)
        self._kinds: dict[KindKey, int] = {}
        self._memory: list[str] = []
        self._layouts: dict[Layout, int] = {}
        self._numbers: dict[tuple[str, bool], int] = {}
        self.holders: list[MapHolder] = []

    def node(self, drawn: DrawnNode) -> MapNode:
        report = drawn.report
        return MapNode(
            name=report.node,
            layout=self._layouts.setdefault(drawn.layout, len(self._layouts)),
            labels=drawn.labels,
            unschedulable=report.unschedulable,
            problems=tuple([f"{problem.why}: {problem.text}" for problem in report.problems]),
            states=drawn.states,
            devices=tuple(map(self._use, drawn.devices)),
        )

    def _use(self, device: DrawnDevice) -> DeviceUse:
        return DeviceUse(
            at=device.at,
            holders=(
                *[self._holder(claim) for claim in device.claims],
                *[self._holder(claim, is_admin=True) for claim in device.admins],
            ),
            used=device.used,
            taints=device.taints,
            admin_access=bool(device.admins),
            prepared=device.prepared,
        )

    def _holder(self, claim: str, *, is_admin: bool = False) -> int:
        number = self._numbers.get((claim, is_admin))
        if number is None:
            number = self._numbers[claim, is_admin] = len(self.holders)
            self.holders.append(self._users.of(claim, is_admin=is_admin))
        return number

    def layouts(self) -> tuple[NodeLayout, ...]:
        return tuple(NodeLayout(devices=tuple(map(self._placed, layout.devices))) for layout in self._layouts)

    def _placed(self, device: PlacedDevice) -> LayoutDevice:
        kind = self._kinds.get(device.kind)
        if kind is None:
            kind = self._kinds[device.kind] = len(self._kinds)
            self._memory.append(device.memory)
        return LayoutDevice(name=device.name, kind=kind, card=device.card, span=device.span, pool=device.pool)

    def kinds(self) -> tuple[DeviceKind, ...]:
        """The kinds of the layouts, counted in the whole cluster."""
        counts = self._view.cached("screens.kinds", lambda: _sum(self._view.of_nodes("kinds", _kinds_of_node)))
        return tuple(
            DeviceKind(driver=key.driver, product=key.product, memory=self._memory[number], count=counts[key])
            for key, number in self._kinds.items()
        )


def _kinds_of_node(node: NodeReport) -> tuple[tuple[KindKey, int], ...]:
    return tuple(Counter([kind_key(device) for device in node.devices]).items())


def _states_of_node(node: NodeReport) -> tuple[tuple[str, int], ...]:
    return tuple(Counter([device.state for device in node.devices]).items())


def _sum(parts: Iterable[tuple[tuple[_Key, int], ...]]) -> dict[_Key, int]:
    found: dict[_Key, int] = {}
    for part in parts:
        for key, count in part:
            found[key] = found.get(key, 0) + count
    return found
