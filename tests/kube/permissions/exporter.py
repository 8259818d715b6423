"""The exporter watches the cluster and serves its metrics."""

from __future__ import annotations

from allotment.cluster.remote.http_client import HttpClient
from allotment.exporter.program import ExporterOptions, exporter
from tests.kube.permissions.environment import Account, ScenarioCluster
from tests.kube.permissions.runner import running_component, scrape, wait_until


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run the whole scenario."""
    created = exporter(ExporterOptions(cluster.features, build_interval=0.1, diagnosis_interval=0.1))

    async def known() -> bool:
        return any("device" in family.metric.name and family.samples for family in created.families())

    async with HttpClient(account.target) as client:
        await scrape(client, account.target.token)
        async with running_component(client, "exporter", created.program, leads=False):
            await wait_until(known)
