"""``free``: the state of every device of a cluster, its holders, and the remaining capacities and counters.

Devices are listed under the node whose slice publishes them; devices that several nodes can use (network-attached ones)
are listed once, without a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from msgspec import field

from allotment.engine.cluster.devices import DeviceRecord, Traits
from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.layout import Layout, NodeView, available, excluded_by_groups
from allotment.engine.cluster.pools import PoolStatus, ignored_groups
from allotment.engine.cluster.taints import BLOCKING
from allotment.model.contested_claims import is_contested
from allotment.model.meta import ObjectKey, Value
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, ResourceClaim
from allotment.phrases import first_few
from allotment.tools.report_memory import ReportMemory

#: The state of a device. ``shared``: held by shares, with capacity left; ``full``: without capacity left; ``in-use``:
#: held as a whole; ``blocked``: other devices use what it consists of; ``unschedulable``: not held, but no pod is
#: scheduled to the device's node, or to any node that can use it.
DeviceState: TypeAlias = Literal["free", "shared", "full", "in-use", "blocked", "tainted", "unschedulable"]
#: Best first.
STATES: Final[tuple[DeviceState, ...]] = get_args(DeviceState)

#: Attributes that name the kind of a device, in order of preference.
_KINDS = ("productName", "model", "type")
_PARTITIONS = ("profile", "partitionProfile")


#: A value of an attribute; the values of a list have one type.
AttributeValue: TypeAlias = str | int | bool | tuple[str | int | bool, ...]


class RemainingAmount(Value, frozen=True, omit_defaults=False):
    """The total and remaining amount of a capacity or counter."""

    name: str
    total: Quantity
    left: Quantity


class DeviceHolder(Value, frozen=True):
    """A claim that holds a device or a share of it, and the consumers (pods) that it is reserved for.

    ``set_aside``: no pod uses the claim; it only prevents the device from being considered free (see
    `model.contested_claims`).
    """

    claim: str
    consumers: tuple[str, ...] = ()
    set_aside: bool = False
    share_id: str = ""
    consumed: Mapping[str, Quantity] = {}


class DeviceReport(Value, frozen=True):
    """A device with its published attributes and capacities.

    ``kind``: its product and the profile of its partition, as the driver publishes them (``Tesla T4``). ``blocked_by``
    names the claims whose devices consume the counters that this one needs, or share its hardware and have no
    compatibility group in common with it (KEP-5941). ``capacity``: all or nothing is left of a device that is not
    shared.
    """

    driver: str
    pool: str
    device: str
    kind: str
    state: DeviceState
    holders: tuple[DeviceHolder, ...] = ()
    blocked_by: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    capacity: tuple[RemainingAmount, ...] = ()
    attributes: Mapping[str, AttributeValue] = {}


class CounterSetReport(Value, frozen=True):
    """The remaining counters of hardware that several partitions share."""

    driver: str
    pool: str
    counter_set: str
    counters: tuple[RemainingAmount, ...]


class PoolProblem(Value, frozen=True):
    """A pool that Kubernetes ignores, with the reason."""

    driver: str
    pool: str
    why: str
    text: str


class NodeReport(Value, frozen=True):
    """The devices of one node; an empty name stands for devices that several nodes can use.

    ``unschedulable`` is the reason why no pod is scheduled to the node, such as ``cordoned``; of devices that several
    nodes can use, the reason for each node of those that no pod can reach.
    """

    node: str
    devices: tuple[DeviceReport, ...] = ()
    counter_sets: tuple[CounterSetReport, ...] = ()
    problems: tuple[PoolProblem, ...] = ()
    unschedulable: str = ""


class UnpublishedDevice(Value, frozen=True):
    """A device that a claim holds although no slice publishes it to any node."""

    claim: str
    driver: str
    pool: str
    device: str


class FreeReport(Value, frozen=True):
    """The devices of a cluster by node, and allocated devices that no slice publishes.

    ``unpublished``: these devices, with the claims that hold them; in JSON, ``strays``. ``unread``: the resources that
    the report does not consider, because the cluster does not serve them or they could not be read, with the reason.
    ``next``: the command that helps most if no device is free. ``notes``: what to know about reading the cluster; not
    in JSON.
    """

    nodes: tuple[NodeReport, ...] = ()
    unpublished: tuple[UnpublishedDevice, ...] = field(name="strays", default=())
    unread: dict[str, str] = {}
    next: str = ""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints."""
        return {name: value for name, value in super().to_dict().items() if name != "notes"}

    def count(self, state: DeviceState | Literal[""] = "") -> int:
        """The number of devices in a state, or of all devices."""
        return sum(state in ("", device.state) for node in self.nodes for device in node.devices)


