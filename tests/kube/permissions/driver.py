"""A driver publishes its node's devices, updates and deletes slices, and writes the device status of prepared
claims."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CLAIMS, NODES, SLICES
from allotment.drivers.driver import Driver
from allotment.drivers.nvidia.simulated.compute_server import ComputeServer
from allotment.drivers.program import DriverOptions, serve_in_cluster
from allotment.drivers.vendors import MachineDrivers, simulated_drivers
from allotment.fleet.description import parse_fleet
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.kubelet_plugin.plugin_watcher import PluginRegistry
from allotment.model.trees import Tree
from allotment.permissions.rule import ComponentPermissions
from tests.kube.permissions.environment import Account, ScenarioCluster, temporary_objects
from tests.kube.permissions.runner import scrape, wait_until
from tests.kube.permissions.scheduler import claim


class Vendor(NamedTuple):
    """A driver, hardware for which it writes a device status, and a fault of this hardware."""

    driver: str
    hardware: str
    fault: str


VENDORS: Final = (
    Vendor("gpu.nvidia.com", "t4-4x-pcie", "gpu-3=gone"), Vendor("gpu.amd.com", "mi300x-8x-oam/vfio", "gpu-7=lost")
)  # fmt: skip


async def account(cluster: ScenarioCluster, component: ComponentPermissions) -> Account:
    """An account of a driver on a node of its own."""
    return await cluster.account(component, f"node-{cluster.unique_name()}")


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run the whole scenario with each vendor's driver."""
    async with HttpClient(account.target) as client:
        await scrape(client, account.target.token)
    async with cluster.client() as admin, temporary_objects(admin, (NODES, {"metadata": {"name": account.node}})):
        for vendor in VENDORS:
            old = f"old-{cluster.unique_name()}"
            async with temporary_objects(admin, (SLICES, _slice(old, vendor, account)), (CLAIMS, claim(old))) as (
                _,
                created_claim,
            ):
                with _simulated_driver(vendor, account) as fitted:
                    async with _running_driver(fitted.drivers[0], account) as registry:
                        await _check_publishing(admin, old, vendor, account, fitted)
                        await _check_preparing(admin, created_claim, vendor, account, registry)
                for slice_ in await _slices(admin, vendor, account):
                    await admin.delete(SLICES, slice_["metadata"]["name"])


async def _check_publishing(admin: Client, old: str, vendor: Vendor, account: Account, fitted: MachineDrivers) -> None:
    """It publishes the existing devices, deletes slices of missing ones, and taints a device that fails."""

    async def published() -> list[Tree]:
        found = await _slices(admin, vendor, account)
        whole = found and len(found) == found[0]["spec"]["pool"]["resourceSliceCount"]
        return found if whole and all(item["metadata"]["name"] != old for item in found) else []

    before = await wait_until(published)
    fitted.set_faults(vendor.fault)

    async def changed() -> bool:
        return bool(before != await published())

    await wait_until(changed)


async def _check_preparing(
    admin: Client, created_claim: Tree, vendor: Vendor, account: Account, registry: PluginRegistry
) -> None:
    """It prepares a claim for the kubelet, and writes the claim's status."""
    spec = next(slice_["spec"] for slice_ in await _slices(admin, vendor, account) if slice_["spec"].get("devices"))
    name, uid = created_claim["metadata"]["name"], created_claim["metadata"]["uid"]
    result = {
        "request": "gpu", "driver": vendor.driver, "pool": spec["pool"]["name"], "device": spec["devices"][0]["name"]
    }  # fmt: skip
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [account.node]}]}
    status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}}
    await admin.update(CLAIMS, {**created_claim, "status": status}, subresource="status")

    async def plugged() -> Any:
        return registry.find(vendor.driver)

    async def has_device_status() -> Any:
        return (await admin.get(CLAIMS, name, "default"))["status"].get("devices")

    answer = (await (await wait_until(plugged)).prepare([ClaimRef("default", uid, name)]))[uid]
    assert answer.error == "", answer.error
    await wait_until(has_device_status)


async def _slices(admin: Client, vendor: Vendor, account: Account) -> list[Tree]:
    fields = f"spec.driver={vendor.driver},spec.nodeName={account.node}"
    return list((await admin.list(SLICES, fields=fields)).items)


def _slice(name: str, vendor: Vendor, account: Account) -> Tree:
    """A slice that a driver of the same name published earlier, of a pool that no longer exists."""
    pool = {"name": "old", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": vendor.driver, "nodeName": account.node, "pool": pool, "devices": [{"name": "gone"}]}
    return {"metadata": {"name": name}, "spec": spec}


@contextlib.contextmanager
def _simulated_driver(vendor: Vendor, account: Account) -> Iterator[MachineDrivers]:
    """The vendor's driver with simulated hardware."""
    (machine,) = parse_fleet((vendor.hardware,))
    compute = ComputeServer()
    fitted = simulated_drivers(replace(machine, node=account.node), compute)
    try:
        yield fitted
    finally:
        fitted.close()
        compute.close()


@contextlib.asynccontextmanager
async def _running_driver(driver: Driver, account: Account) -> AsyncIterator[PluginRegistry]:
    """Run the driver's program, with a kubelet on its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="al-"))  # a socket's path must be short
    place = DriverOptions(account.node, "", folder / "plugins", folder / "registry", folder / "cdi")
    place.registry.mkdir()
    stop = asyncio.Event()
    registry = PluginRegistry(place.registry, Clock(50.0), on_change=lambda driver, plugin: None)
    tasks = [
        asyncio.create_task(registry.run()),
        asyncio.create_task(serve_in_cluster(driver, place, account.target, stop)),
    ]
    try:
        yield registry
    finally:
        stop.set()
        tasks[0].cancel()
        try:
            await asyncio.wait(tasks)
        finally:  # a scenario that is cancelled has no time for a graceful shutdown
            tasks[1].cancel()
            await asyncio.wait(tasks)
            shutil.rmtree(folder)
