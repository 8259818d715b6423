"""The annotator writes an event with the reason of a pending pod, updates it when the reason changes, and finds its old
events."""

from __future__ import annotations

from functools import partial

from allotment.annotator.program import Options, annotator
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CLAIMS, NEW_EVENTS, PODS
from tests.kube.permissions.environment import Account, ScenarioCluster, temporary_objects
from tests.kube.permissions.runner import running_component, scrape, wait_for_lease, wait_until
from tests.kube.permissions.scheduler import claim, pod


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run the whole scenario."""
    name = f"waits-{cluster.unique_name()}"
    async with cluster.client() as admin, HttpClient(account.target) as client:
        await scrape(client, account.target.token)

        async def is_reported(text: str, times: int = 1) -> bool:
            events = (await admin.list(NEW_EVENTS, "default", fields=f"regarding.name={name}")).items
            return any(
                text in event["note"] and (event.get("series") or {}).get("count", 1) >= times for event in events
            )

        other = claim(name)
        other["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "none"
        program = annotator(Options(cluster.features, delay=0.0, every=0.1))
        async with (
            running_component(client, "annotator", program),
            temporary_objects(admin, (PODS, pod(name, name, schedulerName="none"))),
        ):
            for tree, text, times in (
                (claim(name, 9), "9 devices", 1),
                (other, "none", 1),
                (claim(name, 9), "9 devices", 2),
            ):
                async with temporary_objects(admin, (CLAIMS, tree)):
                    await wait_until(partial(is_reported, text, times))
            await wait_for_lease(admin, "annotator")
