"""The articles' and NVIDIA's manifests, from the scheduler's allocation to the prepared devices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from allotment.drivers.driver import AllocatedClaim
from allotment.drivers.preparation.claims import allocated_devices
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.drivers.nvidia.nodes import NODE, SimulatedNode, env, simulated_node

Shared = Callable[[str], Path]


def spec_of(path: Path) -> Tree:
    """The first claim or template of a file."""
    for tree in yaml.safe_load_all(path.read_text()):
        if tree and tree["kind"] in ("ResourceClaim", "ResourceClaimTemplate"):
            spec: Tree = tree["spec"]
            template: Tree = spec.get("spec", spec)
            return template
    raise AssertionError(f"{path}: no claim")


async def prepare(n: SimulatedNode, path: Path, **devices: str) -> tuple[Tree, Any]:
    """Prepare a manifest's claim; ``devices``: the device of each request (``-`` written as ``_``)."""
    results = [
        {"request": request.replace("_", "-"), "driver": "gpu.nvidia.com", "pool": NODE, "device": device}
        for request, device in devices.items()
    ]
    spec = spec_of(path)
    requests = {request["name"] for request in spec["devices"]["requests"]}
    assert requests == {result["request"] for result in results}
    config = [{"source": "FromClaim", **entry} for entry in spec["devices"].get("config", ())]
    allocation = {"devices": {"results": results, "config": config}}
    tree = {"metadata": {"name": "c", "namespace": "d", "uid": "u"}, "spec": spec, "status": {"allocation": allocation}}
    claim = AllocatedClaim("u", "d", "c", allocated_devices(n.driver, tree, NODE, {NODE}))
    plan = n.driver.plan(claim)
    return plan, await n.driver.prepare(claim, plan)


def test_article_time_slicing(shared: Shared) -> None:
    async def scenario() -> None:
        n = await simulated_node()
        await prepare(n, shared("manifests/seed001-claim-timeslicing.yaml"), ts_gpu="gpu-0")
        assert n.card().interval == 3

    idle.run(scenario())


def test_article_mps(shared: Shared) -> None:
    async def scenario() -> None:
        n = await simulated_node()
        plan, _ = await prepare(n, shared("manifests/seed001-claim-mps.yaml"), mps_gpu="gpu-0")
        (daemon,) = n.daemons()
        assert (daemon.threads, list(daemon.memory_limits.values())) == (33, [5120])
        assert n.card().mode == "EXCLUSIVE_PROCESS"
        await n.driver.unprepare(plan)
        assert (n.card().mode, n.daemons()) == ("DEFAULT", [])

    idle.run(scenario())


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_one_claim_with_a_gpu_of_each_kind(shared: Shared, version: str) -> None:
    async def scenario() -> None:
        n = await simulated_node()
        path = shared(f"manifests/nvidia/quickstart/{version}/gpu-test5.yaml")
        _, ready = await prepare(n, path, ts_gpu="gpu-0", mps_gpu="gpu-1")
        assert (n.card(0).interval, n.card(1).interval) == (3, 0)
        (daemon,) = n.daemons()
        assert (daemon.threads, list(daemon.memory_limits.values())) == (50, [10240])
        sliced, served = ready.devices.values()
        assert ("CUDA_MPS_PIPE_DIRECTORY" in env(sliced), "CUDA_MPS_PIPE_DIRECTORY" in env(served)) == (False, True)

    idle.run(scenario())


@pytest.mark.parametrize(("file", "machine"), [("03-mps-Volta", "dgx-a100-40gb"), ("03-mps-preVolta", "t4")])
def test_demo_application_with_mps(shared: Shared, file: str, machine: str) -> None:
    async def scenario() -> None:
        n = await simulated_node(machine)
        path = shared(f"manifests/castai/{file}.yaml")
        (request,) = spec_of(path)["devices"]["requests"]
        await prepare(n, path, **{request["name"].replace("-", "_"): "gpu-0"})
        (daemon,) = n.daemons()
        assert (daemon.threads, list(daemon.memory_limits.values())) == (33, [1024])

    idle.run(scenario())


def test_gpu_of_a_virtual_machine(shared: Shared) -> None:
    async def scenario() -> None:
        n = await simulated_node(mode="vfio")
        await prepare(n, shared("manifests/nvidia/quickstart/v1/gpu-test-vfiopci.yaml"), gpu="gpu-vfio-0")
        assert n.card().vfio

    idle.run(scenario())
