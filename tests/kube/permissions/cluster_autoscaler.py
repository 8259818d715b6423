"""Both servers for cluster-autoscaler: a group scales up, also after a lost answer and with MIG devices; a machine that
cannot be provisioned is reported; machines are deleted; and the best group for a pod is chosen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from allotment import grpc_codec
from allotment.autoscaler.cluster_autoscaler.node_groups import groups_of, parse_nodes
from allotment.autoscaler.cluster_autoscaler.program import ListenAddress, ServerOptions, servers
from allotment.autoscaler.providers.karpenter import NODE_CLAIMS, Karpenter, MigManager
from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS, PODS
from allotment.externalgrpc import encoding, objects
from allotment.externalgrpc.expander import ExpansionOption
from allotment.externalgrpc.wire import cloud_provider_pb2 as wire
from allotment.externalgrpc.wire import expander_pb2 as expander_wire
from allotment.fleet.catalog import catalog
from allotment.model.trees import Tree
from allotment.planning.limits import PlanLimits
from tests.kube.permissions.autoscaler import wait_until_empty
from tests.kube.permissions.environment import Account, ScenarioCluster, force_delete, temporary_objects
from tests.kube.permissions.runner import InterferingClient, running_component
from tests.kube.permissions.scheduler import claim, pod
from tests.unit.externalgrpc import autoscaler

M = TypeVar("M", bound=Message)

_NODES: Final = ("0:4:aws/g4dn.xlarge", "0:4:aws/p4d.24xlarge/static-mig=1g.5gb:7")
_SECONDS: Final = 120


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run the whole scenario."""
    name = f"asks-{cluster.unique_name()}"
    types = tuple(instance for instance in catalog() if instance.key in ("aws/g4dn.xlarge", "aws/p4d.24xlarge"))
    groups = groups_of(types, [parse_nodes(text) for text in _NODES], PlanLimits(zones=("us-east-1a",)))
    known: list[str] = []
    async with cluster.client() as admin:

        async def before(verb: str, resource: Resource, tree: Tree, subresource: str) -> None:
            if resource == NODE_CLAIMS and not known:
                # As after an order whose answer was lost: the object exists already.
                known.append((await admin.create(NODE_CLAIMS, tree))["metadata"]["name"])

        async with (
            wait_until_empty(admin),
            InterferingClient(account.target, before) as client,
            temporary_objects(admin, (CLAIMS, claim(name)), (PODS, pod(name, name))) as (_, waits),
        ):
            ports: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
            listening = ListenAddress("127.0.0.1:0")
            options = ServerOptions(
                groups,
                types,
                cluster.features,
                lambda context: Karpenter(client, mig=MigManager()),
                listening,
                listening,
            )
            program = servers(options, lambda *both: ports.set_result(both))
            async with (
                running_component(client, "cluster-autoscaler", program, leads=False),
                _connect(ports) as (cloud, expander),
            ):
                for group in groups:
                    await cloud(
                        "NodeGroupIncreaseSize", wire.NodeGroupIncreaseSizeRequest(id=group.id, delta=1),
                        wire.NodeGroupIncreaseSizeResponse,
                    )  # fmt: skip
                await force_delete(admin, NODE_CLAIMS, known[0])
                await cloud("Refresh", wire.RefreshRequest(), wire.RefreshResponse)
                for group in groups:
                    error = await cloud(
                        "NodeGroupNodes", wire.NodeGroupNodesRequest(id=group.id), wire.NodeGroupNodesResponse
                    )
                    nodes = [wire.ExternalGrpcNode(name=instance.id) for instance in error.instances]
                    await cloud(
                        "NodeGroupDeleteNodes", wire.NodeGroupDeleteNodesRequest(id=group.id, nodes=nodes),
                        wire.NodeGroupDeleteNodesResponse,
                    )  # fmt: skip
                first = groups[0].id
                template = await cloud(
                    "NodeGroupTemplateNodeInfo", wire.NodeGroupTemplateNodeInfoRequest(id=first),
                    wire.NodeGroupTemplateNodeInfoResponse,
                )  # fmt: skip
                node = objects.from_bytes(objects.NODE, template.nodeBytes)
                question = autoscaler.encode_expander_request([ExpansionOption(first, 1, "", (waits,))], {first: node})
                best = await expander("BestOptions", question, expander_wire.BestOptionsResponse)
                assert [option.nodeGroupId for option in best.options] == [first]


class _Calls:
    """The calls of one server."""

    def __init__(self, channel: grpc.aio.Channel, service: str) -> None:
        self._channel, self._service = channel, service

    async def __call__(self, name: str, request: Message, answer: type[M]) -> M:
        path = f"/{self._service}/{name}"
        method = self._channel.unary_unary(path, request_serializer=grpc_codec.encode, response_deserializer=bytes)
        return grpc_codec.decode(answer, await method(request, timeout=_SECONDS, wait_for_ready=True))


@contextlib.asynccontextmanager
async def _connect(ports: asyncio.Future[tuple[int, int]]) -> AsyncIterator[tuple[_Calls, _Calls]]:
    """The clients of the cloud provider and of the expander, once both listen."""
    cloud, expander = await ports
    async with (
        grpc.aio.insecure_channel(f"127.0.0.1:{cloud}") as first,
        grpc.aio.insecure_channel(f"127.0.0.1:{expander}") as second,
    ):
        yield _Calls(first, encoding.CLOUD_PROVIDER), _Calls(second, encoding.EXPANDER)
