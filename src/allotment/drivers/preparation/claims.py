"""From a claim in the cluster to a driver's part of it: read, checked, with the parameters that win.

A kubelet names a claim by uid; the object of that name may be another one by now. It may have lost its allocation, or
have been given devices of another node. All of that is found out here, before anything is done.
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
    """The claim that a kubelet means, as the cluster has it now. Raises Refused."""
    try:
        tree = await client.get(CLAIMS, ref.name, ref.namespace)
    except StatusError as error:
        if error.code == 404:
            raise ClaimError("the claim is gone; nothing is prepared for it", permanent=True) from None
        raise ClaimError(f"could not read the claim: {error}") from None
    except Unreachable as error:
        raise ClaimError(f"could not read the claim: {error}") from None
    uid = tree["metadata"]["uid"]
    if uid != ref.uid:
        raise ClaimError(f"the claim was replaced: wanted uid {ref.uid}, found {uid}", permanent=True)
    if not (tree.get("status") or {}).get("allocation"):
        raise ClaimError("the claim is not allocated")
    return tree


def allocated_devices(driver: Driver, tree: Tree, node: str, pools: Collection[str]) -> tuple[AllocatedDevice, ...]:
    """What a claim was given of a driver. ``pools``: those that it has here, none while unknown. Raises Refused."""
    allocation = read_value(tree, ResourceClaim).status.allocation
    assert allocation is not None
    results = [result for result in allocation.devices.results if result.driver == driver.name]
    for result in results:
        if pools and result.pool not in pools:
            raise ClaimError(
                f"device {result.pool}/{result.device} is not of this node: {driver.name} on {node} has "
                f"{'pool' if len(pools) == 1 else 'pools'} {', '.join(sorted(pools))}",
                permanent=True,
            )
    # Whoever has only admin access must not change how others use the device.
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
