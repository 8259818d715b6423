"""The program that serves the cloud provider, the expander, or both.

They need no leader election: a cloud provider acts only on requests, an expander changes nothing, and both have no
state of their own.
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
    """``cloud``, ``expander``: listen addresses; None: not served.

    ``slices_field``: field number of the template's slices in the autoscaler; 0: it has no such field.
    ``seconds``: time limit of the expander.
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


#: Called with both ports when they listen; 0 for a server that is off.
Ready = Callable[[int, int], None]


def servers(options: ServerOptions, ready: Ready) -> Program:
    """The program; runs until cancelled. Raises CannotListen and UnusableCertificate."""

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
