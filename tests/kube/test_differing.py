"""Worlds at random, a few of them, always the same: kube-scheduler, our scheduler and explain agree on every pod."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from tests.kube.differing.place import cluster, place_on
from tests.kube.differing.searching import searched

#: One world of each theme but the last, for which kube-scheduler takes five seconds and more a pod. In the first there
#: are pods that find a place, and pods that do not, should there be time for no other.
SEEDS: Final = (*range(5008, 5017), 5018, 5006, 5007)
#: At most; the worlds that are left are for ``python -m tests.kube.differing``.
SECONDS: Final = 30.0


def test_kube_scheduler_and_ours_agree(paths: dict[str, str]) -> None:
    told: list[str] = []

    async def story() -> Mapping[str, int]:
        with cluster(paths) as running:
            async with place_on(running) as place:
                await searched(place, SEEDS, SECONDS, told.append)
                return place.counts

    counts = asyncio.run(story())
    assert not told, "\n".join(told)
    assert counts["bound"], "nothing was placed, so nothing was compared"
    assert counts["Unschedulable"], "everything was placed"
