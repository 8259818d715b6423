"""Allotment's claim controller and taint eviction in place of Kubernetes' own, killed at random under load.

``python -m tests.storm.controllers --seconds 150`` runs two copies of each, of which one leads, with kube-scheduler and
without a garbage collector, so that a forgotten claim is found. Pods are created, finished and deleted, and devices are
tainted and untainted. At the end all claims of deleted pods must be deleted, and every pod must have its claim and its
node. ``--together`` has both copies work at the same time, without a Lease.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, PODS, SLICES
from allotment.model.trees import Tree
from bench import real_kube
from tests.components.process import LEASE_FLAGS
from tests.storm.coexistence import WatchedCluster, create_objects, pod_spec, watched_cluster
from tests.storm.double_use import devices_of, state_errors

_NAMESPACE: Final = "default"
_CONTROLLERS: Final = ("resourceclaim-controller", "device-taint-eviction-controller", "garbage-collector-controller")
_COPIES: Final = [(part, number) for part in ("claims", "taints") for number in (1, 2)]


class Outcome(NamedTuple):
    """The outcome of a storm. ``evicted``: pods that left a tainted device; ``final_errors``: errors in the final
    state."""

    seconds: float
    kills: int
    created: int
    evicted: int
    most_claims: int
    settled: float
    final_errors: list[str]
    log: str

    def text(self) -> str:
        """The outcome as text."""
        return (
            f"{self.seconds:.0f} s, {self.kills} kills, {self.created} pods made, {self.evicted} evicted, at most "
            f"{self.most_claims} claims at a time; settled {self.settled:.1f} s after the last kill; "
            f"wrong at the end: {len(self.final_errors)}; {self.log.count('Traceback')} tracebacks"
        )


class ControllerProcesses:
    """Copies of Allotment's controllers, as processes that can be killed."""

    def __init__(self, plane: real_kube.ApiServer, *, together: bool) -> None:
        self._plane = plane
        self._flags = [f"--kubeconfig={plane.kubeconfig}", "--log-format=json", *([] if together else LEASE_FLAGS)]
        self._copies: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.kills = 0

    def start(self, component: str, number: int) -> None:
        """Start a copy, also after it was killed."""
        command = [sys.executable, "-m", "allotment.cli.main", "run", component, *self._flags]
        self._copies[component, number] = self._plane.start(f"{component}-{number}", command=command)

    async def restart_ended(self) -> None:
        """Restart copies that ended by themselves, as a kubelet does: one that has lost its Lease does end."""
        while True:
            for copy, process in tuple(self._copies.items()):
                if process.poll() is not None and self._copies.get(copy) is process:
                    self.start(*copy)
            await asyncio.sleep(0.5)

    def kill(self, component: str, number: int) -> None:
        """Kill it with SIGKILL, and start it again."""
        del self._copies[component, number]
        self._plane.stop(f"{component}-{number}", signal.SIGKILL)
        self.kills += 1
        self.start(component, number)

    def log(self) -> str:
        """The logs of all copies."""
        logs = [self._plane.folder / f"{component}-{number}.log" for component, number in _COPIES]
        return "".join(log.read_text(errors="replace") for log in logs)


@contextmanager
def control_plane_with_controllers(
    paths: dict[str, str], *, together: bool = False
) -> Iterator[tuple[real_kube.ApiServer, ControllerProcesses]]:
    """A control plane with Allotment's controllers in place of Kubernetes' own."""
    controllers = ",".join(["*", *(f"-{name}" for name in _CONTROLLERS)])
    with real_kube.plane(paths, controllers=controllers) as plane:
        processes = ControllerProcesses(plane, together=together)
        for copy in _COPIES:
            processes.start(*copy)
        yield plane, processes