class NodeDevices(NamedTuple):
    """The devices of one node for a report. ``common``: those that several nodes can use, with their slots.

    ``seen``: all devices of the node.
    """

    report: NodeReport
    look: _NodeLook
    common: tuple[tuple[DeviceID, int], ...]
    common_sets: tuple[tuple[PoolID, CounterSetReport], ...]
    seen: frozenset[DeviceID]


def free(
    inventory: Inventory,
    claims: Iterable[ResourceClaim] | Mapping[ObjectKey, ResourceClaim],
    unschedulable: Mapping[str, str] | None = None,
    memory: ReportMemory[NodeDevices] | None = None,
) -> FreeReport:
    """A report on every device of ``inventory``; ``claims`` provide the consumers of allocated devices.

    ``unschedulable``: nodes to which no pod is scheduled, with the reason (`node_eligibility.unschedulable_nodes`).
    ``memory``: of an earlier report, without the nodes that have changed since then, which saves most of the time.
    """
    closed = unschedulable or {}
    memory = ReportMemory[NodeDevices]() if memory is None else memory
    by_node = memory.nodes
    holders = _Holders(inventory, claims)
    equal = _EqualDevices()
    local: list[NodeReport] = []
    common: dict[DeviceID, _CommonDevice] = {}
    reached: set[DeviceID] = set()
    common_sets: dict[tuple[PoolID, str], CounterSetReport] = {}
    for node in inventory.nodes:
        found = by_node.get(node)
        if found is None:
            found = by_node[node] = _of_node(inventory, holders, equal, node, closed.get(node, ""))
        local.append(found.report)
        for id, slot in found.common:
            device = common.setdefault(id, _CommonDevice(found.look, slot, []))
            if node in closed:
                device.closed.append(node)
            else:
                reached.add(id)
        for pool, counters in found.common_sets:
            common_sets.setdefault((pool, counters.counter_set), counters)
    if common:
        devices = tuple(
            device.look.device(device.slot, holders, closed=id not in reached) for id, device in common.items()
        )
        nodes = dict.fromkeys(node for id, device in common.items() if id not in reached for node in device.closed)
        why = first_few([f"{node}: {closed[node]}" for node in nodes])
        local.append(NodeReport("", devices, tuple(common_sets.values()), unschedulable=why))
    unpublished = memory.unpublished(inventory.nodes, inventory.usage.allocations)
    return FreeReport(tuple(local), tuple(UnpublishedDevice(str(key), *device) for key, device in unpublished))


def _of_node(inventory: Inventory, holders: _Holders, equal: _EqualDevices, node: str, closed: str) -> NodeDevices:
    """The devices of a node; ``closed``: why no pod is scheduled to it."""
    view = inventory.view(node)
    look = _NodeLook(inventory, view, equal)
    own: list[DeviceReport] = []
    common: list[tuple[DeviceID, int]] = []
    for slot, record in enumerate(view.records):
        if record.slice.spec.node_name == node:
            own.append(look.device(slot, holders, closed=bool(closed)))
        elif view.layout.reach >> slot & 1:
            common.append((record.id, slot))
    own_pools = {PoolID(report.driver, report.pool) for report in own}
    sets, common_sets = [], []
    for pool, counters in look.counter_sets():
        if pool in own_pools:
            sets.append(counters)
        else:
            common_sets.append((pool, counters))
    report = NodeReport(node, tuple(own), tuple(sets), _problems(inventory, view), closed)
    return NodeDevices(report, look, tuple(common), tuple(common_sets), frozenset(r.id for r in view.records))


