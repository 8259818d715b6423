"""grpc-go, which cluster-autoscaler uses, calls all methods of Allotment's servers with recorded requests."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from allotment.externalgrpc.server import serve
from allotment.externalgrpc.services import cloud_provider_service, expander_service
from tests.unit.externalgrpc.test_services import FakeCloudProvider, Keys, LastOptionExpander, create_keys

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "unit/externalgrpc/messages.json").read_text("utf-8")
)
CLOUD = "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
#: Method, and the index of its request among the recorded messages.
CALLS = (
    ("NodeGroups", "NodeGroupsRequest"),
    ("NodeGroupForNode", "NodeGroupForNodeRequest"),
    ("PricingNodePrice", "PricingNodePriceRequest"),
    ("PricingPodPrice", "PricingPodPriceRequest"),
    ("GPULabel", "GPULabelRequest"),
    ("GetAvailableGPUTypes", "GetAvailableGPUTypesRequest"),
    ("Cleanup", "CleanupRequest"),
    ("Refresh", "RefreshRequest"),
    ("NodeGroupTargetSize", "NodeGroupTargetSizeRequest"),
    ("NodeGroupIncreaseSize", "NodeGroupIncreaseSizeRequest"),
    ("NodeGroupDeleteNodes", "NodeGroupDeleteNodesRequest"),
    ("NodeGroupDecreaseTargetSize", "NodeGroupDecreaseTargetSizeRequest"),
    ("NodeGroupNodes", "NodeGroupNodesRequest"),
    ("NodeGroupTemplateNodeInfo", "NodeGroupTemplateNodeInfoRequest"),
    ("NodeGroupGetOptions", "NodeGroupAutoscalingOptionsRequest"),
)


@pytest.fixture(scope="session")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the program."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go not found: grpc-go is not tested")
    program = tmp_path_factory.mktemp("grpc_go") / "caller"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."], cwd=Path(__file__).parent / "grpc_go", capture_output=True, check=False
    )
    if built.returncode:
        pytest.skip(f"the Go program cannot be built: {built.stderr.decode()[-500:]}")
    return program


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return create_keys(tmp_path_factory.mktemp("keys"))


def request(message: str) -> str:
    """The first recorded message of a kind, in hex."""
    return next(str(line["hex"]) for line in RECORDED if line["message"].endswith(f".{message}"))


async def call(caller: Path, port: int, files: Sequence[Path], calls: Sequence[tuple[str, str]]) -> list[list[str]]:
    process = await asyncio.create_subprocess_exec(
        caller, f"127.0.0.1:{port}", *files, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    lines = "".join(f"{path} {data}\n" for path, data in calls)
    out, errors = await process.communicate(lines.encode())
    assert process.returncode == 0, errors.decode()
    return [line.split(" ", 1) for line in out.decode().splitlines()]


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "mutual TLS"])
def test_every_call_of_a_cloud_provider(caller: Path, keys: Keys, secure: bool) -> None:
    async def test() -> None:
        cloud = FakeCloudProvider()
        tls = keys.tls._replace(client_authority=keys.authority) if secure else None
        files = (keys.authority, keys.client.certificate, keys.client.key) if secure else ()
        calls = [(f"{CLOUD}/{method}", request(message)) for method, message in CALLS]
        async with serve("127.0.0.1:0", [cloud_provider_service(cloud)], tls) as port:
            answers = await call(caller, port, files, calls)
        by_method = dict(zip((method for method, _ in CALLS), answers, strict=True))
        assert by_method.pop("PricingPodPrice") == ["Unimplemented", "pod prices are not supported"]
        assert {status for status, *_ in answers} == {"OK", "Unimplemented"}
        assert {arguments[0] for arguments in cloud.calls} == {
            name for name in dir(FakeCloudProvider) if not name.startswith("_")
        } - {"record"}
        assert ("increase_size", "aws/g5.xlarge/eu-central-1a/on-demand", 3) in cloud.calls
        assert ("decrease_target_size", "aws/g5.xlarge/eu-central-1a/on-demand", 2) in cloud.calls
        assert ("node_price", "gpu-0", 1.5) in cloud.calls
        # Field 1, a varint: 3 machines.
        assert by_method["NodeGroupTargetSize"] == ["OK", "0803"]

    asyncio.run(test())


def test_the_call_of_an_expander(caller: Path, keys: Keys) -> None:
    async def test() -> None:
        async with serve("127.0.0.1:0", [expander_service(LastOptionExpander())], keys.tls) as port:
            best_options = ("/grpcplugin.Expander/BestOptions", request("BestOptionsRequest"))
            answers = await call(caller, port, (keys.authority,), [best_options])
        recorded = next(line for line in RECORDED if line["message"].endswith("BestOptionsResponse") and line["hex"])
        assert answers == [["OK", recorded["hex"]]]

    asyncio.run(test())
