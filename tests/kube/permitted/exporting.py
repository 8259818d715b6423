"""The exporter follows the cluster and has values."""

from __future__ import annotations

from allotment.cluster.remote.http_client import HttpClient
from allotment.exporter.program import ExporterOptions, exporter
from tests.kube.permitted.ground import FEATURES, Account, Ground
from tests.kube.permitted.playing import running, scraped, until


async def play(ground: Ground, account: Account) -> None:
    """All of it."""
    made = exporter(ExporterOptions(FEATURES, build_interval=0.1, diagnosis_interval=0.1))

    async def known() -> bool:
        return any("device" in family.metric.name and family.samples for family in made.families())

    async with HttpClient(account.target) as client:
        await scraped(client, account.target.token)
        async with running(client, "exporter", made.program, leads=False):
            await until(known)
