"""The devices of an allocated claim for a driver: the claim is read from the API, checked and decoded.

A kubelet names a claim by name and UID. The object with that name may have been replaced, it may have lost its
allocation, or it may have devices of another node; all of this is checked before anything is changed.
"""

from __future__ import annotations

from collections.abc import Collection

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CLAIMS
from allotment.drivers.driver import AllocatedDevice, ClaimError, Driver
from allotment.drivers.preparation import configuration
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.model.resource import ResourceClaim
from allotment.model.trees import Tree, read_value


async def fetch_claim(client: Client, ref: ClaimRef) -> Tree:
    """Return the current object of a kubelet's claim. Raises ClaimError."""
    try:
        tree = await client.get(CLAIMS, ref.name, ref.namespace)
    except StatusError as error:
        if error.code == 404:
            raise ClaimError("the claim no longer exists", permanent=True) from None
        raise ClaimError(f"cannot read the claim: {error}") from None
    except Unreachable as error:
        raise ClaimError(f"cannot read the claim: {error}") from None
    uid = tree["metadata"]["uid"]
    if uid != ref.uid:
        raise ClaimError(f"the claim was replaced: expected UID {ref.uid}, found {uid}", permanent=True)
    if not (tree.get("status") or {}).get("allocation"):
        raise ClaimError("the claim is not allocated")
    return tree


def allocated_devices(driver: Driver, tree: Tree, node: str, pools: Collection[str]) -> tuple[AllocatedDevice, ...]:
    """Return the devices of the driver. ``pools``: the driver's pools on the node, if known. Raises ClaimError."""
    allocation = read_value(tree, ResourceClaim).status.allocation
    assert allocation is not None
    results = [result for result in allocation.devices.results if result.driver == driver.name]
    for result in results:
        if pools and result.pool not in pools:
            raise ClaimError(
                f"device {result.pool}/{result.device} is not on this node: {driver.name} on {node} has "
                f"{'pool' if len(pools) == 1 else 'pools'} {', '.join(sorted(pools))}",
                permanent=True,
            )
    # With admin access only, a claim must not change how others use the device.
    configs = configuration.read(driver, allocation.devices.config) if not all(r.admin_access for r in results) else ()
    return tuple(
        AllocatedDevice(
            request=result.request,
            pool=result.pool,
            device=result.device,
            config=None
            if result.admin_access
            else configuration.effective_config(driver, configs, result.request, result.device),
            admin_access=bool(result.admin_access),
            share_id=result.share_id or "",
            consumed_capacity=result.consumed_capacity,
        )
        for result in results
    )
