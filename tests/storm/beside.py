"""Our scheduler beside kube-scheduler on a real control plane, on the same nodes and devices, and killed at any moment.

``python -m tests.storm.beside --pods 2000`` has both schedule at once, with room for all: every pod gets a node, no
device is given away twice. ``--contend SECONDS`` has them fight for half as many devices as there are pods, which come
and go, and counts the devices that two pods with nodes had. ``--settle`` says how long ours settles; ``--slow`` leaves
kube-scheduler the client limits that it has by itself (50 requests a second).
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
from tests.storm.double_use import Onlooker, wrong

OURS: Final = "ours"
THEIRS: Final = "default-scheduler"
_NAMESPACE: Final = "default"
_DRIVER: Final = "gpu.example.com"
#: Controllers and ours, which has to start again, clean up within so many.
_CLEANED_SECONDS: Final = 120


class Outcome(NamedTuple):
    """What came of a run. ``wrong``: what must not be there at its end."""

    seconds: float
    bound: dict[str, int]
    kills: int
    contests: int
    used_twice: list[str]
    wrong: list[str]
    log: str

    def text(self) -> str:
        """For a terminal."""
        bound = ", ".join(f"{count} by {name}" for name, count in sorted(self.bound.items()))
        given_up = self.log.count("and is evicted")
        return (
            f"{self.seconds:.0f} s, {self.kills} kills; bound: {bound}; devices given to two claims: {self.contests}, "
            f"to two pods with nodes: {len(self.used_twice)} (ours gave way after binding: {given_up}); "
            f"wrong at the end: {len(self.wrong)}"
        )


class Our:
    """Our scheduler as a process that can be killed."""

    def __init__(self, plane: real_kube.ApiServer, settle: float | None) -> None:
        self._plane = plane
        more = [] if settle is None else ["--bind-delay", f"{settle}s"]
        self._command = [
            sys.executable, "-m", "allotment.cli.main", "run", "scheduler", "--scheduler-name", OURS,
            "--kubeconfig", str(plane.kubeconfig), *more,
        ]  # fmt: skip
        self.kills = 0

    def start(self) -> None:
        """Start it, again if need be."""
        self._plane.start("our-scheduler", command=self._command)

    def kill(self) -> None:
        """kill -9, and start again."""
        self._plane.stop("our-scheduler", signal.SIGKILL)
        self.kills += 1
        self.start()

    def log(self) -> str:
        """All that it said."""
        return (self._plane.folder / "our-scheduler.log").read_text(errors="replace")


@contextmanager
def both(
    paths: dict[str, str], settle: float | None, *, slow: bool = False
) -> Iterator[tuple[real_kube.ApiServer, Our]]:
    """A control plane with kube-scheduler and ours."""
    with real_kube.plane(paths, scheduler=not slow) as plane:
        if slow:
            port = plane.port()
            flags = (f"--kubeconfig={plane.kubeconfig}", f"--secure-port={port}", "--permit-port-sharing")
            more = ("--bind-address=127.0.0.1", "--authentication-skip-lookup=true", "--leader-elect=false")
            plane.start("kube-scheduler", *flags, *more)
            plane.ready("kube-scheduler", port, "/readyz")
        our = Our(plane, settle)
        our.start()
        yield plane, our


class Seen(NamedTuple):
    """The cluster as it is watched by the storm."""

    client: Client
    pods: Cache[Any]
    claims: Cache[Any]
    onlooker: Onlooker

    def bound(self) -> dict[str, int]:
        """Pods with nodes, by scheduler."""
        counts: dict[str, int] = {}
        for item in self.pods.items():
            if item.spec.get("nodeName") and not item.deleting:
                name = item.spec["schedulerName"]
                counts[name] = counts.get(name, 0) + 1
        return counts

    async def until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait for something, but not for ever; whether it came true."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.1)
        return True


@asynccontextmanager
async def seen(plane: real_kube.ApiServer) -> AsyncIterator[Seen]:
    """Watch the cluster, and end pods that were deleted, as kubelets would."""
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
            yield Seen(client, pods, claims, Onlooker(pods, claims))
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def _delete(client: Client, pod: CachedItem[Tree]) -> None:
    with contextlib.suppress(StatusError):
        await client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=0)


async def furnish(client: Client, nodes: int, gpus: int) -> None:
    """Nodes with GPUs that nothing runs, a class, and templates for one and for two."""
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
    """A pod that wants GPUs of its own."""
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}, "claims": [{"name": "gpu"}]}
    return {
        "schedulerName": scheduler, "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "cuda", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": f"gpus-{gpus}"}],
    }  # fmt: skip


def replica_set(name: str, replicas: int, scheduler: str) -> Tree:
    """Pods that are made anew when they are given up."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(scheduler)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def all_fit(
    plane: real_kube.ApiServer, our: Our, *, pods: int, others: int, nodes: int, gpus: int, kills: int, seed: int,
    patience: float = 600.0,
) -> Outcome:  # fmt: skip
    """Both schedule at once, with room for all; ours is killed meanwhile."""
    dice = random.Random(seed)
    async with seen(plane) as cluster:
        await furnish(cluster.client, nodes, gpus)
        await asyncio.sleep(1)
        began = time.monotonic()
        for name, count, scheduler in (("ours", pods, OURS), ("theirs", others, THEIRS)):
            await cluster.client.create(REPLICA_SETS, replica_set(name, count, scheduler), _NAMESPACE)
        wanted = {OURS: pods, THEIRS: others}
        for number in range(kills):
            enough = (number + dice.random()) / kills * pods  # moments of all kinds
            if not await cluster.until(partial(_has, cluster, enough), patience):
                break
            await asyncio.sleep(dice.random() * 0.3)
            our.kill()
        await cluster.until(lambda: cluster.bound() == wanted, patience)
        seconds = time.monotonic() - began
        await asyncio.sleep(2)
        found = await _wrong(cluster, wanted)
        onlooker = cluster.onlooker
        return Outcome(
            seconds, cluster.bound(), our.kills, len(onlooker.contests), onlooker.told, found, our.log()
        )  # fmt: skip


