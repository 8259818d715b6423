"""Counters and capacities that are allocated beyond their total."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.model.quantity import Quantity
from allotment.phrases import first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import kubectl_args, remedy, unique


class _Excess(NamedTuple):
    """A counter or capacity with an allocated amount above its total."""

    where: str
    resource: str
    taken: Quantity
    total: Quantity
    claims: tuple[str, ...]


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Exceeded counters by pool, exceeded capacities by device."""
    for excess in (*_counters(cluster), *_capacities(cluster)):
        text = f"{excess.resource}: {excess.taken} of {excess.total} allocated to claims {first_few(excess.claims)}"
        help_ = remedy(
            "Two schedulers did not see each other's allocations, or the driver changed the devices while claims used"
            " them. Delete the pods of one of the claims (their work is lost); that claim is then allocated again.",
            f"kubectl describe resourceclaim {kubectl_args(excess.claims[-1])}",
        )
        yield Symptom(excess.where, text, help_, objects=excess.claims)


def _counters(cluster: ClusterIndex) -> Iterator[_Excess]:
    """Counters of partitions: a device counts once, independent of the number of its shares (KEP-4815)."""
    taken: defaultdict[tuple[PoolID, str, str], Quantity] = defaultdict(lambda: Quantity.ZERO)
    users: defaultdict[tuple[PoolID, str, str], list[str]] = defaultdict(list)
    for id, results in cluster.results.items():
        published = cluster.devices.get(id)
        holders = [name_of(claim) for claim, result in results if not result.admin_access]
        if published is None or not holders:
            continue
        for use in published.device.consumes_counters:
            for name, counter in use.counters.items():
                key = (PoolID(id.driver, id.pool), use.counter_set, name)
                taken[key] = taken[key].add(counter.value)
                users[key] += holders
    reported: set[tuple[PoolID, str]] = set()
    for (pool, counter_set, name), amount in taken.items():
        published_set = cluster.pools[pool].counter_sets.get(counter_set) if pool in cluster.pools else None
        known = published_set is not None and name in published_set.counters
        total = published_set.counters[name].value if published_set is not None and known else None
        if total is not None and amount > total and (pool, counter_set) not in reported:
            reported.add((pool, counter_set))
            claims = unique(users[pool, counter_set, name])
            yield _Excess(f"pool/{pool.pool}", f"{name} of counter set {counter_set}", amount, total, claims)


def _capacities(cluster: ClusterIndex) -> Iterator[_Excess]:
    """Capacities of shared devices (KEP-5075)."""
    for id, results in cluster.results.items():
        published = cluster.devices.get(id)
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


CHECK = ClusterCheck(
    code="D502",
    severity="error",
    summary="the counters or the capacity of a GPU are overcommitted",
    why="Partitions of one GPU consume shared counters (KEP-4815), and shares of one device consume its capacity "
    "(KEP-5075). These limits are exceeded only if two schedulers do not see each other's allocations, or if a "
    "driver publishes less than before.",
    find=find,
    needs=("resourceclaims", "resourceslices"),
)