class _Holders:
    """The holders of devices, from the allocations of claims."""

    def __init__(
        self, inventory: Inventory, claims: Iterable[ResourceClaim] | Mapping[ObjectKey, ResourceClaim]
    ) -> None:
        self._inventory = inventory
        self._claims = claims if isinstance(claims, Mapping) else {claim.key: claim for claim in claims}

    def of(self, device: DeviceID) -> tuple[DeviceHolder, ...]:
        return tuple(
            holder
            for key in dict.fromkeys(self._inventory.usage.holders(device))
            for holder in self._holds(key, device)
        )

    def _holds(self, key: ObjectKey, device: DeviceID) -> Iterable[DeviceHolder]:
        claim = self._claims[key]
        consumers = tuple(
            ref.name if ref.resource == "pods" else f"{ref.resource}/{ref.name}" for ref in claim.status.reserved_for
        )
        allocation = self._inventory.usage.allocations[key]
        for result in allocation.devices.results:
            if DeviceID(result.driver, result.pool, result.device) == device and not result.admin_access:
                yield DeviceHolder(
                    str(key), consumers, is_contested(claim), result.share_id or "", result.consumed_capacity
                )


class _CommonDevice(NamedTuple):
    """A device that several nodes can use: its place in the view of the first one, and those that take no pods."""

    look: _NodeLook
    slot: int
    closed: list[str]


class _TraitsReport(NamedTuple):
    """The properties that devices with equal traits share. ``unused``: the capacity of one that no claim holds."""

    taints: tuple[str, ...]
    is_blocking: bool
    unused: tuple[RemainingAmount, ...]


class _EqualDevices:
    """The properties that devices with equal traits, and nodes with one layout, share: each is determined once."""

    def __init__(self) -> None:
        self._traits: dict[Traits, _TraitsReport] = {}
        self._lacking: dict[tuple[Layout, tuple[int, ...]], int] = {}

    def of(self, record: DeviceRecord) -> _TraitsReport:
        """The properties that this device shares with others."""
        known = self._traits.get(record.traits)
        if known is None:
            taints = record.traits.taints
            known = self._traits[record.traits] = _TraitsReport(
                tuple(map(str, taints)),
                any(taint.effect in BLOCKING for taint in taints),
                _remaining(record.device, (), taken=False),
            )
        return known

    def lacking(self, layout: Layout, left: Sequence[int]) -> int:
        """The slots whose counters are not left, as a bit mask."""
        key = (layout, tuple(left))
        known = self._lacking.get(key)
        if known is None:
            known = 0
            for slot, uses in enumerate(layout.uses):
                if any(left[counter] < amount for counter, amount in uses):
                    known |= 1 << slot
            self._lacking[key] = known
        return known


class _NodeLook:
    """Device reports of one node, as long as it does not change."""

    def __init__(self, inventory: Inventory, view: NodeView, equal: _EqualDevices) -> None:
        self._inventory = inventory
        self._view = view
        self._equal = equal
        state = view.state(inventory.usage)
        self._left = available(view.layout, state)
        self._lacking = equal.lacking(view.layout, self._left)
        self._groups = state.groups
        self._excluded = excluded_by_groups(view.layout, state.groups)

    def device(self, slot: int, holding: _Holders, *, closed: bool = False) -> DeviceReport:
        """The report on a device; ``closed``: no pod is scheduled to its node."""
        record = self._view.records[slot]
        equal = self._equal.of(record)
        held = self._inventory.usage.is_allocated(record.id)
        holders = holding.of(record.id) if held else ()
        capacity = _remaining(record.device, holders, taken=not record.traits.shareable) if held else equal.unused
        state: DeviceState
        if held:
            state = ("shared" if _has_room(capacity) else "full") if record.traits.shareable else "in-use"
        elif equal.is_blocking:
            state = "tainted"
        else:
            state = "blocked" if (self._lacking | self._excluded) >> slot & 1 else "free"
            state = "unschedulable" if closed and state == "free" else state
        blocked_by = self._blockers(slot) if state == "blocked" else ()
        return DeviceReport(
            *record.id, kind_of(record.device), state, holders, blocked_by, equal.taints, capacity,
            _attributes(record.device),
        )  # fmt: skip

    def _blockers(self, slot: int) -> tuple[str, ...]:
        """The claims on devices, of any node, that consume the counters or exclude the groups of a blocked device."""
        layout = self._view.layout
        lacking = {layout.counters[n][:3] for n, amount in layout.uses[slot] if self._left[n] < amount}
        excluding = {layout.group_sets[n] for n, groups in layout.groups[slot] if not self._groups[n] & groups}
        names: dict[str, None] = {}
        for number in {pool for pool, *_ in lacking} | {pool for pool, _ in excluding}:
            pool = self._view.pools[number]
            for device in (d for s in (*pool.slices, *pool.other_slices) for d in s.spec.devices or ()):
                if any(
                    (number, use.counter_set) in excluding
                    or any((number, use.counter_set, counter) in lacking for counter in use.counters)
                    for use in device.consumes_counters
                ):
                    holders = self._inventory.usage.holders(DeviceID(*pool.id, device.name))
                    names.update(dict.fromkeys(map(str, holders)))
        return tuple(names)

    def counter_sets(self) -> Iterable[tuple[PoolID, CounterSetReport]]:
        """All visible counter sets, with amounts in the driver's quantity format."""
        left = {counter[:3]: amount for counter, amount in zip(self._view.layout.counters, self._left, strict=True)}
        for number, pool in enumerate(self._view.pools):
            for name, counter_set in sorted(pool.counter_sets.items()):
                counters = tuple(
                    RemainingAmount(counter, total.value, _from_nano(left[number, name, counter], total.value))
                    for counter, total in counter_set.counters.items()
                )
                yield pool.id, CounterSetReport(*pool.id, name, counters)