def _has(cluster: Seen, enough: float) -> bool:
    return cluster.bound().get(OURS, 0) >= enough


async def contend(
    plane: real_kube.ApiServer, our: Our, *, seconds: float, nodes: int, gpus: int, kills: int, seed: int
) -> Outcome:
    """Both fight for few devices: pods want twice as many as there are, come and go, and ours is killed.

    Who is quicker may win all of it. So the other then has no new pods until ours has had a device, too.
    """
    dice = random.Random(seed)
    async with seen(plane) as cluster:
        await furnish(cluster.client, nodes, gpus)
        each = nodes * gpus  # by each of the two
        numbers = iter(range(1_000_000))
        was_bound: dict[str, set[str]] = {OURS: set(), THEIRS: set()}

        def note(old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
            if new is not None and new.spec.get("nodeName"):
                was_bound[new.spec["schedulerName"]].add(new.uid)

        cluster.pods.on_change(note)
        began = time.monotonic()
        moments = sorted(dice.uniform(3, seconds) for _ in range(kills))
        while (fights := (now := time.monotonic() - began) < seconds or bool(moments)) or not was_bound[OURS]:
            for scheduler in (OURS, THEIRS):
                mine = [item for item in cluster.pods.items() if item.spec["schedulerName"] == scheduler]
                for _ in range(min(each - len(mine), 20) if fights or scheduler == OURS else 0):
                    tree = {
                        "metadata": {"name": f"p{next(numbers)}"},
                        "spec": pod_spec(scheduler, dice.choice((1, 1, 2))),
                    }
                    await cluster.client.create(PODS, tree, _NAMESPACE)
                ends = [item for item in mine if item.spec.get("nodeName") or dice.random() < 0.02]
                for item in dice.sample(ends, min(len(ends), max(1, each // 8))):
                    await _delete(cluster.client, item)
            if moments and now > moments[0]:
                moments.pop(0)
                our.kill()
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5, 1.5)))
        # Peace: nothing comes any more, and what has no room goes.
        for _ in range(2):
            await asyncio.sleep(4)
            for item in [item for item in cluster.pods.items() if not item.spec.get("nodeName")]:
                await _delete(cluster.client, item)
        await asyncio.sleep(4)
        found = await _wrong(cluster)
        onlooker = cluster.onlooker
        return Outcome(
            seconds, {name: len(uids) for name, uids in was_bound.items()}, our.kills, len(onlooker.contests),
            onlooker.told, found, our.log(),
        )  # fmt: skip


async def _wrong(cluster: Seen, wanted: dict[str, int] | None = None) -> list[str]:
    """What must not be there, from fresh lists, and pods that are not; controllers get a while to clean up."""
    found: list[str] = []
    for _ in range(_CLEANED_SECONDS):
        pods, claims = await cluster.client.list(PODS), await cluster.client.list(CLAIMS)
        found = wrong(pods.items, claims.items)
        if wanted not in (None, bound := cluster.bound()):
            found.append(f"bound are {bound}, not {wanted}")
        if not found:
            break
        await asyncio.sleep(1)
    return found


def main() -> int:
    """Run what the command line asks for, and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.beside", description=__doc__)
    parser.add_argument("--pods", type=int, default=2000, help="pods of ours (%(default)s)")
    parser.add_argument("--others", type=int, default=300, help="pods of kube-scheduler (%(default)s)")
    parser.add_argument("--nodes", type=int, default=100, help="nodes (%(default)s)")
    parser.add_argument("--gpus", type=int, default=24, help="GPUs of a node (%(default)s)")
    parser.add_argument("--contend", type=float, metavar="SECONDS", help="fight for devices for so long")
    parser.add_argument("--settle", type=float, help="seconds that ours settles (as it finds necessary)")
    parser.add_argument(
        "--slow", action="store_true", help="kube-scheduler with the client limits that it has by itself"
    )
    parser.add_argument("--kills", type=int, default=5, help="how often ours is killed (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the dice")
    parser.add_argument("--log", type=Path, help="where what ours said is kept")
    asked = parser.parse_args()
    paths = real_kube.programs()
    if paths is None:
        sys.stderr.write(f"SKIPPED: the programs of Kubernetes are not all there ({', '.join(real_kube.PROGRAMS)})\n")
        return 0
    seed = asked.seed if asked.seed is not None else random.getrandbits(32)
    with both(paths, asked.settle, slow=asked.slow) as (plane, our):
        shape = {"nodes": asked.nodes, "gpus": asked.gpus, "kills": asked.kills, "seed": seed}
        if asked.contend:
            outcome = asyncio.run(contend(plane, our, seconds=asked.contend, **shape))
        else:
            outcome = asyncio.run(all_fit(plane, our, pods=asked.pods, others=asked.others, **shape))
    if asked.log:
        asked.log.write_text(outcome.log)
    for line in (*outcome.used_twice[:20], *outcome.wrong[:20]):
        sys.stdout.write(f"  {line}\n")
    sys.stdout.write(f"{outcome.text()} (seed {seed}, load {os.getloadavg()[0]:.1f})\n")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
