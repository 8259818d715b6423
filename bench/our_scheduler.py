"""Our scheduler as a process of its own, on whatever API server a kubeconfig names: what is measured and killed.

``python -m bench.our_scheduler KUBECONFIG [NAME] [SECONDS]`` runs until it is ended. NAME is the ``schedulerName`` of
its pods; SECONDS is how long it settles beside other schedulers (see `allotment.scheduler.settling`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from pathlib import Path
from random import Random

from allotment.cluster import program
from allotment.cluster.cache import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.http import HttpClient
from allotment.cluster.kubeconfig import target
from allotment.cluster.recorder import Events
from allotment.lab.serving import new_event_loop
from allotment.model.features import Features
from allotment.scheduler.program import DEFAULT_NAME, Options, scheduler

FEATURES = Features(kube="1.36")


async def serve(options: Options, kubeconfig: Path) -> None:
    """Schedule for ever."""
    where = target([kubeconfig])
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(HttpClient(where, "allotment-scheduler"))

        def client_for(name: str, manager: str = "") -> HttpClient:
            return client

        clock, random = Clock(), Random()
        caches = Caches(client, clock=clock, random=random)
        context = program.Context(client_for, caches, clock, Events(client, clock=clock), random)
        await program.run({"scheduler": scheduler(options)}, context)


def main() -> int:
    """See the module."""
    kubeconfig, *more = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    options = Options(FEATURES, name=more[0] if more else DEFAULT_NAME)
    if len(more) > 1:
        options = options._replace(settle=float(more[1]))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(options, Path(kubeconfig)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
