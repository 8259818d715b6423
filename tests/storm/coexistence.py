"""Allotment's scheduler alongside kube-scheduler on a real control plane, on the same nodes and devices, killed at
random.

``python -m tests.storm.coexistence --pods 2000`` runs both at the same time, with enough devices for all: every pod
gets a node, no device is allocated twice. With ``--contend SECONDS`` both compete for half as many devices as there are
pods, which are created and deleted, and the devices that two bound pods had are counted. ``--settle`` sets the settle
time of Allotment's scheduler; ``--slow`` leaves kube-scheduler its default client limits (50 requests a second).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import Caches, all_synced
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DEVICE_CLASSES, NODES, PODS, REPLICA_SETS, SLICES
from allotment.model.trees import Tree
from bench import real_kube
from tests.storm.double_use import DoubleUseDetector, state_errors

ALLOTMENT_SCHEDULER: Final = "allotment-scheduler"
KUBE_SCHEDULER: Final = "default-scheduler"
_NAMESPACE: Final = "default"
_DRIVER: Final = "gpu.example.com"
#: The seconds within which the controllers and Allotment's scheduler, which has to restart, clean up.
_CLEANUP_SECONDS: Final = 120


class Outcome(NamedTuple):
    """The outcome of a run. ``used_twice``: devices that two bound pods used, which Allotment's scheduler could have
    prevented. ``too_late``: those it could not (see `DoubleUseDetector`). ``final_errors``: errors in the final state.
    """

    seconds: float
    bound: dict[str, int]
    kills: int
    double_allocations: int
    used_twice: list[str]
    too_late: list[str]
    final_errors: list[str]
    log: str

    def text(self) -> str:
        """The outcome as text."""
        bound = ", ".join(f"{count} by {name}" for name, count in sorted(self.bound.items()))
        given_up = self.log.count("and is evicted")
        return (
            f"{self.seconds:.0f} s, {self.kills} kills; bound: {bound}; devices allocated to two claims: "
            f"{self.double_allocations}, to two pods with nodes: {len(self.used_twice)}, too late to prevent: "
            f"{len(self.too_late)} (allotment-scheduler gave way after binding: {given_up}); "
            f"wrong at the end: {len(self.final_errors)}"
        )


class SchedulerProcess:
    """Allotment's scheduler as a process that can be killed."""

    def __init__(self, plane: real_kube.ApiServer, settle: float | None) -> None:
        self._plane = plane
        more = [] if settle is None else ["--bind-delay", f"{settle}s"]
        self._command = [
            sys.executable, "-m", "allotment.cli.main", "run", "scheduler", "--scheduler-name", ALLOTMENT_SCHEDULER,
            "--kubeconfig", str(plane.kubeconfig), *more,
        ]  # fmt: skip
        self.kills = 0

    def start(self) -> None:
        """Start it, also after it was killed."""
        self._plane.start("our-scheduler", command=self._command)

    def kill(self) -> None:
        """Kill it with SIGKILL, and start it again."""
        self._plane.stop("our-scheduler", signal.SIGKILL)
        self.kills += 1
        self.start()

    def log(self) -> str:
        """Its whole log."""
        return (self._plane.folder / "our-scheduler.log").read_text(errors="replace")


@contextmanager
def both_schedulers(
    paths: dict[str, str], settle: float | None, *, slow: bool = False
) -> Iterator[tuple[real_kube.ApiServer, SchedulerProcess]]:
    """A control plane with kube-scheduler and Allotment's scheduler."""
    with real_kube.plane(paths, scheduler=not slow) as plane:
        if slow:
            port = plane.port()
            flags = (f"--kubeconfig={plane.kubeconfig}", f"--secure-port={port}", "--permit-port-sharing")
            more = ("--bind-address=127.0.0.1", "--authentication-skip-lookup=true", "--leader-elect=false")
            plane.start("kube-scheduler", *flags, *more)
            plane.ready("kube-scheduler", port, "/readyz")
        process = SchedulerProcess(plane, settle)
        process.start()
        yield plane, process


class WatchedCluster(NamedTuple):
    """The cluster's state as the storm watches it."""

    client: Client
    pods: Cache[Any]
    claims: Cache[Any]
    detector: DoubleUseDetector

    def bound(self) -> dict[str, int]:
        """The number of pods with nodes, by scheduler."""
        counts: dict[str, int] = {}
        for item in self.pods.items():
            if item.spec.get("nodeName") and not item.deleting:
                name = item.spec["schedulerName"]
                counts[name] = counts.get(name, 0) + 1
        return counts

    async def wait_until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition, at most this long; return whether it was met."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.1)
        return True


