"""All calls of both services by a client that is generated from the contracts, in plain text and over TLS."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from allotment.externalgrpc import errors, objects
from allotment.externalgrpc.cloud_provider import (
    CloudInstance,
    CloudNodeGroup,
    InstanceError,
    NodeGroupOptions,
    NodeRef,
    TemplateNode,
)
from allotment.externalgrpc.expander import ExpansionOption
from allotment.externalgrpc.server import ListenError, TlsFileError, TlsFiles, check_tls_files, serve
from allotment.externalgrpc.services import STATUS_CODES, cloud_provider_service, expander_service
from allotment.externalgrpc.wire import cloud_provider_pb2 as wire
from allotment.externalgrpc.wire import expander_pb2 as expander_wire
from allotment.lab.certificates import Identity, ensure, issue
from allotment.model.trees import Tree

PROTOS = Path(wire.__file__).parents[1] / "protos"
NODE: Tree = {"metadata": {"name": "next", "labels": {"a": "b"}}, "status": {"allocatable": {"cpu": "4"}}}
POD: Tree = {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": []}, "status": {}}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """The client code from gRPC's generator."""
    if importlib.util.find_spec("grpc_tools") is None:
        pytest.skip("grpcio-tools is not installed")
    out = tmp_path_factory.mktemp("stubs")
    here = "allotment/externalgrpc/wire"
    names = [f"{here}/{path.name}" for path in PROTOS.glob("*.proto")]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", f"{here}={PROTOS}", f"--grpc_python_out={out}"]
    subprocess.run([*protoc, *names], check=True)
    modules = {}
    for name in ("cloud_provider", "expander"):
        spec = importlib.util.spec_from_file_location(f"made_{name}", out / here / f"{name}_pb2_grpc.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        modules[name] = module
    return {"cloud": modules["cloud_provider"].CloudProviderStub, "expander": modules["expander"].ExpanderStub}


class FakeCloudProvider:
    """A cloud provider that records its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.fails: Exception | None = None

    def record(self, *call: Any) -> None:
        self.calls.append(call)
        if self.fails is not None:
            raise self.fails

    async def node_groups(self) -> Sequence[CloudNodeGroup]:
        self.record("node_groups")
        return (CloudNodeGroup("a", 0, 5, "cheap"), CloudNodeGroup("b", 1, 2))

    async def node_group_of(self, node: NodeRef) -> CloudNodeGroup | None:
        self.record("node_group_of", node)
        return CloudNodeGroup("a", 0, 5) if node.labels.get("managed") else None

    async def node_price(self, node: NodeRef, hours: float) -> float:
        self.record("node_price", node.name, hours)
        return 0.5 * hours

    async def pod_price(self, pod: Tree, hours: float) -> float:
        self.record("pod_price", pod["metadata"]["name"], hours)
        raise errors.UnimplementedError("pod prices are not supported")

    async def gpu_label(self) -> str:
        self.record("gpu_label")
        return "example.com/gpu"

    async def gpu_types(self) -> Sequence[str]:
        self.record("gpu_types")
        return ("T4", "H100")

    async def refresh(self) -> None:
        self.record("refresh")

    async def cleanup(self) -> None:
        self.record("cleanup")

    async def target_size(self, group: str) -> int:
        self.record("target_size", group)
        return 3

    async def increase_size(self, group: str, by: int) -> None:
        self.record("increase_size", group, by)

    async def delete_nodes(self, group: str, nodes: Sequence[NodeRef]) -> None:
        self.record("delete_nodes", group, tuple(node.name for node in nodes))

    async def decrease_target_size(self, group: str, by: int) -> None:
        self.record("decrease_target_size", group, by)

    async def instances(self, group: str) -> Sequence[CloudInstance]:
        self.record("instances", group)
        return (
            CloudInstance("x://1", "running"),
            CloudInstance("x://2", "creating", InstanceError("OUT", "none", True)),
        )

    async def template_node(self, group: str) -> TemplateNode:
        self.record("template_node", group)
        return TemplateNode(NODE)

    async def options(self, group: str, defaults: NodeGroupOptions) -> NodeGroupOptions | None:
        self.record("options", group, defaults)
        return defaults._replace(unneeded=7)


class LastOptionExpander:
    """Chooses the last option."""

    def __init__(self) -> None:
        self.calls: list[tuple[Sequence[ExpansionOption], Mapping[str, Tree]]] = []

    async def best_options(self, options: Sequence[ExpansionOption], nodes: Mapping[str, Tree]) -> Sequence[str]:
        self.calls.append((options, nodes))
        return [options[-1].group]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


class Keys(NamedTuple):
    """A CA and the certificates that it signed."""

    authority: Path
    server: Identity
    client: Identity

    @property
    def tls(self) -> TlsFiles:
        return TlsFiles(self.server.certificate, self.server.key)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return create_keys(tmp_path_factory.mktemp("keys"))


def create_keys(folder: Path) -> Keys:
    now = datetime.now(UTC)
    identities = ensure(folder, now)
    return Keys(identities.authority, identities.server, issue(folder, "cluster-autoscaler", (), now))


@asynccontextmanager
async def open_channel(
    port: int, keys: Keys | None = None, *, as_client: bool = False
) -> AsyncIterator[grpc.aio.Channel]:
    address = f"127.0.0.1:{port}"
    if keys is None:
        channel = grpc.aio.insecure_channel(address)
    else:
        pair = (keys.client.key.read_bytes(), keys.client.certificate.read_bytes()) if as_client else (None, None)
        channel = grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(keys.authority.read_bytes(), *pair))
    async with channel:
        yield channel


async def check_every_call(stub: Any, cloud: FakeCloudProvider) -> None:
    """Make all calls of an autoscaler and check the answers."""
    groups = await stub.NodeGroups(wire.NodeGroupsRequest())
    assert [(g.id, g.minSize, g.maxSize, g.debug) for g in groups.nodeGroups] == [("a", 0, 5, "cheap"), ("b", 1, 2, "")]
    known = wire.ExternalGrpcNode(providerID="x://1", name="n", labels={"managed": "yes"}, annotations={"k": "v"})
    assert (await stub.NodeGroupForNode(wire.NodeGroupForNodeRequest(node=known))).nodeGroup.id == "a"
    assert cloud.calls[-1] == ("node_group_of", NodeRef("x://1", "n", {"managed": "yes"}, {"k": "v"}))
    other = wire.ExternalGrpcNode(name="m")
    assert (await stub.NodeGroupForNode(wire.NodeGroupForNodeRequest(node=other))).nodeGroup.id == ""
    times = {"startTimestamp": Timestamp(seconds=0), "endTimestamp": Timestamp(seconds=7200)}
    assert (await stub.PricingNodePrice(wire.PricingNodePriceRequest(node=known, **times))).price == 1.0
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await stub.PricingPodPrice(wire.PricingPodPriceRequest(pod_bytes=objects.to_bytes(objects.POD, POD), **times))
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert error.value.code().value[0] == 12
    assert (await stub.GPULabel(wire.GPULabelRequest())).label == "example.com/gpu"
    assert set((await stub.GetAvailableGPUTypes(wire.GetAvailableGPUTypesRequest())).gpuTypes) == {"T4", "H100"}
    await stub.Refresh(wire.RefreshRequest())
    assert (await stub.NodeGroupTargetSize(wire.NodeGroupTargetSizeRequest(id="a"))).targetSize == 3
    await stub.NodeGroupIncreaseSize(wire.NodeGroupIncreaseSizeRequest(id="a", delta=2))
    assert cloud.calls[-1] == ("increase_size", "a", 2)
    await stub.NodeGroupDeleteNodes(wire.NodeGroupDeleteNodesRequest(id="a", nodes=[known, other]))
    assert cloud.calls[-1] == ("delete_nodes", "a", ("n", "m"))
    await stub.NodeGroupDecreaseTargetSize(wire.NodeGroupDecreaseTargetSizeRequest(id="a", delta=-1))
    assert cloud.calls[-1] == ("decrease_target_size", "a", 1)
    instances = (await stub.NodeGroupNodes(wire.NodeGroupNodesRequest(id="a"))).instances
    assert [(i.id, i.status.instanceState, i.status.errorInfo.instanceErrorClass) for i in instances] == [
        ("x://1", 1, 0), ("x://2", 2, 1),
    ]  # fmt: skip
    template = await stub.NodeGroupTemplateNodeInfo(wire.NodeGroupTemplateNodeInfoRequest(id="a"))
    assert objects.from_bytes(objects.NODE, template.nodeBytes)["status"]["allocatable"] == {"cpu": "4"}
    defaults = wire.NodeGroupAutoscalingOptions(scaleDownUtilizationThreshold=0.5)
    options = await stub.NodeGroupGetOptions(wire.NodeGroupAutoscalingOptionsRequest(id="a", defaults=defaults))
    assert options.nodeGroupAutoscalingOptions.scaleDownUtilizationThreshold == 0.5
    assert options.nodeGroupAutoscalingOptions.scaleDownUnneededDuration.nanos == 7
    await stub.Cleanup(wire.CleanupRequest())
    called = {call[0] for call in cloud.calls}
    assert called == {name for name in dir(FakeCloudProvider) if not name.startswith("_")} - {"record"}


def test_every_call_in_plain_text(stubs: Mapping[str, Any]) -> None:
    async def test() -> None:
        cloud = FakeCloudProvider()
        async with serve("127.0.0.1:0", [cloud_provider_service(cloud)]) as port, open_channel(port) as opened:
            await check_every_call(stubs["cloud"](opened), cloud)

    run(test)


def test_every_call_with_certificates_on_both_sides(stubs: Mapping[str, Any], keys: Keys) -> None:
    async def test() -> None:
        cloud = FakeCloudProvider()
        both = keys.tls._replace(client_authority=keys.authority)
        async with serve("127.0.0.1:0", [cloud_provider_service(cloud)], both) as port:
            async with open_channel(port, keys, as_client=True) as opened:
                await check_every_call(stubs["cloud"](opened), cloud)
            for anonymous in (keys, None):
                async with open_channel(port, anonymous) as opened:
                    with pytest.raises(grpc.aio.AioRpcError) as error:
                        await stubs["cloud"](opened).Refresh(wire.RefreshRequest(), timeout=50)
                    assert error.value.code() is grpc.StatusCode.UNAVAILABLE

    run(test)


def test_an_expander_is_called_over_tls(stubs: Mapping[str, Any], keys: Keys) -> None:
    async def test() -> None:
        chooser = LastOptionExpander()
        async with (
            serve("127.0.0.1:0", [expander_service(chooser)], keys.tls) as port,
            open_channel(port, keys) as opened,
        ):
            # As large as thousands of pods: gRPC's default limit is 4 MiB.
            heavy = {**POD, "metadata": {"name": "p", "annotations": {"a": "x" * 200_000}}}
            pods = [objects.to_bytes(objects.POD, {**heavy, "spec": {"nodeName": str(n)}}) for n in range(40)]
            request = expander_wire.BestOptionsRequest(
                options=[
                    expander_wire.Option(nodeGroupId="a", nodeCount=2, debug="d", podBytes=pods),
                    expander_wire.Option(nodeGroupId="b", nodeCount=1, podBytes=pods[:1]),
                ],
                nodeBytesMap={"a": objects.to_bytes(objects.NODE, NODE)},
            )
            answer = await stubs["expander"](opened).BestOptions(request, timeout=50)
            assert [(option.nodeGroupId, option.nodeCount) for option in answer.options] == [("b", 1)]
            ((options, nodes),) = chooser.calls
            assert [len(option.pods) for option in options] == [40, 1]
            assert nodes["a"]["metadata"]["name"] == "next"

    run(test)


@pytest.mark.parametrize("failure", STATUS_CODES, ids=lambda kind: kind.__name__)
def test_errors_of_a_cloud_provider_become_a_status(stubs: Mapping[str, Any], failure: type[errors.CallError]) -> None:
    async def test() -> None:
        cloud = FakeCloudProvider()
        cloud.fails = failure("no group of that name: x")
        async with serve("127.0.0.1:0", [cloud_provider_service(cloud)]) as port, open_channel(port) as opened:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stubs["cloud"](opened).NodeGroupTargetSize(wire.NodeGroupTargetSizeRequest(id="x"))
            assert (error.value.code(), error.value.details()) == (STATUS_CODES[failure], "no group of that name: x")

    run(test)


def test_an_unexpected_error_is_internal_and_logged(stubs: Mapping[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        cloud = FakeCloudProvider()
        cloud.fails = KeyError("x" * 20_000)
        async with serve("127.0.0.1:0", [cloud_provider_service(cloud)]) as port, open_channel(port) as opened:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stubs["cloud"](opened).Refresh(wire.RefreshRequest())
            assert error.value.code() is grpc.StatusCode.INTERNAL
            details = error.value.details()
            assert details is not None
            assert details.startswith("KeyError")
            assert details.endswith("...")

    run(test)
    assert "unexpected" in caplog.text


@pytest.mark.parametrize(
    ("call", "delta"), [("Increase", 0), ("Increase", -1), ("DecreaseTarget", 0), ("DecreaseTarget", 2)]
)
def test_size_changes_with_the_wrong_sign_are_rejected(stubs: Mapping[str, Any], call: str, delta: int) -> None:
    async def test() -> None:
        cloud = FakeCloudProvider()
        async with serve("127.0.0.1:0", [cloud_provider_service(cloud)]) as port, open_channel(port) as opened:
            request = getattr(wire, f"NodeGroup{call}SizeRequest")(id="a", delta=delta)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await getattr(stubs["cloud"](opened), f"NodeGroup{call}Size")(request)
            assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert not cloud.calls

    run(test)


def test_invalid_requests_are_reported(stubs: Mapping[str, Any]) -> None:
    async def test() -> None:
        async with serve("127.0.0.1:0", [expander_service(LastOptionExpander())]) as port, open_channel(port) as opened:
            garbled = opened.unary_unary(
                "/grpcplugin.Expander/BestOptions", request_serializer=None, response_deserializer=None
            )
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await garbled(b"\xff\xff")
            assert error.value.code() is grpc.StatusCode.INTERNAL
            request = expander_wire.BestOptionsRequest(options=[expander_wire.Option(podBytes=[b"\xff"])])
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stubs["expander"](opened).BestOptions(request)
            assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    run(test)


# --- listening --------------------------------------------------------------------------------------------------------


def test_an_address_in_use_is_reported() -> None:
    async def test() -> None:
        async with serve("127.0.0.1:0", [expander_service(LastOptionExpander())]) as port:
            with pytest.raises(ListenError, match=str(port)):
                async with serve(f"127.0.0.1:{port}", [expander_service(LastOptionExpander())]):
                    raise AssertionError("it listened twice")

    run(test)


def test_renewed_certificates_are_reloaded(stubs: Mapping[str, Any], tmp_path: Path) -> None:
    first, second = create_keys(tmp_path / "first"), create_keys(tmp_path / "second")
    used = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")

    def put(keys: Keys) -> None:
        for path, new in ((used.certificate, keys.server.certificate), (used.key, keys.server.key)):
            fresh = path.with_suffix(".new")
            fresh.write_bytes(new.read_bytes())
            fresh.replace(path)

    async def can_call(port: int, keys: Keys) -> bool:
        async with open_channel(port, keys) as opened:
            request = expander_wire.BestOptionsRequest(options=[expander_wire.Option(nodeGroupId="a")])
            call = stubs["expander"](opened).BestOptions(request, timeout=50)
            code = await call.code()
            assert code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE)
            return bool(code is grpc.StatusCode.OK)

    async def test() -> None:
        put(first)
        async with serve("127.0.0.1:0", [expander_service(LastOptionExpander())], used) as port:
            assert (await can_call(port, first), await can_call(port, second)) == (True, False)
            # In between, the two files do not match.
            used.key.write_bytes(second.server.key.read_bytes())
            assert await can_call(port, first)
            put(second)
            assert (await can_call(port, first), await can_call(port, second)) == (False, True)

    run(test)


def test_invalid_certificate_files_are_reported(keys: Keys, tmp_path: Path) -> None:
    check_tls_files(keys.tls._replace(client_authority=keys.authority))
    nothing = tmp_path / "nothing.pem"
    with pytest.raises(TlsFileError, match=r"nothing\.pem: no such file"):
        check_tls_files(keys.tls._replace(key=nothing))
    nothing.write_text("nothing")
    with pytest.raises(TlsFileError, match="expected a certificate and a key in PEM format"):
        check_tls_files(keys.tls._replace(certificate=nothing))
    with pytest.raises(TlsFileError, match="the key belongs to a different certificate"):
        check_tls_files(keys.tls._replace(key=keys.client.key))
    with pytest.raises(TlsFileError, match=r"nothing\.pem: expected certificates in PEM format"):
        check_tls_files(keys.tls._replace(client_authority=nothing))
