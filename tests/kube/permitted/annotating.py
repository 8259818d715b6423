"""The annotator tells a pod why it waits, tells it when the reason is another one, and remembers what it told."""

from __future__ import annotations

from functools import partial

from allotment.annotator.program import Options, annotator
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CLAIMS, NEW_EVENTS, PODS
from tests.kube.permitted.ground import FEATURES, Account, Ground, there
from tests.kube.permitted.playing import renewed, running, scraped, until
from tests.kube.permitted.scheduling import claim, pod


async def play(ground: Ground, account: Account) -> None:
    """All of it."""
    name = f"waits-{ground.mark()}"
    async with ground.client() as admin, HttpClient(account.target) as client:
        await scraped(client, account.target.token)

        async def told(text: str, times: int = 1) -> bool:
            events = (await admin.list(NEW_EVENTS, "default", fields=f"regarding.name={name}")).items
            return any(text in one["note"] and (one.get("series") or {}).get("count", 1) >= times for one in events)

        other = claim(name)
        other["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "none"
        program = annotator(Options(FEATURES, patience=0.0, every=0.1))
        async with running(client, "annotator", program), there(admin, (PODS, pod(name, name, schedulerName="none"))):
            for tree, text, times in (
                (claim(name, 9), "9 devices", 1),
                (other, "none", 1),
                (claim(name, 9), "9 devices", 2),
            ):
                async with there(admin, (CLAIMS, tree)):
                    await until(partial(told, text, times))
            await renewed(admin, "annotator")
