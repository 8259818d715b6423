"""Checks of the published slices: as schedulers evaluate them, and with the API server's validation."""

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
from allotment.model.validation.admission import object_errors
from allotment.model.validation.context import ValidationContext
from allotment.phrases import counted


class _PoolState(NamedTuple):
    """A pool as a scheduler evaluates it. ``problem`` and ``remedy`` are empty if it is usable."""

    name: str
    generation: int
    slices: int
    problem: str = ""
    remedy: str = ""


def pool_states(driver: str, slices: Sequence[ResourceSlice]) -> list[_PoolState]:
    """Return the driver's pools as schedulers evaluate them."""
    return [_pool_state(driver, name, slices) for name in sorted({slice_.spec.pool.name for slice_ in slices})]


def _pool_state(driver: str, name: str, slices: Sequence[ResourceSlice]) -> _PoolState:
    pool_slices = [slice_ for slice_ in slices if slice_.spec.pool.name == name]
    generations = {slice_.spec.pool.generation for slice_ in pool_slices}
    state = _PoolState(name, max(generations), len(pool_slices))
    if len(generations) > 1:
        numbers = ", ".join(map(str, sorted(generations)))
        remedy = "rewrite all slices of a pool with the new generation, and delete the rest"
        return state._replace(problem=f"slices of generations {numbers} exist at the same time", remedy=remedy)
    pool = gather_pool(PoolID(driver, name), pool_slices, pool_slices, PoolRules(True, True))
    if pool is None or pool.status is PoolStatus.USABLE:
        return state
    if pool.status is PoolStatus.INVALID:
        return state._replace(
            problem=pool.reason,
            remedy="use unique device and counter set names in each pool, and define all consumed counters",
        )
    counts = {slice_.spec.pool.resource_slice_count for slice_ in pool_slices}
    expected = ", ".join(map(str, sorted(counts)))
    return state._replace(
        problem=f"{len(pool_slices)} slices, resourceSliceCount {expected}",
        remedy="in every slice, set resourceSliceCount to the number of slices: otherwise schedulers ignore the pool",
    )


def is_settled(driver: str, slices: Sequence[ResourceSlice]) -> bool:
    """Whether there are slices and all pools are complete."""
    return bool(slices) and not any(state.problem for state in pool_states(driver, slices))


async def _published(session: DriverSession) -> str:
    if session.process is not None:
        await session.stable_slices()  # the driver has just started
    slices = await session.wait_for_slices(lambda slices: is_settled(session.driver, slices))
    if not slices:
        raise CheckFailed(
            f"no ResourceSlice of {session.driver} for node {session.node}",
            "publish an empty slice if there are no devices, so that users can distinguish this from a missing driver",
        )
    devices = sum(len(slice_.spec.devices or ()) for slice_ in slices)
    return f"{counted(devices, 'device')} in {counted(len(slices), 'slice')}"


async def _complete(session: DriverSession) -> str:
    states = pool_states(session.driver, await _wait_published(session))
    for state in states:
        if state.problem:
            raise CheckFailed(f"pool {state.name}: {state.problem}", state.remedy)
    return "; ".join(f"pool {state.name}: generation {state.generation}" for state in states)


async def _valid(session: DriverSession) -> str:
    context = ValidationContext(session.features, lambda expression, *, stored: ())  # slices have no expressions
    slices = await _wait_published(session)
    for slice_ in slices:
        if error := next(iter(object_errors(slice_, context)), None):
            raise CheckFailed(
                f"ResourceSlice {slice_.metadata.name}: {error}",
                "correct the field: the API server rejects the whole slice with all its devices",
            )
    most = max(len(slice_.spec.devices or ()) for slice_ in slices)
    return f"{counted(len(slices), 'slice')}, at most {most} devices each"


async def _has_owner(session: DriverSession) -> str:
    local = [slice_ for slice_ in await _wait_published(session) if slice_.spec.node_name == session.node]
    if not local:
        raise CheckSkipped(f"no slice belongs only to node {session.node}")
    try:
        uid = (await session.client.get(NODES, session.node))["metadata"]["uid"]
    except StatusError as error:
        raise CheckFailed(f"node {session.node}: {error}", "use the node's name in the cluster") from None
    for slice_ in local:
        owners = [owner for owner in slice_.metadata.owner_references if owner.kind == "Node"]
        if not any(owner.uid == uid and owner.controller for owner in owners):
            found = f"owned by {', '.join(f'{o.name} ({o.uid})' for o in owners)}" if owners else "no owner"
            raise CheckFailed(
                f"ResourceSlice {slice_.metadata.name}: {found}",
                f"set Node {session.node} ({uid}) as the controller owner: otherwise slices are not deleted with the "
                "node",
            )
    return f"owned by node {session.node}"


async def _wait_published(session: DriverSession) -> list[ResourceSlice]:
    slices = await session.wait_for_slices(lambda slices: is_settled(session.driver, slices))
    if not slices:
        raise CheckSkipped(f"{session.driver} has published no slices for {session.node}")
    return slices


def changes(before: Iterable[ResourceSlice], after: Iterable[ResourceSlice]) -> list[str]:
    """Return the changes of slices as text."""
    old = {slice_.metadata.name: slice_ for slice_ in before}
    new = {slice_.metadata.name: slice_ for slice_ in after}
    changed = [f"{name} was deleted" for name in old.keys() - new.keys()] + [
        f"{name} was created" for name in new.keys() - old.keys()
    ]
    changed += [
        f"{name} was rewritten"
        for name in old.keys() & new.keys()
        if old[name].metadata.resource_version != new[name].metadata.resource_version
    ]
    return sorted(changed)


CHECKS = (
    DriverCheck(
        "slices", "the node's slices are published, or an empty one if there are no devices",
        "KEP-4381, ResourceSlice; a missing pool looks like a missing driver", _published, advice=True,
    ),
    DriverCheck(
        "pools", "each pool is complete: one generation, resourceSliceCount slices, unique names, all counters defined",
        "KEP-4381: schedulers ignore incomplete pools", _complete,
    ),
    DriverCheck(
        "slices-valid", "every slice is valid and within the limits (128 devices, 64 with taints or counters)",
        "ResourceSlice, API validation", _valid,
    ),
    DriverCheck(
        "slices-owner", "the slices of a node are owned by the Node",
        "kubeletplugin helper: garbage collection removes them with the node", _has_owner, advice=True,
    ),
)  # fmt: skip
