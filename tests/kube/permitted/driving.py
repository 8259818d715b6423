"""A driver publishes its node's devices, changes and takes back slices, and tells claims what it prepared."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

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
from allotment.tools.permissions.rule import ComponentPermissions
from tests.kube.permitted.ground import Account, Ground, there
from tests.kube.permitted.playing import scraped, until
from tests.kube.permitted.scheduling import claim


class Vendor(NamedTuple):
    """A driver, hardware of which its claims' status tells something, and what can break of that."""

    driver: str
    hardware: str
    fault: str


VENDORS: Final = (
    Vendor("gpu.nvidia.com", "t4-4x-pcie", "gpu-3=gone"), Vendor("gpu.amd.com", "mi300x-8x-oam/vfio", "gpu-7=lost")
)  # fmt: skip


async def account(ground: Ground, part: ComponentPermissions) -> Account:
    """Of a driver on a node of its own."""
    return await ground.account(part, f"node-{ground.mark()}")


async def play(ground: Ground, account: Account) -> None:
    """All of it, with each vendor's driver."""
    async with HttpClient(account.target) as client:
        await scraped(client, account.target.token)
    async with ground.client() as admin, there(admin, (NODES, {"metadata": {"name": account.node}})):
        for vendor in VENDORS:
            old = f"old-{ground.mark()}"
            async with there(admin, (SLICES, _slice(old, vendor, account)), (CLAIMS, claim(old))) as (_, asked):
                with _fitted(vendor, account) as fitted:
                    async with _driven(fitted.drivers[0], account) as registry:
                        await _publishes(admin, old, vendor, account, fitted)
                        await _prepares(admin, asked, vendor, account, registry)
                for one in await _slices(admin, vendor, account):
                    await admin.delete(SLICES, one["metadata"]["name"])


async def _publishes(admin: HttpClient, old: str, vendor: Vendor, account: Account, fitted: MachineDrivers) -> None:
    """It publishes what there is, takes back what is not there, and tells when a device breaks."""

    async def published() -> list[Tree]:
        found = await _slices(admin, vendor, account)
        whole = found and len(found) == found[0]["spec"]["pool"]["resourceSliceCount"]
        return found if whole and all(one["metadata"]["name"] != old for one in found) else []

    before = await until(published)
    fitted.set_faults(vendor.fault)

    async def changed() -> bool:
        return bool(before != await published())

    await until(changed)


async def _prepares(admin: HttpClient, asked: Tree, vendor: Vendor, account: Account, registry: PluginRegistry) -> None:
    """It prepares a claim for the kubelet, and says so in the claim's status."""
    spec = next(one["spec"] for one in await _slices(admin, vendor, account) if one["spec"].get("devices"))
    name, uid = asked["metadata"]["name"], asked["metadata"]["uid"]
    result = {
        "request": "gpu", "driver": vendor.driver, "pool": spec["pool"]["name"], "device": spec["devices"][0]["name"]
    }  # fmt: skip
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [account.node]}]}
    status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}}
    await admin.update(CLAIMS, {**asked, "status": status}, subresource="status")

    async def plugged() -> Any:
        return registry.find(vendor.driver)

    async def told() -> Any:
        return (await admin.get(CLAIMS, name, "default"))["status"].get("devices")

    answer = (await (await until(plugged)).prepare([ClaimRef("default", uid, name)]))[uid]
    assert answer.error == "", answer.error
    await until(told)


async def _slices(admin: HttpClient, vendor: Vendor, account: Account) -> list[Tree]:
    fields = f"spec.driver={vendor.driver},spec.nodeName={account.node}"
    return list((await admin.list(SLICES, fields=fields)).items)


def _slice(name: str, vendor: Vendor, account: Account) -> Tree:
    """What a driver of the same name published once, of a pool that is no more."""
    pool = {"name": "old", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": vendor.driver, "nodeName": account.node, "pool": pool, "devices": [{"name": "gone"}]}
    return {"metadata": {"name": name}, "spec": spec}


@contextlib.contextmanager
def _fitted(vendor: Vendor, account: Account) -> Iterator[MachineDrivers]:
    """The vendor's driver over a simulation of its hardware."""
    (machine,) = parse_fleet((vendor.hardware,))
    compute = ComputeServer()
    fitted = simulated_drivers(replace(machine, node=account.node), compute)
    try:
        yield fitted
    finally:
        fitted.close()
        compute.close()


@contextlib.asynccontextmanager
async def _driven(driver: Driver, account: Account) -> AsyncIterator[PluginRegistry]:
    """The driver's program and, on the other side of its sockets, a kubelet."""
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
        finally:  # a story that is cut short has no time for an orderly end
            tasks[1].cancel()
            await asyncio.wait(tasks)
            shutil.rmtree(folder)
