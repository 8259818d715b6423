"""Both servers as a program on any cluster: the cloud provider, the expander, or one of them.

They need no leader: a cloud provider changes only what it is told to, and an expander changes nothing. All that they
know is the cluster's and the provider's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from allotment.autoscaler.cluster_autoscaler.cloud_provider import DEFAULT_SETTINGS, Cloud, CloudSettings
from allotment.autoscaler.cluster_autoscaler.expander import CheapestExpander
from allotment.autoscaler.cluster_autoscaler.node_groups import NodeGroup
from allotment.autoscaler.provider import Provider
from allotment.cluster.caches import all_synced
from allotment.cluster.program import Program, ProgramContext
from allotment.cluster.resources import NODES
from allotment.externalgrpc.server import TlsFiles, serve
from allotment.externalgrpc.services import cloud_provider_service, expander_service
from allotment.fleet.catalog import InstanceType
from allotment.model.features import Features


class ListenAddress(NamedTuple):
    """``HOST:PORT``, and the files for TLS."""

    address: str
    tls: TlsFiles | None = None


class ServerOptions(NamedTuple):
    """``cloud``, ``expander``: where each is served; None: it is not.

    ``slices_field``: number of a template's slices in the autoscaler that asks; 0: it has no such field.
    ``seconds``: how long an expander may think.
    """

    groups: Sequence[NodeGroup]
    catalog: Sequence[InstanceType]
    features: Features
    provider: Callable[[ProgramContext], Provider] | None = None
    cloud: ListenAddress | None = None
    expander: ListenAddress | None = None
    settings: CloudSettings = DEFAULT_SETTINGS
    slices_field: int = 0
    seconds: float = 4.0


#: Told the ports when both listen, 0 for the one that does not.
Ready = Callable[[int, int], None]


def servers(options: ServerOptions, ready: Ready) -> Program:
    """The program. It raises CannotListen and UnusableCertificate, and otherwise runs for ever."""

    async def run(context: ProgramContext) -> None:
        async with AsyncExitStack() as stack:
            ports = [0, 0]
            if options.cloud is not None:
                assert options.provider is not None
                nodes = context.caches.trees(NODES)
                await all_synced(nodes)

                def provider_id(name: str) -> str | None:
                    node = nodes.item("", name)
                    return None if node is None else str(node.spec.get("providerID") or "")

                provider = options.provider(context)
                cloud = Cloud(options.groups, provider, provider_id, context.random, options.settings)
                service = cloud_provider_service(cloud, options.slices_field)
                ports[0] = await stack.enter_async_context(serve(options.cloud.address, [service], options.cloud.tls))
            if options.expander is not None:
                chooser = CheapestExpander(
                    context.caches, options.groups, options.catalog, options.features, options.seconds
                )
                await chooser.synced()
                service = expander_service(chooser)
                where = options.expander
                ports[1] = await stack.enter_async_context(serve(where.address, [service], where.tls))
            ready(*ports)
            await asyncio.Event().wait()

    return run
