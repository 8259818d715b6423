"""The allocator of Kubernetes 1.36.2 and 1.37.2 in its plainest form: it visits every branch and uses no shortcuts.

It connects the recordings and the engine. With all of 1.36.2's known ``DEFECTS``, and in 1.37 with none, it gives the
recorded answers, in the recorded number of steps; with one repaired it gives the recorded answer of that repair; with
none it gives the answer of a correct search, which was not recorded for two defects that interact. The engine, which
skips most of the search, is compared with it, on the vectors and on generated scenarios.

The steps before the search (pools and their order, compiled selectors) and after it (assembled results) are the
engine's own; the recordings cover them. Everything in between is written separately, without optimizations, and in one
long file, so that it can be compared with upstream's as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.cel import CompileError, DeviceInput, EvaluationError
from allotment.engine import AbortCause, Aborted, Allocated, Inventory, Outcome, PoolID, Unfit
from allotment.engine.claims.constraints import DerivedExpression
from allotment.engine.claims.eligibility import DeviceMatcher
from allotment.engine.claims.requests import ClaimCompiler, ClaimShape, Subrequest
from allotment.engine.cluster.devices import DeviceRecord
from allotment.engine.cluster.layout import NodeView
from allotment.engine.cluster.node_selection import reaches
from allotment.engine.cluster.pools import Pool, PoolStatus
from allotment.engine.results import ResultAssembler
from allotment.engine.search.verdict import NoFit, Pick, Solution, Stop
from allotment.model.meta import ObjectKey
from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicyRange, DeviceAttribute, DeviceCapacity, ResourceClaim

COUNTER_ROLLBACK: Final = "counter-rollback"
"""Counters stay consumed by a candidate that a taint or constraint rejects, and by a share that is released."""
COUNTER_POOL_KEY: Final = "counter-pool-key"
"""Counters are keyed by the pool's name alone, so that drivers with pools of one name share them."""
LIST_MATCH: Final = "list-match-intersection"
"""matchAttribute: the intersection of lists is not widened again when a device is released."""
DISTINCT: Final = "distinct-per-device"
"""distinctAttribute: only the last device of each request is stored, and removed with any that is released."""
CAPACITY_ROLLBACK: Final = "capacity-rollback"
"""Constraints still count a shared device that was rejected for lack of capacity."""
DEFECTS: Final = frozenset({COUNTER_ROLLBACK, COUNTER_POOL_KEY, LIST_MATCH, DISTINCT, CAPACITY_ROLLBACK})
LISTS_NOT_ENABLED: Final = "lists-untold"
"""A defect of the caller: kube-scheduler 1.36 never enables DRAListTypeAttributes in the allocator."""

#: The ID of every share; the recordings compare only its presence.
SHARE_ID: Final = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
_DEVICES_PER_CLAIM: Final = 32
_WHOLE: Final = 10**9


class Answer(NamedTuple):
    """The answer, and how many times upstream would have called its ``allocateOne`` for it."""

    outcome: Outcome
    steps: int


class TooLong(Exception):
    """Raised when the search takes more steps than allowed."""