async def storm(
    plane: real_kube.ApiServer,
    processes: ControllerProcesses,
    *,
    seconds: float,
    pods: int,
    seed: int,
    timeout: float = 90,
) -> Outcome:
    """Create and delete pods, about ``pods`` at a time, and kill controllers; for longer until evictions and deletions
    occurred."""
    rng = random.Random(seed)
    start = time.monotonic()
    async with watched_cluster(plane) as cluster, _in_background(processes.restart_ended()):
        await create_objects(cluster.client, pods // 10, 16)
        churn = _PodChurn(cluster, rng, pods)
        tasks = [asyncio.create_task(each) for each in (churn.create(), churn.finish(), churn.taint())]
        most = 0
        try:
            while (
                time.monotonic() < start + seconds
                or processes.kills < len(_COPIES)
                or churn.made <= pods
                or (churn.evicted() == 0 and time.monotonic() < start + timeout)
            ):
                await asyncio.sleep(rng.uniform(0.5, 3.0))
                await asyncio.to_thread(processes.kill, *rng.choice(_COPIES))
                most = max(most, len(cluster.claims))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
        last = time.monotonic()
        await churn.untaint()
        remaining = [f"not settled: {line}" for line in await _wait_until_settled(cluster, timeout)]
        settled = time.monotonic() - last
        pods_left = [tree for tree in await _trees(cluster.client, PODS) if not _is_done(tree)]
        remaining += state_errors(pods_left, await _trees(cluster.client, CLAIMS))
        for item in tuple(cluster.pods.items()):
            await churn.delete(item)
        if not await cluster.wait_until(lambda: not cluster.claims.items() and not cluster.pods.items(), timeout):
            remaining += [f"claim {item.name} is left" for item in cluster.claims.items()]
            remaining += [f"pod {item.name} is left" for item in cluster.pods.items()]
    total = time.monotonic() - start
    return Outcome(total, processes.kills, churn.made, churn.evicted(), most, settled, remaining, processes.log())


@asynccontextmanager
async def _in_background(coroutine: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(coroutine)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class _PodChurn:
    """Pods that are created and deleted; devices that are tainted and untainted."""

    def __init__(self, cluster: WatchedCluster, rng: random.Random, pods: int) -> None:
        self._cluster = cluster
        self._rng = rng
        self._pods = pods
        self._deleted: set[str] = set()
        self._evicted: set[str] = set()
        self.made = 0
        cluster.pods.on_change(self._changed)

    def _changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        pod = new or old
        assert pod is not None
        if (new is None or new.deleting) and pod.uid not in self._deleted:
            self._evicted.add(pod.uid)

    def evicted(self) -> int:
        """The number of pods that were deleted by a controller."""
        return len(self._evicted)

    async def create(self) -> None:
        """Create pods up to the intended number."""
        while True:
            for _ in range(min(self._pods - len(self._cluster.pods), 20)):
                self.made += 1
                pod = {"metadata": {"name": f"p{self.made}"}, "spec": pod_spec("default-scheduler")}
                await _ignoring_conflicts(self._cluster.client.create(PODS, pod, _NAMESPACE))
            await asyncio.sleep(self._rng.uniform(0.05, 0.3))

    async def finish(self) -> None:
        """Complete pods, or delete them in whatever state they are."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.01, 0.1))
            pods = list(self._cluster.pods.items())
            if not pods:
                continue
            pod = self._rng.choice(pods)
            if self._rng.random() < 0.3 and pod.spec.get("nodeName"):
                phase = {"status": {"phase": self._rng.choice(["Succeeded", "Failed"])}}
                await _ignoring_conflicts(
                    self._cluster.client.patch(PODS, pod.name, phase, _NAMESPACE, subresource="status")
                )
            else:
                await self.delete(pod)

    async def delete(self, pod: CachedItem[Tree]) -> None:
        """Delete without a grace period."""
        self._deleted.add(pod.uid)
        client = self._cluster.client
        await _ignoring_conflicts(client.delete(PODS, pod.name, _NAMESPACE, uid=pod.uid, grace_seconds=0))

    async def taint(self) -> None:
        """Taint a device and untaint it later; its pod is evicted."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.5, 1.5))
            await self._mark({"key": "broken", "effect": "NoExecute"})
            await asyncio.sleep(self._rng.uniform(0.5, 1.5))
            await self.untaint()

    async def untaint(self) -> None:
        """Untaint all devices."""
        for tree in await _trees(self._cluster.client, SLICES):
            if any("taints" in device for device in tree["spec"]["devices"]):
                await self._write(tree, [{"name": device["name"]} for device in tree["spec"]["devices"]])

    async def _mark(self, taint: Tree) -> None:
        used = [device for claim in self._cluster.claims.items() for device in devices_of(claim)]
        if used:
            _, pool, name = self._rng.choice(used)
            tree = await self._cluster.client.get(SLICES, pool)
            devices = [dict(device) for device in tree["spec"]["devices"]]
            next(device for device in devices if device["name"] == name)["taints"] = [taint]
            await self._write(tree, devices)

    async def _write(self, tree: Tree, devices: list[Tree]) -> None:
        spec = {**tree["spec"], "devices": devices}
        spec["pool"] = {**spec["pool"], "generation": spec["pool"]["generation"] + 1}
        await _ignoring_conflicts(self._cluster.client.update(SLICES, {**tree, "spec": spec}))


async def _ignoring_conflicts(coroutine: Awaitable[Any]) -> None:
    """Ignore conflicts with concurrent writers."""
    with suppress(StatusError):
        await coroutine


async def _trees(client: Client, resource: Any) -> list[Tree]:
    return list((await client.list(resource)).items)


def _is_done(pod: Tree) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


async def _wait_until_settled(cluster: WatchedCluster, timeout: float) -> list[str]:
    """Wait until each pod has its one claim, and a node; return what was missing at the timeout."""
    if await cluster.wait_until(lambda: not _missing(cluster), timeout):
        return []
    return _missing(cluster)


def _missing(cluster: WatchedCluster) -> list[str]:
    made_for = Counter(item.controller["uid"] for item in cluster.claims.items() if item.controller is not None)
    found = []
    for pod in cluster.pods.items():
        done = _is_done(pod.tree)
        claims = made_for.pop(pod.uid, 0)
        if claims != (0 if done else 1):
            found.append(f"pod {pod.name} ({'done' if done else 'not done'}) has {claims} claims")
        if not done and not pod.spec.get("nodeName"):
            found.append(f"pod {pod.name} has no node: {pod.status.get('conditions')}")
    return [*found, *(f"{count} claims of {uid}, which is gone" for uid, count in made_for.items())]


def main() -> int:
    """Run the command line; return 1 if an error was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.getrandbits(32))
    parser.add_argument("--together", action="store_true")
    arguments = parser.parse_args()
    paths = real_kube.programs()
    if paths is None:
        sys.exit("Kubernetes' programs not found")
    with control_plane_with_controllers(paths, together=arguments.together) as (plane, processes):
        outcome = asyncio.run(
            storm(plane, processes, seconds=arguments.seconds, pods=arguments.pods, seed=arguments.seed)
        )
    sys.stdout.write("\n".join([f"{outcome.text()} (seed {arguments.seed})", *outcome.final_errors[:20], ""]))
    return 1 if outcome.final_errors else 0


if __name__ == "__main__":
    sys.exit(main())
