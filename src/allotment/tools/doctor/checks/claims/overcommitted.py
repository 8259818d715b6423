"""Hardware of which more is given away than there is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.model.quantity import Quantity
from allotment.phrases import first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import of, remedy, unique


class _Excess(NamedTuple):
    """More taken of something than there is of it."""

    where: str
    what: str
    taken: Quantity
    total: Quantity
    claims: tuple[str, ...]


def find(case: Case) -> Iterable[Sign]:
    """Counters by pool, capacity by device."""
    for excess in (*_counters(case), *_capacities(case)):
        text = f"{excess.what}: {excess.taken} allocated of {excess.total}, to claims {first_few(excess.claims)}"
        help_ = remedy(
            "Two schedulers did not see each other's allocations, or the driver changed what it publishes under claims"
            " that run. Delete the pods of one of the claims (what they do is lost) to have it allocated anew.",
            f"kubectl describe resourceclaim {of(excess.claims[-1])}",
        )
        yield Sign(excess.where, text, help_, objects=excess.claims)


def _counters(case: Case) -> Iterator[_Excess]:
    """Partitions of one piece of hardware: a device counts once, however many share it (KEP-4815)."""
    taken: defaultdict[tuple[PoolID, str, str], Quantity] = defaultdict(lambda: Quantity.ZERO)
    users: defaultdict[tuple[PoolID, str, str], list[str]] = defaultdict(list)
    for id, results in case.results.items():
        published = case.devices.get(id)
        holders = [name_of(claim) for claim, result in results if not result.admin_access]
        if published is None or not holders:
            continue
        for use in published.device.consumes_counters:
            for name, counter in use.counters.items():
                key = (PoolID(id.driver, id.pool), use.counter_set, name)
                taken[key] = taken[key].add(counter.value)
                users[key] += holders
    told: set[tuple[PoolID, str]] = set()
    for (pool, counter_set, name), amount in taken.items():
        there = case.pools[pool].counter_sets.get(counter_set) if pool in case.pools else None
        total = there.counters[name].value if there is not None and name in there.counters else None
        if total is not None and amount > total and (pool, counter_set) not in told:
            told.add((pool, counter_set))
            claims = unique(users[pool, counter_set, name])
            yield _Excess(f"pool/{pool.pool}", f"{name} of counter set {counter_set}", amount, total, claims)


def _capacities(case: Case) -> Iterator[_Excess]:
    """Shares of one device (KEP-5075)."""
    for id, results in case.results.items():
        published = case.devices.get(id)
        shares = [(claim, result) for claim, result in results if result.share_id and not result.admin_access]
        if published is None or not shares:
            continue
        for name, capacity in published.device.capacity.items():
            taken = Quantity.ZERO
            for _, result in shares:
                taken = taken.add(result.consumed_capacity.get(name, Quantity.ZERO))
            if taken > capacity.value:
                claims = unique(name_of(claim) for claim, _ in shares)
                yield _Excess(f"device {_name(id)}", f"{name} of {_name(id)}", taken, capacity.value, claims)


def _name(id: DeviceID) -> str:
    return f"{id.pool}/{id.device}"


CHECK = Check(
    code="D502",
    severity="error",
    summary="more of a GPU's counters or capacity is allocated than there is",
    why="Partitions of one GPU draw on common counters (KEP-4815), shares of one device on its capacity (KEP-5075)."
    " More than all can only be given away by two schedulers at once, or if a driver publishes less than before.",
    find=find,
    needs=("resourceclaims", "resourceslices"),
)
