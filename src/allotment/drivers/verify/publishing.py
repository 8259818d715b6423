"""What the driver has published: a scheduler's view of it, and that of the API server's rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.cluster.errors import StatusError
from allotment.cluster.resources import NODES
from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.pools import PoolRules, PoolStatus, gather_pool
from allotment.model.resource import ResourceSlice
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.slices import resource_slice
from allotment.phrases import counted


class _PoolState(NamedTuple):
    """A pool, and what a scheduler makes of it. ``trouble`` and ``remedy`` are empty if it can be used."""

    name: str
    generation: int
    slices: int
    problem: str = ""
    remedy: str = ""


def pool_states(driver: str, slices: Sequence[ResourceSlice]) -> list[_PoolState]:
    """The driver's pools, as they are judged before anything is allocated."""
    return [_pool_state(driver, name, slices) for name in sorted({one.spec.pool.name for one in slices})]


def _pool_state(driver: str, name: str, slices: Sequence[ResourceSlice]) -> _PoolState:
    every = [one for one in slices if one.spec.pool.name == name]
    generations = {one.spec.pool.generation for one in every}
    made = _PoolState(name, max(generations), len(every))
    if len(generations) > 1:
        told = ", ".join(map(str, sorted(generations)))
        remedy = "rewrite all slices of a pool with the new generation, and delete the rest"
        return made._replace(problem=f"generations {told} side by side", remedy=remedy)
    pool = gather_pool(PoolID(driver, name), every, every, PoolRules(True, True))
    if pool is None or pool.status is PoolStatus.USABLE:
        return made
    if pool.status is PoolStatus.INVALID:
        return made._replace(
            problem=pool.reason, remedy="keep names of devices and counter sets unique in a pool, and counters defined"
        )
    counts = {one.spec.pool.resource_slice_count for one in every}
    announced = ", ".join(map(str, sorted(counts)))
    return made._replace(
        problem=f"{len(every)} slices, announced {announced}",
        remedy="set resourceSliceCount of every slice to their number: a scheduler ignores the pool until it is",
    )


def is_settled(driver: str, slices: Sequence[ResourceSlice]) -> bool:
    """Whether there is something, and nothing of it is on its way."""
    return bool(slices) and not any(pool.problem for pool in pool_states(driver, slices))


async def _published(session: DriverSession) -> str:
    if session.life is not None:
        await session.stable_slices()  # it has only just begun
    slices = await session.wait_for_slices(lambda found: is_settled(session.driver, found))
    if not slices:
        raise CheckFailed(
            f"no ResourceSlice of {session.driver} for node {session.node}",
            "publish an empty slice where there are no devices: users can then tell that from a missing driver",
        )
    devices = sum(len(one.spec.devices or ()) for one in slices)
    return f"{counted(devices, 'device')} in {counted(len(slices), 'slice')}"


async def _complete(session: DriverSession) -> str:
    made = pool_states(session.driver, await _wait_published(session))
    for pool in made:
        if pool.problem:
            raise CheckFailed(f"pool {pool.name}: {pool.problem}", pool.remedy)
    return "; ".join(f"pool {one.name}: generation {one.generation}" for one in made)


async def _valid(session: DriverSession) -> str:
    context = ValidationContext(session.features, lambda expression, *, stored: ())  # slices have no expressions
    slices = await _wait_published(session)
    for one in slices:
        if error := next(iter(resource_slice(one, context)), None):
            raise CheckFailed(
                f"ResourceSlice {one.metadata.name}: {error}",
                "correct the field: an API server refuses the whole slice for it, and with it all its devices",
            )
    most = max(len(one.spec.devices or ()) for one in slices)
    return f"{counted(len(slices), 'slice')}, {most} devices at most"


async def _has_owner(session: DriverSession) -> str:
    local = [one for one in await _wait_published(session) if one.spec.node_name == session.node]
    if not local:
        raise CheckSkipped(f"no slice is of node {session.node} alone")
    try:
        uid = (await session.client.get(NODES, session.node))["metadata"]["uid"]
    except StatusError as error:
        raise CheckFailed(f"node {session.node}: {error}", "use the node's name in the cluster") from None
    for one in local:
        owners = [owner for owner in one.metadata.owner_references if owner.kind == "Node"]
        if not any(owner.uid == uid and owner.controller for owner in owners):
            found = f"owned by {', '.join(f'{o.name} ({o.uid})' for o in owners)}" if owners else "without owner"
            raise CheckFailed(
                f"ResourceSlice {one.metadata.name}: {found}",
                f"make Node {session.node} ({uid}) its controller: without, slices outlive a node that is deleted",
            )
    return f"by node {session.node}"


async def _wait_published(session: DriverSession) -> list[ResourceSlice]:
    slices = await session.wait_for_slices(lambda found: is_settled(session.driver, found))
    if not slices:
        raise CheckSkipped(f"{session.driver} has published nothing for {session.node}")
    return slices


def changes(before: Iterable[ResourceSlice], after: Iterable[ResourceSlice]) -> list[str]:
    """What became of slices, in words; empty if nothing did."""
    old = {one.metadata.name: one for one in before}
    new = {one.metadata.name: one for one in after}
    told = [f"{name} is gone" for name in old.keys() - new.keys()] + [
        f"{name} is new" for name in new.keys() - old.keys()
    ]
    told += [
        f"{name} was written again"
        for name in old.keys() & new.keys()
        if old[name].metadata.resource_version != new[name].metadata.resource_version
    ]
    return sorted(told)


CHECKS = (
    DriverCheck(
        "slices", "the node's slices are published, an empty one where there are no devices",
        "KEP-4381, ResourceSlice; a pool that is missing looks like a driver that is missing", _published, advice=True,
    ),
    DriverCheck(
        "pools", "each pool is complete: one generation, as many slices as announced, unique names, counters defined",
        "KEP-4381: schedulers ignore other pools", _complete,
    ),
    DriverCheck("slices-valid", "every slice keeps the API's rules and limits (128 devices, 64 with taints or counters)",
          "ResourceSlice, API validation", _valid),
    DriverCheck(
        "slices-owner", "the slices of a node are owned by the Node",
        "kubeletplugin helper: garbage collection removes them with the node", _has_owner, advice=True,
    ),
)  # fmt: skip
