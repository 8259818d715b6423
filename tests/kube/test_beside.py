"""Our scheduler beside kube-scheduler, on the same devices; ``python -m tests.storm.beside`` does it at length.

kube-scheduler never looks whether a device that it has decided on was given away meanwhile, and it forgets who holds a
device that two claims were given. So all care is ours.
"""

from __future__ import annotations

import asyncio
from functools import partial

from allotment.cluster.resources import PODS
from tests.storm.beside import Seen, all_fit, both, contend, furnish, pod_spec, seen

#: Seconds; kube-scheduler may decide on what it saw so long ago, on a machine that has much to do.
SETTLE = 5.0


def test_all_that_fits_is_bound_and_no_device_twice_while_ours_is_killed(paths: dict[str, str]) -> None:
    with both(paths, SETTLE) as (plane, our):
        outcome = asyncio.run(all_fit(plane, our, pods=240, others=60, nodes=13, gpus=24, kills=2, seed=1))
    assert outcome.wrong == []
    assert outcome.used_twice == []
    assert outcome.bound == {"ours": 240, "default-scheduler": 60}
    assert our.kills == 2


def test_two_that_fight_for_devices_never_both_use_one(paths: dict[str, str]) -> None:
    with both(paths, SETTLE) as (plane, our):
        outcome = asyncio.run(contend(plane, our, seconds=20, nodes=5, gpus=4, kills=2, seed=3))
    assert outcome.wrong == []
    assert outcome.used_twice == []
    assert min(outcome.bound.values()) > 0


def test_pods_of_others_are_left_alone(paths: dict[str, str]) -> None:
    async def story() -> None:
        async with seen(plane) as cluster:
            await furnish(cluster.client, 1, 1)
            for name, scheduler in (("theirs", "nobody"), ("mine", "ours")):
                pod = {"metadata": {"name": name}, "spec": pod_spec(scheduler)}
                await cluster.client.create(PODS, pod, "default")
                assert await cluster.until(partial(_named, cluster, name), 300)
            assert await cluster.until(lambda: cluster.bound() == {"ours": 1}, 300)
            theirs = await cluster.client.get(PODS, "theirs", "default")
            assert "nodeName" not in theirs["spec"]
            assert "conditions" not in theirs["status"]

    with both(paths, None) as (plane, _):
        asyncio.run(story())


def _named(cluster: Seen, name: str) -> bool:
    pod = cluster.pods.item("default", name)
    return pod is not None and bool(pod.status.get("resourceClaimStatuses"))
