"""A few fixed random scenarios: kube-scheduler, Allotment's scheduler and explain agree on every pod."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from tests.kube.differential.runner import cluster, scenario_runner
from tests.kube.differential.search import search

#: One scenario of each theme but the last, on which kube-scheduler takes five seconds and more per pod. The first has
#: pods that are placed and pods that are not, in case there is time for no other; then follow the fields new in 1.37.
SEEDS: Final = (5018, *range(5026, 5031), *range(5015, 5018), *range(5019, 5026))
#: Time limit; ``python -m tests.kube.differential`` runs the remaining scenarios.
SECONDS: Final = 30.0


def test_kube_scheduler_and_allotment_scheduler_agree(paths: dict[str, str]) -> None:
    differences: list[str] = []

    async def scenarios() -> Mapping[str, int]:
        with cluster(paths) as running:
            async with scenario_runner(running) as place:
                await search(place, SEEDS, SECONDS, differences.append)
                return place.counts

    counts = asyncio.run(scenarios())
    assert not differences, "\n".join(differences)
    assert counts["bound"], "nothing was placed, so nothing was compared"
    assert counts["Unschedulable"], "everything was placed"
