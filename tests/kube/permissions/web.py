"""The page reads all kinds that it shows, and serves its metrics."""

from __future__ import annotations

import asyncio
import contextlib

from allotment.api.clusters.source import ClusterOrigin
from allotment.cluster.clock import Clock
from allotment.cluster.remote.http_client import HttpClient
from allotment.components.diagnostic_endpoints import MetricsAuthorizer
from allotment.watched.builder import ClusterIdentity
from allotment.watched.cluster import WatchedCluster
from allotment.watched.live import LiveFeed
from tests.kube.permissions.environment import NODE, Account, ScenarioCluster
from tests.kube.permissions.runner import SPEED


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run the whole scenario."""
    async with HttpClient(account.target) as client:
        verdict = await MetricsAuthorizer(client).review(account.target.token)
        assert verdict in ("allowed", "forbidden"), "it is known; it reads the server's own metrics"
    identity = ClusterIdentity(ClusterOrigin("cluster"), "scenario", "cluster")
    feed = LiveFeed(lambda: HttpClient(account.target, retry_seconds=0), identity, clock=Clock(SPEED))
    watched = WatchedCluster(feed.builder.first("connecting"), feed)
    following = asyncio.create_task(watched.run())
    try:
        view = watched.view()
        while view.error or view.unread or not any(node.node == NODE for node in view.free.nodes):
            view = await watched.changed(view.revision)
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