class _Stopped(Exception):
    """A fatal error, which ends the search."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop


class _Exceeded(Exception):
    """The claim would get more than 32 devices; only another alternative can help."""


def allocate(
    inventory: Inventory,
    node: str,
    claims: Sequence[ResourceClaim],
    defects: frozenset[str] = frozenset(),
    limit: int = 1_000_000,
) -> Answer:
    """The answer for these claims on this node, from a search with these defects within this many steps."""
    shape = ClaimCompiler(inventory.features).shape(tuple(claims), inventory.classes)
    view = inventory.view(node)
    if view.failure:
        return Answer(Aborted(view.failure, fatal=True, cause=AbortCause.NODE_SELECTION), 0)
    search = _Search(inventory, view, shape, defects, limit)
    verdict = search.run()
    assembler = ResultAssembler(
        shape, [c.spec.devices for c in claims], DeviceMatcher(shape, inventory.features), inventory.features
    )
    keys = [ObjectKey(claim.metadata.namespace, claim.metadata.name) for claim in claims]
    outcome: Outcome = Unfit()
    if isinstance(verdict, Solution):
        results = assembler.results(view, verdict, keys, lambda: SHARE_ID)
        outcome = results if isinstance(results, Aborted) else Allocated(results)
    elif isinstance(verdict, Stop):
        outcome = assembler.aborted(view, verdict, keys)
    elif verdict.invalid_pool:
        outcome = Aborted("invalid resource pools were encountered", fatal=False, cause=AbortCause.POOL_INVALID)
    return Answer(outcome, search.steps)


# --- constraints -----------------------------------------------------------------------------------------------------

_Value = frozenset[tuple[str, object]]


def _value(record: DeviceRecord, attribute: str, derived: DerivedExpression | None, lists: bool) -> _Value | None:
    """The elements of an attribute, published or derived: empty if it is a list and lists are off, or has no element;
    ``None`` if it is absent. Raises ``CompileError`` or ``EvaluationError`` if a derived attribute fails."""
    if derived is not None:
        if isinstance(derived.compiled, CompileError):
            raise derived.compiled
        return _elements(derived.compiled.evaluate(DeviceInput(record.id.driver, record.device)), lists)
    found = record.device.attributes.get(attribute)
    domain, _, name = attribute.partition("/")
    if found is None and domain == record.id.driver:
        found = record.device.attributes.get(name)
    return _elements(found, lists) if found is not None else None


def _elements(value: DeviceAttribute, lists: bool) -> _Value:
    many: tuple[tuple[str, Sequence[object] | None], ...] = (
        ("int", value.ints),
        ("bool", value.bools),
        ("string", value.strings),
        ("version", value.versions),
    )
    for kind, items in many:
        if items and lists:
            return frozenset((kind, item) for item in items)
    scalars = (("int", value.int_), ("bool", value.bool_), ("string", value.string), ("version", value.version))
    return frozenset((kind, item) for kind, item in scalars if item is not None)


class _Match:
    """The intersection of the chosen devices' values must not be empty."""

    def __init__(self, forgets: bool) -> None:
        self._forgets = forgets
        self._chosen: list[tuple[int, _Value]] = []
        self._common: _Value = frozenset()

    def add(self, request: str, slot: int, value: _Value) -> bool:
        common = value & self._common if self._chosen else value
        if self._chosen and not common:
            return False
        self._chosen.append((slot, value))
        self._common = common
        return True

    def remove(self, request: str, slot: int) -> None:
        _drop(self._chosen, slot)
        if self._chosen and not self._forgets:
            self._common = frozenset.intersection(*(value for _, value in self._chosen))


class _Distinct:
    """No two chosen devices may have an element in common."""

    def __init__(self) -> None:
        self._chosen: list[tuple[int, _Value]] = []

    def add(self, request: str, slot: int, value: _Value) -> bool:
        if self._chosen and (not value or any(value & other for _, other in self._chosen)):
            return False
        self._chosen.append((slot, value))
        return True

    def remove(self, request: str, slot: int) -> None:
        _drop(self._chosen, slot)


class _DistinctByRequest:
    """The same with its defect."""

    def __init__(self) -> None:
        self._last: dict[str, _Value] = {}

    def add(self, request: str, slot: int, value: _Value) -> bool:
        if self._last and (not value or any(value & other for other in self._last.values())):
            return False
        self._last[request] = value
        return True

    def remove(self, request: str, slot: int) -> None:
        self._last.pop(request, None)


def _drop(chosen: list[tuple[int, _Value]], slot: int) -> None:
    """Remove the latest entry of a device."""
    for place in reversed(range(len(chosen))):
        if chosen[place][0] == slot:
            del chosen[place]
            return


# --- counters --------------------------------------------------------------------------------------------------------

_Amounts = dict[tuple[str, str], int]


