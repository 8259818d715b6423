"""The cost of the driver framework: ``python -m bench.drivers``. Hardware is simulated and costs nothing itself.

A claim is prepared as on a real node: the claim is read over HTTP from a lab, the checkpoint synced to disk twice, a
CDI spec written; once by a direct call, once over the kubelet's socket. Then a lab is started whose nodes all publish.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

from allotment.cdi.store import FolderStore
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.resources import CLAIMS, SLICES
from allotment.drivers.driver import AllocatedClaim, PreparedClaim
from allotment.drivers.host import DriverHost, FileStorage, read_boot_id
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.fleet import hardware
from allotment.fleet.modes import Full
from allotment.fleet.nvidia import gpus_of
from allotment.kubelet_plugin.client import PluginClient, PluginInfo
from allotment.kubelet_plugin.messages import ClaimRef, KubeletPlugin
from allotment.kubelet_plugin.registration import register
from allotment.kubelet_plugin.server import serve_plugin
from allotment.lab.control_plane import running
from allotment.lab.settings import Settings
from allotment.model.trees import Tree

NODE = "n1"
ROUNDS = 200
NODES = 1000


class _Timed(NvidiaDriver):
    """Measures the time of the hardware's part."""

    seconds = 0.0

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        begin = perf_counter()
        try:
            return await super().prepare(claim, plan)
        finally:
            self.seconds += perf_counter() - begin


def _line(text: str, value: str) -> None:
    print(f"{text:62} {value}", flush=True)


def _latencies(seconds: Sequence[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100)
    return f"p50 {cuts[49] * 1e3:5.2f} ms, p99 {cuts[98] * 1e3:6.2f} ms"


async def _claim(client: Client, name: str) -> ClaimRef:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    tree = await client.create(
        CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}, "default"
    )
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": NODE, "device": "gpu-0"}
    given = {**tree, "status": {"allocation": {"devices": {"results": [result]}}}}
    await client.update(CLAIMS, given, subresource="status")
    return ClaimRef("default", tree["metadata"]["uid"], name)


async def _rounds(plugin: KubeletPlugin, refs: Sequence[ClaimRef]) -> tuple[list[float], list[float]]:
    prepared, undone = [], []
    for ref in refs:
        begin = perf_counter()
        answer = (await plugin.prepare([ref]))[ref.uid]
        prepared.append(perf_counter() - begin)
        if answer.error:
            raise RuntimeError(answer.error)
        begin = perf_counter()
        await plugin.unprepare([ref])
        undone.append(perf_counter() - begin)
    return prepared, undone


async def _preparing() -> None:
    async with running(Settings(tls=False)) as plane:
        with tempfile.TemporaryDirectory(prefix="al-", dir=os.environ.get("ALLOTMENT_BENCH_DISK")) as folder:
            from allotment.cluster.remote.http_client import HttpClient
            from allotment.cluster.remote.kubeconfig import ClusterTarget

            place = Path(folder)
            async with HttpClient(ClusterTarget(plane.access.server), "gpu.nvidia.com") as client:
                driver = _Timed(SimulatedHardware(gpus_of(hardware("dgx-a100-40gb"), NODE), name=NODE), Full())
                host = DriverHost(
                    NODE, read_boot_id(), FileStorage(place / "checkpoint.json"), FolderStore(place / "cdi")
                )
                node_driver = NodeDriver(driver, host, client, Clock(), status=False)
                await node_driver.recover()
                await node_driver.discover_pools()
                names: Mapping[str, Sequence[ClaimRef]] = {
                    options: [await _claim(client, f"{options}-{n}") for n in range(ROUNDS)]
                    for options in ("direct", "socket")
                }
                prepared, undone = await _rounds(node_driver, names["direct"])
                _line(f"prepare a claim ({ROUNDS} times): total", _latencies(prepared))
                _line("  of which simulated hardware", f"mean {driver.seconds / ROUNDS * 1e3:5.2f} ms")
                _line("unprepare the claim", _latencies(undone))
                endpoint, registration = place / "dra.sock", place / "reg.sock"
                async with serve_plugin(node_driver, endpoint, registration, on_registered=lambda well, error: None):
                    known: list[PluginInfo] = []
                    await register(registration, known.append, known.clear)
                    async with PluginClient(known[0]) as plugin:
                        prepared, undone = await _rounds(plugin, names["socket"])
                _line("prepare a claim over the kubelet's socket", _latencies(prepared))


async def _publishing() -> None:
    begin = perf_counter()
    async with running(Settings(fleet=(f"dgx-a100-40gb:{NODES}",), tls=False)) as plane:
        seconds = perf_counter() - begin
        devices = sum(len(slice_["spec"]["devices"]) for slice_ in (await plane.client().list(SLICES)).items)
        _line(f"start a lab with {NODES:,} nodes and publish {devices:,} devices", f"{seconds:.1f} s")


def main() -> None:
    """Measure and print."""
    asyncio.run(_preparing())
    asyncio.run(_publishing())


if __name__ == "__main__":
    main()
