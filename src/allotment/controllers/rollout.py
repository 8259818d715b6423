"""Rolling update arithmetic: the next size of each ReplicaSet of a Deployment.

The rules are those of Kubernetes: at most ``replicas + maxSurge`` pods, at least ``replicas - maxUnavailable``
available ones; unhealthy pods are removed first; a Deployment that is scaled during an update keeps the proportions of
its ReplicaSets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Sized(NamedTuple):
    """A ReplicaSet's sizes; ``most`` is the maximum size of the whole Deployment when it was last scaled."""

    name: str
    replicas: int
    available: int
    most: int


class Bounds(NamedTuple):
    """Pods allowed above and below the desired number during a rolling update."""

    surge: int
    unavailable: int


def bounds(replicas: int, surge: int | str | None, unavailable: int | str | None) -> Bounds:
    """Both bounds as numbers; surge percentages round up, the others down, and they are never both 0.

    >>> bounds(10, "25%", "25%")
    Bounds(surge=3, unavailable=2)
    >>> bounds(1, 0, "25%")
    Bounds(surge=0, unavailable=1)
    """
    extra = scaled("25%" if surge is None else surge, replicas, up=True)
    short = scaled("25%" if unavailable is None else unavailable, replicas, up=False)
    return Bounds(extra, min(short, replicas) if extra or short else 1)


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """A number, or a percentage of a total.

    >>> scaled("50%", 3, up=True), scaled("50%", 3, up=False), scaled(2, 3, up=True)
    (2, 1, 2)
    """
    if isinstance(value, int):
        return value
    part = int(value.rstrip("%")) * total
    return -(-part // 100) if up else part // 100


def new_size(wanted: int, surge: int, new: int, total: int) -> int:
    """The next size of the new ReplicaSet, from its size and the total."""
    if new >= wanted:
        return wanted
    room = wanted + surge - total
    return new + min(max(room, 0), wanted - new)


def old_sizes(wanted: int, unavailable: int, new: Sized, old: Sequence[Sized]) -> dict[str, int]:
    """The next sizes of the old ReplicaSets (oldest first) that change."""
    total = new.replicas + sum(replica_set.replicas for replica_set in old)
    least = wanted - unavailable
    room = total - least - (new.replicas - new.available)
    if room <= 0:
        return {}
    sizes = {replica_set.name: replica_set.replicas for replica_set in old}
    removed = 0
    for replica_set in old:
        broken = min(room - removed, replica_set.replicas - replica_set.available)
        if broken > 0:
            sizes[replica_set.name] -= broken
            removed += broken
    spare = new.available + sum(replica_set.available for replica_set in old) - least
    for replica_set in old:
        step = min(sizes[replica_set.name], spare)
        if step > 0:
            sizes[replica_set.name] -= step
            spare -= step
    return {
        replica_set.name: sizes[replica_set.name]
        for replica_set in old
        if sizes[replica_set.name] != replica_set.replicas
    }


def proportional(wanted: int, surge: int, sets: Sequence[Sized]) -> dict[str, int]:
    """The sizes after a Deployment was scaled during an update; ``sets`` newest first.

    >>> proportional(20, 0, [Sized("new", 5, 5, 10), Sized("old", 5, 5, 10)])
    {'new': 10, 'old': 10}
    """
    limit = wanted + surge if wanted else 0
    change = limit - sum(replica_set.replicas for replica_set in sets)
    # Among sets of equal size the newest grows first, and the oldest shrinks first.
    ordered = list(sets if change >= 0 else reversed(sets))
    ordered.sort(key=lambda replica_set: -replica_set.replicas)
    sizes: dict[str, int] = {}
    left = change
    for replica_set in ordered:
        share = 0
        if left and replica_set.most:
            share = (
                -replica_set.replicas
                if not wanted
                else _rounded(replica_set.replicas * limit, replica_set.most) - replica_set.replicas
            )
            share = max(min(share, left), 0) if change > 0 else min(max(share, left), 0)
        sizes[replica_set.name] = replica_set.replicas + share
        left -= share
    if left and ordered:
        first = ordered[0].name
        sizes[first] = max(sizes[first] + left, 0)
    return sizes


def _rounded(number: int, divisor: int) -> int:
    return (2 * number + divisor) // (2 * divisor)