class _Counters:
    """The pools' counters, and what this attempt has consumed of them; amounts in nano."""

    def __init__(self, inventory: Inventory, by_name: bool) -> None:
        self._inventory = inventory
        self._by_name = by_name
        self._held: dict[PoolID | str, _Amounts] = {}
        self._drawn: dict[PoolID | str, _Amounts] = {}

    def take(self, pool: Pool, record: DeviceRecord) -> bool:
        """Consume the device's counters, unless any counter of the pool would be overdrawn."""
        key = pool.id.pool if self._by_name else pool.id
        if key not in self._held:
            self._held[key] = self._before(pool)
        self._book(pool, record, 1)
        drawn = self._drawn[key]
        if all(drawn.get(counter, 0) <= amount for counter, amount in self._held[key].items()):
            return True
        self.release(pool, record)
        return False

    def release(self, pool: Pool, record: DeviceRecord) -> None:
        self._book(pool, record, -1)

    def _book(self, pool: Pool, record: DeviceRecord, times: int) -> None:
        drawn = self._drawn.setdefault(pool.id.pool if self._by_name else pool.id, {})
        for use in record.traits.counters:
            counter = (use.counter_set, use.counter)
            drawn[counter] = drawn.get(counter, 0) + times * use.amount

    def _before(self, pool: Pool) -> _Amounts:
        """The counters that allocated devices of the pool, on this node and others, leave."""
        remaining = {
            (name, counter): amount.value.nano
            for name, counter_set in pool.counter_sets.items()
            for counter, amount in counter_set.counters.items()
        }
        for record in (r for s in (*pool.slices, *pool.other_slices) for r in self._inventory.records(s)):
            if self._inventory.usage.is_allocated(record.id):
                for use in record.traits.counters:
                    remaining[use.counter_set, use.counter] -= use.amount
        return remaining


# --- compatibility groups ---------------------------------------------------------------------------------------------

_Members = list[frozenset[str]]