@asynccontextmanager
async def watched_cluster(plane: real_kube.ApiServer) -> AsyncIterator[WatchedCluster]:
    """Watch the cluster, and complete the deletion of pods, as kubelets do."""
    async with plane.client("storm") as client:
        caches = Caches(client, clock=Clock(), random=random.Random())
        pods, claims = caches.trees(PODS), caches.trees(CLAIMS)
        tasks: set[asyncio.Task[None]] = set()

        def reap(old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
            if new is not None and new.deleting and new.spec.get("nodeName"):
                task = asyncio.create_task(_delete(client, new))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        running = asyncio.create_task(caches.run())
        try:
            await all_synced(pods, claims)
            pods.on_change(reap)
            yield WatchedCluster(client, pods, claims, DoubleUseDetector(pods, claims, ALLOTMENT_SCHEDULER))
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def _delete(client: Client, pod: CachedItem[Tree]) -> None:
    with contextlib.suppress(StatusError):
        await client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=0)


async def create_objects(client: Client, nodes: int, gpus: int) -> None:
    """Create nodes with GPUs, a class, and templates for one GPU and for two; no kubelets run."""
    selector = {"cel": {"expression": f"device.driver == '{_DRIVER}'"}}
    await client.create(DEVICE_CLASSES, {"metadata": {"name": _DRIVER}, "spec": {"selectors": [selector]}})
    for count in (1, 2):
        requests = [{"name": "gpu", "exactly": {"deviceClassName": _DRIVER, "count": count}}]
        spec = {"spec": {"devices": {"requests": requests}}}
        await client.create(CLAIM_TEMPLATES, {"metadata": {"name": f"gpus-{count}"}, "spec": spec}, _NAMESPACE)
    for number in range(nodes):
        name = f"n{number:03}"
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await client.create(NODES, {"metadata": {"name": name}, "status": status})
        await client.patch(NODES, name, {"spec": {"taints": None}})  # admission taints new nodes
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{index}"} for index in range(gpus)]
        published = {"driver": _DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        await client.create(SLICES, {"metadata": {"name": name}, "spec": published})


def pod_spec(scheduler: str, gpus: int = 1) -> Tree:
    """A pod that requests GPUs of its own."""
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}, "claims": [{"name": "gpu"}]}
    return {
        "schedulerName": scheduler, "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "cuda", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": f"gpus-{gpus}"}],
    }  # fmt: skip


def replica_set(name: str, replicas: int, scheduler: str) -> Tree:
    """A ReplicaSet, which creates pods again when they are evicted."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(scheduler)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def all_fit(
    plane: real_kube.ApiServer, process: SchedulerProcess, *, pods: int, others: int, nodes: int, gpus: int,
    kills: int, seed: int, timeout: float = 600.0,
) -> Outcome:  # fmt: skip
    """Both schedule at the same time, with enough devices for all; Allotment's scheduler is killed meanwhile."""
    rng = random.Random(seed)
    async with watched_cluster(plane) as cluster:
        await create_objects(cluster.client, nodes, gpus)
        await asyncio.sleep(1)
        start = time.monotonic()
        for name, count, scheduler in (("allotment", pods, ALLOTMENT_SCHEDULER), ("kube", others, KUBE_SCHEDULER)):
            await cluster.client.create(REPLICA_SETS, replica_set(name, count, scheduler), _NAMESPACE)
        expected = {ALLOTMENT_SCHEDULER: pods, KUBE_SCHEDULER: others}
        for number in range(kills):
            enough = (number + rng.random()) / kills * pods  # at various times
            if not await cluster.wait_until(partial(_has_bound, cluster, enough), timeout):
                break
            await asyncio.sleep(rng.random() * 0.3)
            process.kill()
        await cluster.wait_until(lambda: cluster.bound() == expected, timeout)
        seconds = time.monotonic() - start
        await asyncio.sleep(2)
        found = await _errors(cluster, expected)
        detector = cluster.detector
        return Outcome(
            seconds, cluster.bound(), process.kills, len(detector.double_allocations), detector.preventable,
            detector.too_late, found, process.log(),
        )  # fmt: skip


def _has_bound(cluster: WatchedCluster, enough: float) -> bool:
    return cluster.bound().get(ALLOTMENT_SCHEDULER, 0) >= enough


