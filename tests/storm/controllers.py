"""Our claim controller and taint eviction in place of Kubernetes' own, killed at any moment while pods come and go.

``python -m tests.storm.controllers --seconds 150``: two copies of each, of which one leads, kube-scheduler, and no
garbage collector, so that whoever forgets a claim is found out. Pods are made, finished and deleted, devices tainted
and healed. At the end everything that was made for pods that are gone must be gone, every pod must have its claim and
its node. ``--together`` has both copies work at once, without a Lease.
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
from tests.components.process import LED
from tests.storm.beside import Seen, furnish, pod_spec, seen
from tests.storm.double_use import devices_of, wrong

_NAMESPACE: Final = "default"
_OURS: Final = ("resourceclaim-controller", "device-taint-eviction-controller", "garbage-collector-controller")
_COPIES: Final = [(part, number) for part in ("claims", "taints") for number in (1, 2)]


class Outcome(NamedTuple):
    """What came of a storm. ``evicted``: pods that left a tainted device; ``wrong``: what must not be at its end."""

    seconds: float
    kills: int
    made: int
    evicted: int
    most_claims: int
    settled: float
    wrong: list[str]
    log: str

    def text(self) -> str:
        """For a terminal."""
        return (
            f"{self.seconds:.0f} s, {self.kills} kills, {self.made} pods made, {self.evicted} evicted, at most "
            f"{self.most_claims} claims at once; settled {self.settled:.1f} s after the last kill; "
            f"wrong at the end: {len(self.wrong)}; {self.log.count('Traceback')} tracebacks"
        )


class Ours:
    """Copies of our controllers, as processes that can be killed."""

    def __init__(self, plane: real_kube.ApiServer, *, together: bool) -> None:
        self._plane = plane
        self._flags = [f"--kubeconfig={plane.kubeconfig}", "--log-format=json", *([] if together else LED)]
        self._copies: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.kills = 0

    def start(self, part: str, number: int) -> None:
        """Start a copy, again if need be."""
        command = [sys.executable, "-m", "allotment.cli.main", "run", part, *self._flags]
        self._copies[part, number] = self._plane.start(f"{part}-{number}", command=command)

    async def keep(self) -> None:
        """Start those again, as a kubelet does, that have ended by themselves: who has lost its Lease does."""
        while True:
            for copy, process in tuple(self._copies.items()):
                if process.poll() is not None and self._copies.get(copy) is process:
                    self.start(*copy)
            await asyncio.sleep(0.5)

    def kill(self, part: str, number: int) -> None:
        """kill -9, and start again."""
        del self._copies[part, number]
        self._plane.stop(f"{part}-{number}", signal.SIGKILL)
        self.kills += 1
        self.start(part, number)

    def log(self) -> str:
        """All that they said."""
        logs = [self._plane.folder / f"{part}-{number}.log" for part, number in _COPIES]
        return "".join(log.read_text(errors="replace") for log in logs)


@contextmanager
def controlled(paths: dict[str, str], *, together: bool = False) -> Iterator[tuple[real_kube.ApiServer, Ours]]:
    """A control plane with ours in place of Kubernetes' own."""
    controllers = ",".join(["*", *(f"-{name}" for name in _OURS)])
    with real_kube.plane(paths, controllers=controllers) as plane:
        ours = Ours(plane, together=together)
        for copy in _COPIES:
            ours.start(*copy)
        yield plane, ours


