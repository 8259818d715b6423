"""Allotment's scheduler with kube-scheduler, on the same devices; ``python -m tests.storm.coexistence`` runs longer.

kube-scheduler never checks whether a device that it decided on was allocated meanwhile, and it forgets who uses a
device that is allocated to two claims. So Allotment's scheduler must avoid such conflicts alone. It cannot if
kube-scheduler decides on a state that is older than the settle time, as it may on a loaded machine: then Allotment's
pod is evicted, and at the end no device is used twice, either.
"""

from __future__ import annotations

import asyncio
from functools import partial

from allotment.cluster.resources import PODS
from tests.storm.coexistence import (
    ALLOTMENT_SCHEDULER,
    WatchedCluster,
    all_fit,
    both_schedulers,
    contend,
    create_objects,
    pod_spec,
    watched_cluster,
)

#: Settle time in seconds.
SETTLE = 5.0


def test_all_pods_are_bound_and_no_device_is_allocated_twice_while_allotment_is_killed(paths: dict[str, str]) -> None:
    with both_schedulers(paths, SETTLE) as (plane, our):
        outcome = asyncio.run(all_fit(plane, our, pods=240, others=60, nodes=13, gpus=24, kills=2, seed=1))
    assert outcome.final_errors == []
    assert outcome.used_twice == []
    assert outcome.bound == {ALLOTMENT_SCHEDULER: 240, "default-scheduler": 60}
    assert our.kills == 2


def test_competing_pods_never_use_the_same_device(paths: dict[str, str]) -> None:
    with both_schedulers(paths, SETTLE) as (plane, our):
        outcome = asyncio.run(contend(plane, our, seconds=20, nodes=5, gpus=4, kills=2, seed=3))
    assert outcome.final_errors == []
    assert outcome.used_twice == []
    assert min(outcome.bound.values()) > 0


def test_pods_of_other_schedulers_are_ignored(paths: dict[str, str]) -> None:
    async def scenario() -> None:
        async with watched_cluster(plane) as cluster:
            await create_objects(cluster.client, 1, 1)
            for name, scheduler in (("other", "other-scheduler"), ("own", ALLOTMENT_SCHEDULER)):
                pod = {"metadata": {"name": name}, "spec": pod_spec(scheduler)}
                await cluster.client.create(PODS, pod, "default")
                assert await cluster.wait_until(partial(_read_pod, cluster, name), 300)
            assert await cluster.wait_until(lambda: cluster.bound() == {ALLOTMENT_SCHEDULER: 1}, 300)
            other_pod = await cluster.client.get(PODS, "other", "default")
            assert "nodeName" not in other_pod["spec"]
            assert "conditions" not in other_pod["status"]

    with both_schedulers(paths, None) as (plane, _):
        asyncio.run(scenario())


def _read_pod(cluster: WatchedCluster, name: str) -> bool:
    pod = cluster.pods.item("default", name)
    return pod is not None and bool(pod.status.get("resourceClaimStatuses"))