class _CompatibilityGroups:
    """The groups of all devices that are allocated, or chosen in this attempt, by pool and counter set (KEP-5941)."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._members: dict[PoolID, dict[str, _Members]] = {}

    def add(self, pool: Pool, record: DeviceRecord) -> bool:
        """Add a device, unless its groups are not compatible in one of its counter sets."""
        if pool.id not in self._members:
            self._members[pool.id] = self._before(pool)
        for count, use in enumerate(record.device.consumes_counters):
            members = self._members[pool.id].setdefault(use.counter_set, [])
            groups = frozenset(use.compatibility_groups)
            if not _compatible(members, groups):
                for earlier in record.device.consumes_counters[:count]:
                    self._members[pool.id][earlier.counter_set].pop()
                return False
            members.append(groups)
        return True

    def remove(self, pool: Pool, record: DeviceRecord) -> None:
        """Remove the device that was added last."""
        for use in record.device.consumes_counters:
            self._members[pool.id][use.counter_set].pop()

    def _before(self, pool: Pool) -> dict[str, _Members]:
        members: dict[str, _Members] = {}
        for record in (r for s in (*pool.slices, *pool.other_slices) for r in self._inventory.records(s)):
            if self._inventory.usage.is_allocated(record.id):
                for use in record.device.consumes_counters:
                    members.setdefault(use.counter_set, []).append(frozenset(use.compatibility_groups))
        return members


def _compatible(members: _Members, groups: frozenset[str]) -> bool:
    """Whether a device with these groups may join; after the first member, those of the other kind are ignored."""
    if not members:
        return True
    if not members[0] or not groups:
        return bool(members[0]) == bool(groups)
    return bool(groups.intersection(*(member for member in members if member)))


# --- capacity --------------------------------------------------------------------------------------------------------


class _Unmeasurable(Exception):
    """An amount that ends the attempt (1.37)."""


def _consumed(
    record: DeviceRecord, requests: Mapping[str, Quantity], milli: bool = False, errors: bool = False
) -> dict[str, int] | None:
    """The consumed amount of each capacity, in nano; ``None`` if the device can never serve the request.

    ``milli``: DRAFractionalCapacityRange; ``errors``: raise ``_Unmeasurable`` for amounts outside int64's range.
    """
    if requests.keys() - record.device.capacity.keys():
        return None
    taken = {}
    for name, capacity in record.device.capacity.items():
        taken[name] = _amount(requests.get(name), capacity, milli, errors)
        if errors and taken[name] < 0:
            raise _Unmeasurable
    if all(_valid(taken[name], capacity, milli) for name, capacity in record.device.capacity.items()):
        return taken
    return None


def _unit(range_: CapacityRequestPolicyRange, milli: bool) -> int:
    """Thousandths, if the gate is on and they represent the whole range; otherwise whole units."""
    thousandth = _WHOLE // 1000
    amounts = [q.nano for q in (range_.min, range_.max, range_.step) if q is not None]
    fits = all(nano % thousandth == 0 and nano < 2**63 * thousandth for nano in amounts)
    return thousandth if milli and fits and (range_.step is None or range_.step.nano >= thousandth) else _WHOLE


def _up(nano: int, unit: int) -> int:
    return -(-nano // unit)


def _amount(requested: Quantity | None, capacity: DeviceCapacity, milli: bool, errors: bool) -> int:
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return (default or capacity.value).nano
    nano = requested.nano
    if policy is None:
        return nano
    if policy.valid_range is not None and policy.valid_range.min is not None:
        low, step = policy.valid_range.min, policy.valid_range.step
        if nano < low.nano:
            return low.nano
        if step is None:
            return nano
        # Upstream rounds in whole units, whatever the quantities are, unless DRAFractionalCapacityRange is on.
        unit = _unit(policy.valid_range, milli)
        steps = _up(_up(nano, unit) - _up(low.nano, unit), _up(step.nano, unit))
        rounded = _up(low.nano, unit) + steps * _up(step.nano, unit)
        if errors and (rounded >= 2**63 or (unit != _WHOLE and nano % unit)):
            raise _Unmeasurable
        return rounded * unit
    return min((value.nano for value in policy.valid_values if value.nano >= nano), default=nano)


def _valid(amount: int, capacity: DeviceCapacity, milli: bool) -> bool:
    policy = capacity.request_policy
    if policy is None or (policy.default is not None and amount == policy.default.nano):
        return True
    if policy.valid_range is None:
        return not policy.valid_values or amount in {value.nano for value in policy.valid_values}
    low, high, step = policy.valid_range.min, policy.valid_range.max, policy.valid_range.step
    if high is not None and amount > high.nano:
        return False
    unit = _unit(policy.valid_range, milli)
    if low is None or step is None or (unit != _WHOLE and amount % unit):
        return step is None
    return (_up(amount, unit) - _up(low.nano, unit)) % _up(step.nano, unit) == 0


# --- the search ------------------------------------------------------------------------------------------------------


class _Search:
    """One attempt. A slot is the index of a device in the order in which devices are tried."""

    def __init__(
        self, inventory: Inventory, view: NodeView, shape: ClaimShape, defects: frozenset[str], limit: int
    ) -> None:
        self.steps = 0
        self._limit = limit
        self._shape = shape
        self._view = view
        self._records = view.records
        self._pools = [pool for pool in view.pools for s in pool.slices for _ in inventory.records(s)]
        self._usage = inventory.usage
        enabled = inventory.features.enabled
        self._lists = enabled("DRAListTypeAttributes") and LISTS_NOT_ENABLED not in defects
        self._binding = enabled("DRADeviceBindingConditions")
        self._partitions = enabled("DRAPartitionableDevices")
        self._taints = enabled("DRADeviceTaints")
        self._capacity = enabled("DRAConsumableCapacity")
        self._milli = enabled("DRAFractionalCapacityRange")
        self._current = inventory.features.kube not in ("1.34", "1.35", "1.36")
        """Whether this is 1.37 or later."""
        self._can_skip = (
            enabled("DRAOptionalNodeOperations") and "DRAOptionalNodeOperations" in view.node.declared_features
        )
        self._groups = _CompatibilityGroups(inventory) if enabled("DRADeviceCompatibilityGroups") else None
        self._defects = defects
        self._counters = _Counters(inventory, COUNTER_POOL_KEY in defects)
        distinct = _DistinctByRequest if DISTINCT in defects else _Distinct
        self._constraints: list[_Match | _Distinct | _DistinctByRequest] = [
            distinct() if c.distinct else _Match(LIST_MATCH in defects) for c in shape.constraints
        ]
        self._selected: dict[tuple[int, int], bool] = {}
        self._listed: dict[int, list[int]] = {}
        self._taken: dict[int, set[int]] = {}
        self._shares: dict[int, list[dict[str, int]]] = {}
        self._picks: list[list[Pick]] = [[] for _ in shape.claims]
        self._chosen = [[request.subrequests[0].number for request in claim.requests] for claim in shape.claims]

    def run(self) -> Solution | NoFit | Stop:
        try:
            self._prepare()
            if self._satisfy(0, 0):
                return Solution(tuple(map(tuple, self._picks)), tuple(map(tuple, self._chosen)))
        except _Stopped as stopped:
            return stopped.stop
        return NoFit(any(pool.status is PoolStatus.INVALID for pool in self._view.pools))

    def _prepare(self) -> None:
        """Validate the claims and expand ``All``; the first error ends the attempt."""
        for number, claim in enumerate(self._shape.claims):
            least = 0
            for request in claim.requests:
                if request.problem is not None:
                    raise _Stopped(
                        Stop(request.problem.cause, number, request.subrequests[0].number, problem=request.problem)
                    )
                for subrequest in request.subrequests:
                    if subrequest.problem is not None:
                        raise _Stopped(
                            Stop(subrequest.problem.cause, number, subrequest.number, problem=subrequest.problem)
                        )
                    if subrequest.all:
                        self._listed[subrequest.number] = list(self._list(subrequest))
                before = least
                least += min(map(self._wanted, request.subrequests))
                if self._current and least > _DEVICES_PER_CLAIM:
                    first = request.subrequests[0].number
                    stop = Stop(AbortCause.TOO_MANY_DEVICES, number, first, devices=least, devices_before=before)
                    raise _Stopped(stop)
            if least > _DEVICES_PER_CLAIM:
                raise _Stopped(Stop(AbortCause.TOO_MANY_DEVICES, number, devices=least))
            if claim.problem is not None:
                raise _Stopped(Stop(claim.problem.cause, number, problem=claim.problem))

    def _list(self, subrequest: Subrequest) -> Iterator[int]:
        for number, pool in enumerate(self._view.pools):
            if pool.status is not PoolStatus.USABLE:
                updating = pool.status is PoolStatus.INCOMPLETE
                cause = AbortCause.POOL_INCOMPLETE if updating else AbortCause.POOL_INVALID
                raise _Stopped(Stop(cause, subrequest.claim, subrequest.number, pool=number))
            for slot in range(len(self._records)):
                if self._pools[slot] is not pool or not self._selects(subrequest, slot):
                    continue
                if self._has_room(subrequest, slot, ever=self._current):
                    yield slot

    def _wanted(self, subrequest: Subrequest) -> int:
        return len(self._listed[subrequest.number]) if subrequest.all else subrequest.device_count

    def _satisfy(
        self, claim: int, request: int, subrequest: Subrequest | None = None, position: int = 0, start: int = 0
    ) -> bool:
        """Find a device for a position in a request, and for all positions, requests and claims after it."""
        self.steps += 1
        if self.steps > self._limit:
            raise TooLong
        if claim == len(self._shape.claims):
            return True
        requests = self._shape.claims[claim].requests
        if request == len(requests):
            try:
                return self._satisfy(claim + 1, 0)
            except _Exceeded:
                return False
        if subrequest is None and requests[request].is_prioritized_list:
            return self._first_available(claim, request, requests[request].subrequests)
        subrequest = subrequest or requests[request].subrequests[0]
        expected = self._wanted(subrequest)
        if subrequest.all and not expected:
            return False
        if position >= expected:
            return self._satisfy(claim, request + 1)
        if len(self._picks[claim]) + expected - position > _DEVICES_PER_CLAIM:
            raise _Exceeded
        if subrequest.all:
            return self._try(claim, request, subrequest, position, self._listed[subrequest.number][position])
        for slot in range(start, len(self._records)):
            # Devices in use are skipped before their selectors are evaluated, which may fail.
            if (
                self._in_use(subrequest, slot)
                or not self._selects(subrequest, slot)
                or not self._has_room(subrequest, slot)
            ):
                continue
            if self._try(claim, request, subrequest, position, slot):
                return True
        return False

    def _first_available(self, claim: int, request: int, subrequests: tuple[Subrequest, ...]) -> bool:
        all_exceeded = True
        for subrequest in subrequests:
            try:
                found = self._satisfy(claim, request, subrequest)
            except _Exceeded:
                continue
            if found:
                self._chosen[claim][request] = subrequest.number
                return True
            all_exceeded = False
        if all_exceeded:
            raise _Exceeded
        return False

    def _try(self, claim: int, request: int, subrequest: Subrequest, position: int, slot: int) -> bool:
        take_back = self._take(subrequest, slot)
        if take_back is None:
            return False
        try:
            found = self._satisfy(claim, request, subrequest, position + 1, slot + 1)
        except _Exceeded:
            take_back()
            raise
        if not found:
            take_back()
        return found

    # --- one device ----------------------------------------------------------------------------------------------

    def _in_use(self, subrequest: Subrequest, slot: int) -> bool:
        taken_by = self._taken.get(slot, ())
        if subrequest.admin:
            return subrequest.claim in taken_by
        return self._records[slot].id in self._usage.exclusive or bool(taken_by)

    def _selects(self, subrequest: Subrequest, slot: int) -> bool:
        if (subrequest.number, slot) not in self._selected:
            self._selected[subrequest.number, slot] = self._evaluates(subrequest, slot)
        return self._selected[subrequest.number, slot]

    def _evaluates(self, subrequest: Subrequest, slot: int) -> bool:
        record = self._records[slot]
        device = record.device
        if device.binding_conditions and not self._binding:
            return False
        for selector in subrequest.selectors:
            failure = Stop(AbortCause.SELECTOR, subrequest.claim, subrequest.number, slot)
            if isinstance(selector.compiled, CompileError):
                raise _Stopped(failure)
            try:
                if not selector.compiled.matches(DeviceInput(record.id.driver, device)):
                    return False
            except EvaluationError as error:
                raise _Stopped(failure) from error
        if not record.slice.spec.per_device_node_selection:
            return True
        return reaches(self._view.node, device.node_name, device.all_nodes, device.node_selector)

    def _has_room(self, subrequest: Subrequest, slot: int, ever: bool = False) -> bool:
        """Whether the capacity is sufficient now, or if no other share existed."""
        if not self._capacity:
            return True
        record = self._records[slot]
        try:
            expected = _consumed(record, subrequest.capacity or {}, self._milli, self._current)
        except _Unmeasurable:
            raise _Stopped(Stop(AbortCause.CAPACITY, subrequest.claim, subrequest.number, slot)) from None
        if expected is None:
            return False
        before = {} if ever else self._usage.consumed.get(record.id, {})
        shares = () if ever else self._shares.get(slot, ())
        return all(
            before.get(name, 0) + sum(share.get(name, 0) for share in shares) + amount
            <= record.device.capacity[name].value.nano
            for name, amount in expected.items()
        )

    def _tainted(self, subrequest: Subrequest, record: DeviceRecord) -> bool:
        return self._taints and not all(
            any(
                t.effect in ("", taint.effect)
                and t.key in ("", taint.key)
                and (t.operator == "Exists" or (t.operator in ("", "Equal") and t.value == taint.value))
                for t in subrequest.tolerations
            )
            for taint in record.traits.taints
            if taint.effect in ("NoSchedule", "NoExecute")
        )

    def _take(self, subrequest: Subrequest, slot: int) -> Callable[[], None] | None:
        """Allocate a device and return the function that releases it, or ``None`` if that is not possible."""
        record, pool, shareable = self._records[slot], self._pools[slot], self._records[slot].traits.shareable
        if self._in_use(subrequest, slot) or (record.traits.counters and not self._partitions):
            return None
        if self._current and record.slice.spec.skip_node_operations and not self._can_skip:
            return None
        # A shared device consumes its counters once, as long as its capacity (from 1.37: a share of it) is in use.
        shared_before = record.id in (self._usage.shares if self._current else self._usage.consumed)
        drawing = bool(record.traits.counters) and not (shareable and (shared_before or slot in self._shares))
        grouped = self._groups if drawing else None
        if grouped is not None and not grouped.add(pool, record):
            return None
        if drawing and not self._counters.take(pool, record):
            if grouped is not None:
                grouped.remove(pool, record)
            return None

        def give_counters_back() -> None:
            if grouped is not None:
                grouped.remove(pool, record)
            if drawing and COUNTER_ROLLBACK not in self._defects:
                self._counters.release(pool, record)

        if self._tainted(subrequest, record):
            give_counters_back()
            return None
        bound: list[int] = []
        for number, source in zip(subrequest.constraints, subrequest.sources, strict=True):
            _, attribute, derived = self._shape.sources[source]
            try:
                value = _value(record, attribute, derived, self._lists)
            except (CompileError, EvaluationError) as error:
                failure = Stop(AbortCause.DERIVED_ATTRIBUTE, subrequest.claim, subrequest.number, slot)
                raise _Stopped(failure) from error
            if value is not None and self._current and self._lists and not value:
                value = None  # An empty list meets no constraint.
            if value is None or not self._constraints[number].add(subrequest.main, slot, value):
                if subrequest.all:
                    raise _Stopped(Stop(AbortCause.CONSTRAINT_WITH_ALL, subrequest.claim, subrequest.number, slot))
                self._unbind(subrequest, slot, bound)
                give_counters_back()
                return None
            bound.append(number)
        if not self._has_room(subrequest, slot):
            if CAPACITY_ROLLBACK not in self._defects:
                self._unbind(subrequest, slot, bound)
            give_counters_back()
            return None
        consumed = (_consumed(record, subrequest.capacity or {}, self._milli) or {}) if shareable else {}
        if shareable:
            self._shares.setdefault(slot, []).append(consumed)
        else:
            self._taken.setdefault(slot, set()).add(subrequest.claim)
        self._picks[subrequest.claim].append(Pick(subrequest.number, slot))

        def take_back() -> None:
            self._picks[subrequest.claim].pop()
            self._unbind(subrequest, slot, bound)
            if shareable:
                self._release_share(slot, consumed)
                give_counters_back()
            else:
                self._taken[slot].discard(subrequest.claim)
                if grouped is not None:
                    grouped.remove(pool, record)
                if drawing:
                    self._counters.release(pool, record)

        return take_back

    def _unbind(self, subrequest: Subrequest, slot: int, bound: list[int]) -> None:
        for number in bound:
            self._constraints[number].remove(subrequest.main, slot)

    def _release_share(self, slot: int, consumed: dict[str, int]) -> None:
        """With its defect, upstream ignores a share without amounts, and never ends a share of a device without
        capacity."""
        if COUNTER_ROLLBACK not in self._defects:
            shares = self._shares[slot]
            shares.pop()
            if not shares:
                del self._shares[slot]
        elif consumed and slot in self._shares:
            shares = self._shares[slot]
            shares.pop()
            if not any(amount for share in shares for amount in share.values()):
                del self._shares[slot]