async def storm(
    plane: real_kube.ApiServer, ours: Ours, *, seconds: float, pods: int, seed: int, patience: float = 90
) -> Outcome:
    """Have pods come and go, about so many at a time, and kill ours; for longer until there is something to see."""
    dice = random.Random(seed)
    began = time.monotonic()
    async with seen(plane) as cluster, _meanwhile(ours.keep()):
        await furnish(cluster.client, pods // 10, 16)
        crowd = _Crowd(cluster, dice, pods)
        doing = [asyncio.create_task(each) for each in (crowd.come(), crowd.go(), crowd.taint())]
        most = 0
        try:
            while time.monotonic() < began + seconds or ours.kills < len(_COPIES) or crowd.made <= pods:
                await asyncio.sleep(dice.uniform(0.5, 3.0))
                await asyncio.to_thread(ours.kill, *dice.choice(_COPIES))
                most = max(most, len(cluster.claims))
        finally:
            for task in doing:
                task.cancel()
            await asyncio.wait(doing)
        for task in doing:
            if not task.cancelled():
                task.result()
        last = time.monotonic()
        await crowd.heal()
        left = [f"not settled: {line}" for line in await _settled(cluster, patience)]
        settled = time.monotonic() - last
        pods_left = [tree for tree in await _trees(cluster.client, PODS) if not _is_done(tree)]
        left += wrong(pods_left, await _trees(cluster.client, CLAIMS))
        for item in tuple(cluster.pods.items()):
            await crowd.delete(item)
        if not await cluster.until(lambda: not cluster.claims.items() and not cluster.pods.items(), patience):
            left += [f"claim {item.name} is left" for item in cluster.claims.items()]
            left += [f"pod {item.name} is left" for item in cluster.pods.items()]
    total = time.monotonic() - began
    return Outcome(total, ours.kills, crowd.made, crowd.evicted(), most, settled, left, ours.log())


@asynccontextmanager
async def _meanwhile(doing: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(doing)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class _Crowd:
    """Pods that come and go; devices that fail and heal."""

    def __init__(self, cluster: Seen, dice: random.Random, pods: int) -> None:
        self._cluster = cluster
        self._dice = dice
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
        """How many pods went that nobody here deleted."""
        return len(self._evicted)

    async def come(self) -> None:
        """Keep about so many pods."""
        while True:
            for _ in range(min(self._pods - len(self._cluster.pods), 20)):
                self.made += 1
                pod = {"metadata": {"name": f"p{self.made}"}, "spec": pod_spec("default-scheduler")}
                await _forgiving(self._cluster.client.create(PODS, pod, _NAMESPACE))
            await asyncio.sleep(self._dice.uniform(0.05, 0.3))

    async def go(self) -> None:
        """Pods end by themselves, or are deleted in whatever state they are."""
        while True:
            await asyncio.sleep(self._dice.uniform(0.01, 0.1))
            pods = list(self._cluster.pods.items())
            if not pods:
                continue
            pod = self._dice.choice(pods)
            if self._dice.random() < 0.3 and pod.spec.get("nodeName"):
                phase = {"status": {"phase": self._dice.choice(["Succeeded", "Failed"])}}
                await _forgiving(self._cluster.client.patch(PODS, pod.name, phase, _NAMESPACE, subresource="status"))
            else:
                await self.delete(pod)

    async def delete(self, pod: CachedItem[Tree]) -> None:
        """As a user who does not want to wait."""
        self._deleted.add(pod.uid)
        client = self._cluster.client
        await _forgiving(client.delete(PODS, pod.name, _NAMESPACE, uid=pod.uid, grace_seconds=0))

    async def taint(self) -> None:
        """A device fails, and comes back; the pod on it has to go."""
        while True:
            await asyncio.sleep(self._dice.uniform(0.5, 1.5))
            await self._mark({"key": "broken", "effect": "NoExecute"})
            await asyncio.sleep(self._dice.uniform(0.5, 1.5))
            await self.heal()

    async def heal(self) -> None:
        """No device is tainted any more."""
        for tree in await _trees(self._cluster.client, SLICES):
            if any("taints" in device for device in tree["spec"]["devices"]):
                await self._write(tree, [{"name": device["name"]} for device in tree["spec"]["devices"]])

    async def _mark(self, taint: Tree) -> None:
        used = [device for claim in self._cluster.claims.items() for device in devices_of(claim)]
        if used:
            _, pool, name = self._dice.choice(used)
            tree = await self._cluster.client.get(SLICES, pool)
            devices = [dict(device) for device in tree["spec"]["devices"]]
            next(device for device in devices if device["name"] == name)["taints"] = [taint]
            await self._write(tree, devices)

    async def _write(self, tree: Tree, devices: list[Tree]) -> None:
        spec = {**tree["spec"], "devices": devices}
        spec["pool"] = {**spec["pool"], "generation": spec["pool"]["generation"] + 1}
        await _forgiving(self._cluster.client.update(SLICES, {**tree, "spec": spec}))


async def _forgiving(doing: Awaitable[Any]) -> None:
    """What others change at the same time is for them."""
    with suppress(StatusError):
        await doing


async def _trees(client: Client, resource: Any) -> list[Tree]:
    return list((await client.list(resource)).items)


def _is_done(pod: Tree) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


async def _settled(cluster: Seen, patience: float) -> list[str]:
    """Wait until each pod has its one claim, and a node; what was still missing when patience ended."""
    if await cluster.until(lambda: not _missing(cluster), patience):
        return []
    return _missing(cluster)


def _missing(cluster: Seen) -> list[str]:
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
    """Run; 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.getrandbits(32))
    parser.add_argument("--together", action="store_true")
    arguments = parser.parse_args()
    paths = real_kube.programs()
    if paths is None:
        sys.exit("Kubernetes' programs are not found")
    with controlled(paths, together=arguments.together) as (plane, ours):
        outcome = asyncio.run(storm(plane, ours, seconds=arguments.seconds, pods=arguments.pods, seed=arguments.seed))
    sys.stdout.write("\n".join([f"{outcome.text()} (seed {arguments.seed})", *outcome.wrong[:20], ""]))
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
