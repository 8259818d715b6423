"""What the driver has published: a scheduler's view of it, and that of the API server's rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.cluster.errors import StatusError
from allotment.cluster.resources import NODES
from allotment.drivers.verify.check import Check
from allotment.drivers.verify.driver_under_test import Trial
from allotment.drivers.verify.verdict import NotChecked, Wrong
from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.pools import Gathering, PoolStatus, gather_pool
from allotment.model.resource import ResourceSlice
from allotment.model.validation.context import Context
from allotment.model.validation.slices import resource_slice
from allotment.phrases import counted


class _Made(NamedTuple):
    """A pool, and what a scheduler makes of it. ``trouble`` and ``remedy`` are empty if it can be used."""

    name: str
    generation: int
    slices: int
    trouble: str = ""
    remedy: str = ""


def pools(driver: str, slices: Sequence[ResourceSlice]) -> list[_Made]:
    """The driver's pools, as they are judged before anything is allocated."""
    return [_made(driver, name, slices) for name in sorted({one.spec.pool.name for one in slices})]


def _made(driver: str, name: str, slices: Sequence[ResourceSlice]) -> _Made:
    every = [one for one in slices if one.spec.pool.name == name]
    generations = {one.spec.pool.generation for one in every}
    made = _Made(name, max(generations), len(every))
    if len(generations) > 1:
        told = ", ".join(map(str, sorted(generations)))
        remedy = "rewrite all slices of a pool with the new generation, and delete the rest"
        return made._replace(trouble=f"generations {told} side by side", remedy=remedy)
    pool = gather_pool(PoolID(driver, name), every, every, Gathering(True, True))
    if pool is None or pool.status is PoolStatus.USABLE:
        return made
    if pool.status is PoolStatus.INVALID:
        return made._replace(
            trouble=pool.reason, remedy="keep names of devices and counter sets unique in a pool, and counters defined"
        )
    counts = {one.spec.pool.resource_slice_count for one in every}
    announced = ", ".join(map(str, sorted(counts)))
    return made._replace(
        trouble=f"{len(every)} slices, announced {announced}",
        remedy="set resourceSliceCount of every slice to their number: a scheduler ignores the pool until it is",
    )


def settled(driver: str, slices: Sequence[ResourceSlice]) -> bool:
    """Whether there is something, and nothing of it is on its way."""
    return bool(slices) and not any(pool.trouble for pool in pools(driver, slices))


async def _there(trial: Trial) -> str:
    if trial.life is not None:
        await trial.calm()  # it has only just begun
    slices = await trial.until(lambda found: settled(trial.driver, found))
    if not slices:
        raise Wrong(
            f"no ResourceSlice of {trial.driver} for node {trial.node}",
            "publish an empty slice where there are no devices: users can then tell that from a missing driver",
        )
    devices = sum(len(one.spec.devices or ()) for one in slices)
    return f"{counted(devices, 'device')} in {counted(len(slices), 'slice')}"


async def _complete(trial: Trial) -> str:
    made = pools(trial.driver, await _known(trial))
    for pool in made:
        if pool.trouble:
            raise Wrong(f"pool {pool.name}: {pool.trouble}", pool.remedy)
    return "; ".join(f"pool {one.name}: generation {one.generation}" for one in made)


async def _valid(trial: Trial) -> str:
    context = Context(trial.features, lambda expression, *, stored: ())  # slices have no expressions
    slices = await _known(trial)
    for one in slices:
        if error := next(iter(resource_slice(one, context)), None):
            raise Wrong(
                f"ResourceSlice {one.metadata.name}: {error}",
                "correct the field: an API server refuses the whole slice for it, and with it all its devices",
            )
    most = max(len(one.spec.devices or ()) for one in slices)
    return f"{counted(len(slices), 'slice')}, {most} devices at most"


async def _owned(trial: Trial) -> str:
    local = [one for one in await _known(trial) if one.spec.node_name == trial.node]
    if not local:
        raise NotChecked(f"no slice is of node {trial.node} alone")
    try:
        uid = (await trial.client.get(NODES, trial.node))["metadata"]["uid"]
    except StatusError as error:
        raise Wrong(f"node {trial.node}: {error}", "use the node's name in the cluster") from None
    for one in local:
        owners = [owner for owner in one.metadata.owner_references if owner.kind == "Node"]
        if not any(owner.uid == uid and owner.controller for owner in owners):
            found = f"owned by {', '.join(f'{o.name} ({o.uid})' for o in owners)}" if owners else "without owner"
            raise Wrong(
                f"ResourceSlice {one.metadata.name}: {found}",
                f"make Node {trial.node} ({uid}) its controller: without, slices outlive a node that is deleted",
            )
    return f"by node {trial.node}"


async def _known(trial: Trial) -> list[ResourceSlice]:
    slices = await trial.until(lambda found: settled(trial.driver, found))
    if not slices:
        raise NotChecked(f"{trial.driver} has published nothing for {trial.node}")
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
    Check(
        "slices", "the node's slices are published, an empty one where there are no devices",
        "KEP-4381, ResourceSlice; a pool that is missing looks like a driver that is missing", _there, advice=True,
    ),
    Check(
        "pools", "each pool is complete: one generation, as many slices as announced, unique names, counters defined",
        "KEP-4381: schedulers ignore other pools", _complete,
    ),
    Check("slices-valid", "every slice keeps the API's rules and limits (128 devices, 64 with taints or counters)",
          "ResourceSlice, API validation", _valid),
    Check(
        "slices-owner", "the slices of a node are owned by the Node",
        "kubeletplugin helper: garbage collection removes them with the node", _owned, advice=True,
    ),
)  # fmt: skip