def _from_nano(amount: int, like: Quantity) -> Quantity:
    """An amount in nano units as a quantity in the format of ``like``."""
    if amount % 10**9 == 0:
        whole = amount // 10**9
        return Quantity.binary(whole) if like.format == "BinarySI" else Quantity.of_int(whole)
    return Quantity.parse(f"{amount}n")


def _attributes(device: Device) -> dict[str, AttributeValue]:
    """The values of the attributes by name."""
    found: dict[str, AttributeValue] = {}
    for name, attribute in device.attributes.items():
        value: AttributeValue | None = attribute.string  # most attributes are strings
        for value_type in attribute.__struct_fields__ if value is None else ():
            value = getattr(attribute, value_type)
            if value is not None:
                break
        if value is not None:
            found[name] = value
    return found


def _remaining(device: Device, holders: Sequence[DeviceHolder], taken: bool) -> tuple[RemainingAmount, ...]:
    amounts = []
    for name, capacity in device.capacity.items():
        left = Quantity.ZERO if taken else capacity.value
        for holder in () if taken else holders:
            left = left.sub(holder.consumed.get(name, Quantity.ZERO))
        amounts.append(RemainingAmount(name, capacity.value, left))
    return tuple(amounts)


def _has_room(capacity: tuple[RemainingAmount, ...]) -> bool:
    return all(amount.left.sign() > 0 or amount.total.sign() == 0 for amount in capacity)


def kind_of(device: Device) -> str:
    """The kind of a device: product and partition profile, as far as the driver publishes them.

    >>> from allotment.model.resource import DeviceAttribute
    >>> kind_of(Device(attributes={"productName": DeviceAttribute(string="Tesla T4")}))
    'Tesla T4'
    """
    words = []
    for names in (_KINDS, _PARTITIONS):
        for name in names:
            attribute = device.attributes.get(name)
            if attribute is not None and attribute.string:
                words.append(attribute.string.replace("_", " ") if names is _KINDS else attribute.string)
                break
    return " ".join(words)


def _problems(inventory: Inventory, view: NodeView) -> tuple[PoolProblem, ...]:
    problems = []
    if view.failure:
        problems.append(PoolProblem("", "", "unusable", view.failure))
    for pool in view.pools:
        if pool.status is PoolStatus.INCOMPLETE:
            found, announced = pool.found, pool.announced
            count = f"{found} slices instead of {announced}" if pool.has_surplus else f"{found} of {announced} slices"
            of_pool = (s for s in inventory.slices.values() if (s.spec.driver, s.spec.pool.name) == pool.id)
            text = ignored_groups(of_pool, inventory.features) or f"generation {pool.generation} has {count}"
            problems.append(PoolProblem(*pool.id, "incomplete", text))
        elif pool.status is PoolStatus.INVALID:
            problems.append(PoolProblem(*pool.id, "invalid", pool.reason))
    return tuple(problems)