async def contend(
    plane: real_kube.ApiServer,
    process: SchedulerProcess,
    *,
    seconds: float,
    nodes: int,
    gpus: int,
    kills: int,
    seed: int,
) -> Outcome:
    """Both compete for few devices: pods request twice as many as there are, are created and deleted, and Allotment's
    scheduler is killed.

    The faster one may get all of them. So the other one gets no new pods until Allotment's has had a device, too.
    """
    rng = random.Random(seed)
    async with watched_cluster(plane) as cluster:
        await create_objects(cluster.client, nodes, gpus)
        each = nodes * gpus  # for each of the two
        numbers = iter(range(1_000_000))
        was_bound: dict[str, set[str]] = {ALLOTMENT_SCHEDULER: set(), KUBE_SCHEDULER: set()}

        def note(old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
            if new is not None and new.spec.get("nodeName"):
                was_bound[new.spec["schedulerName"]].add(new.uid)

        cluster.pods.on_change(note)
        start = time.monotonic()
        moments = sorted(rng.uniform(3, seconds) for _ in range(kills))
        while (fights := (now := time.monotonic() - start) < seconds or bool(moments)) or not was_bound[
            ALLOTMENT_SCHEDULER
        ]:
            for scheduler in (ALLOTMENT_SCHEDULER, KUBE_SCHEDULER):
                own = [item for item in cluster.pods.items() if item.spec["schedulerName"] == scheduler]
                for _ in range(min(each - len(own), 20) if fights or scheduler == ALLOTMENT_SCHEDULER else 0):
                    tree = {
                        "metadata": {"name": f"p{next(numbers)}"},
                        "spec": pod_spec(scheduler, rng.choice((1, 1, 2))),
                    }
                    await cluster.client.create(PODS, tree, _NAMESPACE)
                ends = [item for item in own if item.spec.get("nodeName") or rng.random() < 0.02]
                for item in rng.sample(ends, min(len(ends), max(1, each // 8))):
                    await _delete(cluster.client, item)
            if moments and now > moments[0]:
                moments.pop(0)
                process.kill()
            await asyncio.sleep(rng.choice((0.0, 0.1, 0.5, 1.5)))
        # At the end no new pods are created, and those without devices are deleted.
        for _ in range(2):
            await asyncio.sleep(4)
            for item in [item for item in cluster.pods.items() if not item.spec.get("nodeName")]:
                await _delete(cluster.client, item)
        await asyncio.sleep(4)
        found = await _errors(cluster)
        detector = cluster.detector
        return Outcome(
            seconds, {name: len(uids) for name, uids in was_bound.items()}, process.kills,
            len(detector.double_allocations), detector.preventable, detector.too_late, found, process.log(),
        )  # fmt: skip


async def _errors(cluster: WatchedCluster, wanted: dict[str, int] | None = None) -> list[str]:
    """Errors in the state, read from new lists, and missing pods; controllers get some time to clean up."""
    found: list[str] = []
    for _ in range(_CLEANUP_SECONDS):
        pods, claims = await cluster.client.list(PODS), await cluster.client.list(CLAIMS)
        found = state_errors(pods.items, claims.items)
        if wanted not in (None, bound := cluster.bound()):
            found.append(f"bound are {bound}, not {wanted}")
        if not found:
            break
        await asyncio.sleep(1)
    return found


def main() -> int:
    """Run what the command line requests, and print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.coexistence", description=__doc__)
    parser.add_argument("--pods", type=int, default=2000, help="pods of Allotment's scheduler (%(default)s)")
    parser.add_argument("--others", type=int, default=300, help="pods of kube-scheduler (%(default)s)")
    parser.add_argument("--nodes", type=int, default=100, help="nodes (%(default)s)")
    parser.add_argument("--gpus", type=int, default=24, help="GPUs of a node (%(default)s)")
    parser.add_argument("--contend", type=float, metavar="SECONDS", help="compete for devices for this many seconds")
    parser.add_argument("--settle", type=float, help="settle time in seconds (chosen by the scheduler)")
    parser.add_argument("--slow", action="store_true", help="leave kube-scheduler its default client limits")
    parser.add_argument("--kills", type=int, default=5, help="how often Allotment's scheduler is killed (%(default)s)")
    parser.add_argument("--seed", type=int, help="random seed")
    parser.add_argument("--log", type=Path, help="folder for the log of Allotment's scheduler")
    arguments = parser.parse_args()
    paths = real_kube.programs()
    if paths is None:
        sys.stderr.write(f"SKIPPED: programs of Kubernetes not found ({', '.join(real_kube.PROGRAMS)})\n")
        return 0
    seed = arguments.seed if arguments.seed is not None else random.getrandbits(32)
    with both_schedulers(paths, arguments.settle, slow=arguments.slow) as (plane, process):
        shape = {"nodes": arguments.nodes, "gpus": arguments.gpus, "kills": arguments.kills, "seed": seed}
        if arguments.contend:
            outcome = asyncio.run(contend(plane, process, seconds=arguments.contend, **shape))
        else:
            outcome = asyncio.run(all_fit(plane, process, pods=arguments.pods, others=arguments.others, **shape))
    if arguments.log:
        arguments.log.write_text(outcome.log)
    for line in (
        *outcome.used_twice[:20],
        *(f"{line}, too late" for line in outcome.too_late[:20]),
        *outcome.final_errors[:20],
    ):
        sys.stdout.write(f"  {line}\n")
    sys.stdout.write(f"{outcome.text()} (seed {seed}, load {os.getloadavg()[0]:.1f})\n")
    return 1 if outcome.final_errors else 0


if __name__ == "__main__":
    sys.exit(main())
