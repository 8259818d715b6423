"""``python -m tests.kube.plans_on_kubernetes``: what a plan promises, kept by Kubernetes' own scheduler.

The scenarios are those of ``tests.storm.plans``; here kube-apiserver and kube-scheduler, unmodified, with no limit on
what they may ask, bind the pods. One scenario after the other, on an empty cluster each: the nodes of the plan
come closed, then their slices, then the pods, told by ``nominatedNodeName`` where the plan has them (KEP-5278), and
everything opens, in one of the ways of ``Opening``. Nothing of ours runs but the planner.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import target
from allotment.cluster.resources import (
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    SLICES,
)
from allotment.fleet.catalog import catalog
from allotment.model.trees import Tree, to_tree
from bench.kube_programs import missing, programs
from bench.real_kube import plane
from tests.storm.demands import NAMESPACE, Scenario, scenario_of
from tests.storm.plans import planned
from tests.storm.scheduled import classes, named_by_plan, objects_of, there

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-scheduler")
#: kube-scheduler has nothing more to do when nothing was bound for so long; a pod that failed waits a second or two.
_QUIET_SECONDS: Final = 6.0
#: Programs hear of each kind on a connection of its own.
_HEARD_SECONDS: Final = 0.1
_PRIORITIES: Final = (500, 1000)
_GATE: Final = "example.com/not-yet"
_PROBE: Final = "is-it-open"
#: kube-scheduler writes it; where it is missing, the next user of the claim cannot be written down.
_ALLOCATED: Final = "2026-01-01T00:00:00Z"

Opening = Literal["gated", "reserved", "together"]
"""``gated``: all nodes are open before the first pod is let go. ``reserved``: a node of the plan opens for those only
that were planned for it, which tolerate its taint. ``together``: nodes open one right after the other while pods wait,
and kube-scheduler gives those that open first to whom it will, for it keeps no device for a pod that is nominated.

When they are gated, what shares a GPU may go elsewhere now and then, and be in the way there: kube-scheduler (1.36.3)
counts a share twice for the moment between its write and the answer to that, and takes the pod's nomination back when
it finds no room. Reserved, such a pod comes again a second later."""


class Kept(NamedTuple):
    """What became of a plan."""

    planned: int
    elsewhere: dict[str, str]
    """Pods bound to a node that the plan does not name."""
    left: dict[str, str]
    """Pods bound nowhere, with what is said of them."""


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[HttpClient]:
    """A client of it, and what every scenario needs: an account for pods, classes, priorities."""
    async with HttpClient(target([kubeconfig]), "plans") as client:
        labels = {"resource.kubernetes.io/admin-access": "true"}
        await client.patch(NAMESPACES, NAMESPACE, {"metadata": {"labels": labels}})
        with suppress(StatusError):  # Kubernetes' controllers make it, which do not run here
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, NAMESPACE)
        for value in _PRIORITIES:
            with suppress(StatusError):
                await client.create(PRIORITY_CLASSES, {"metadata": {"name": f"p{value}"}, "value": value})
        yield client


async def kept(
    client: HttpClient, given: Scenario, *, opening: Opening = "gated", quiet: float = _QUIET_SECONDS
) -> Kept:
    """Plan a scenario and see what the scheduler makes of it, which is done when it was ``quiet`` for so long."""
    cluster = there(given)
    made = planned(given, cluster)
    names = named_by_plan(given)
    seats = [*made.existing, *(seat for machine in made.machines for seat in machine.seats)]
    places = {names[seat.pod.name]: seat.node for seat in seats if seat.pod.name in names}
    await _empty(client)
    told = _Told(client, places, opening)
    await told.all(objects_of(made, given, cluster, places, reserved=opening == "reserved"))
    found = await _settled(client, places, quiet)
    bound = {name: pod["spec"]["nodeName"] for name, pod in found.items() if pod["spec"].get("nodeName")}
    return Kept(
        len(places),
        {name: f"planned on {places[name]}, is on {bound[name]}" for name in bound if bound[name] != places[name]},
        {name: f"planned on {places[name]}: {_said(found[name])}" for name in sorted(places.keys() - bound.keys())},
    )


class _Told:
    """A server that gets objects which ours would take as they are: statuses apart, and uids are its own."""

    def __init__(self, client: HttpClient, places: dict[str, str], opening: Opening) -> None:
        self._client = client
        self._places = places
        self._opening = opening
        self._uids: dict[str, str] = {}

    async def all(self, objects: Sequence[tuple[Resource, Tree]]) -> None:
        """Create them, nodes closed and pods last, and open everything."""
        by_kind: dict[Resource, list[Tree]] = {}
        for kind, tree in objects:
            by_kind.setdefault(kind, []).append(tree)
        nodes = by_kind.get(NODES, [])
        for node in nodes:
            await self._node(node)
        for one in by_kind[DEVICE_CLASSES]:
            with suppress(StatusError):
                await self._client.create(DEVICE_CLASSES, _fresh(one))
        for one in by_kind.get(SLICES, ()):
            await self._client.create(SLICES, _fresh(one))
        await asyncio.sleep(_HEARD_SECONDS)
        pods = sorted(by_kind.get(PODS, ()), key=_turn)
        running = [pod for pod in pods if pod["spec"].get("nodeName")]
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        made_for = [one for one in by_kind.get(CLAIMS, ()) if one["metadata"].get("ownerReferences")]
        for claim in by_kind.get(CLAIMS, ()):
            if claim not in made_for:
                await self._claim(claim)
        for pod in (*running, *waiting):
            await self._pod(pod)
        for claim in made_for:
            await self._claim(claim)
        for claim in by_kind.get(CLAIMS, ()):
            if claim.get("status"):
                status = json.loads(json.dumps(claim["status"]))
                for user in status.get("reservedFor", ()):
                    user["uid"] = self._uids[user["name"]]
                status["allocation"]["allocationTimestamp"] = _ALLOCATED
                await self._status(CLAIMS, claim["metadata"]["name"], status)
        for pod in (*running, *waiting):
            named = pod["status"].get("resourceClaimStatuses")
            status = {
                "resourceClaimStatuses": named,
                "phase": pod["status"]["phase"],
                "nominatedNodeName": self._places.get(pod["metadata"]["name"]),
            }
            await self._status(PODS, pod["metadata"]["name"], {key: value for key, value in status.items() if value})
        await asyncio.sleep(_HEARD_SECONDS)
        names = [node["metadata"]["name"] for node in nodes]
        opened = await asyncio.gather(
            *(self._client.patch(NODES, name, {"spec": {"unschedulable": None}}) for name in names)
        )
        if self._opening == "gated" and opened:
            await self._heard(max(opened, key=lambda node: int(node["metadata"]["resourceVersion"])))
            for pod in waiting:
                name = pod["metadata"]["name"]
                await self._client.patch(PODS, name, {"spec": {"schedulingGates": None}}, NAMESPACE)

    async def _heard(self, opened: Tree) -> None:
        """Wait until kube-scheduler has heard of an open node, and so of all before: a pod for that alone is bound."""
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [opened["metadata"]["name"]]}]}
        there = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec = {
            "containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": there},
        }  # fmt: skip
        await self._client.create(PODS, {"metadata": {"name": _PROBE}, "spec": spec}, NAMESPACE)
        while not (await self._client.get(PODS, _PROBE, NAMESPACE))["spec"].get("nodeName"):
            await asyncio.sleep(0.02)
        await self._client.delete(PODS, _PROBE, NAMESPACE, grace_seconds=0)

    async def _status(self, kind: Resource, name: str, status: Tree) -> None:
        await self._client.patch(kind, name, {"status": status}, NAMESPACE, subresource="status")

    async def _node(self, tree: Tree) -> None:
        tree = _fresh(tree)
        spec = tree.get("spec", {})
        taints = spec.get("taints") or None
        await self._client.create(NODES, {**tree, "spec": {**spec, "unschedulable": True}})
        # Admission holds every new node back until somebody has seen it ready, and nobody does here.
        await self._client.patch(NODES, tree["metadata"]["name"], {"spec": {"taints": taints}})

    async def _claim(self, tree: Tree) -> None:
        tree = _fresh(tree)
        tree.pop("status", None)
        for owner in tree["metadata"].get("ownerReferences", ()):
            owner["uid"] = self._uids[owner["name"]]
        await self._client.create(CLAIMS, tree, NAMESPACE)

    async def _pod(self, tree: Tree) -> None:
        tree = _fresh(tree)
        spec = tree["spec"]
        for container in spec["containers"]:
            container.setdefault("image", "i")
        if priority := spec.pop("priority", 0):
            spec["priorityClassName"] = f"p{priority}"
        if self._opening == "gated" and not spec.get("nodeName"):
            spec["schedulingGates"] = [{"name": _GATE}]
        created = await self._client.create(PODS, tree, NAMESPACE)
        self._uids[tree["metadata"]["name"]] = created["metadata"]["uid"]


def _turn(pod: Tree) -> tuple[int, str]:
    """Schedulers take the most important first, of equals the oldest."""
    return -pod["spec"].get("priority", 0), str(pod["metadata"].get("creationTimestamp"))


def _fresh(tree: Tree) -> Tree:
    copied: Tree = json.loads(json.dumps(tree))
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        copied["metadata"].pop(key, None)
    return copied


async def _empty(client: HttpClient) -> None:
    """Take away what the last scenario left."""
    for kind in (PODS, CLAIMS, NODES, SLICES):
        namespace = NAMESPACE if kind.namespaced else ""
        for tree in (await client.list(kind, namespace)).items:
            metadata = tree["metadata"]
            if metadata.get("finalizers"):
                await client.patch(kind, metadata["name"], {"metadata": {"finalizers": None}}, namespace)
            await client.delete(kind, metadata["name"], namespace, grace_seconds=0)
    for one in (await client.list(DEVICE_CLASSES)).items:
        if one["metadata"]["name"] not in _CLASSES:
            await client.delete(DEVICE_CLASSES, one["metadata"]["name"])


_CLASSES: Final = frozenset(to_tree(one, "resource.k8s.io/v1", "DeviceClass")["metadata"]["name"] for one in classes())


async def _settled(client: HttpClient, places: dict[str, str], quiet: float) -> dict[str, Tree]:
    """The planned pods, when all of them are bound or nothing happens any more."""
    bound, since = -1, time.monotonic()
    while True:
        pods = {pod["metadata"]["name"]: pod for pod in (await client.list(PODS, NAMESPACE)).items}
        found = {name: pods[name] for name in places}
        now_bound = sum(bool(pod["spec"].get("nodeName")) for pod in pods.values())
        if now_bound != bound:
            bound, since = now_bound, time.monotonic()
        done = all(pod["spec"].get("nodeName") for pod in found.values())
        if done or time.monotonic() - since > quiet:
            return found
        await asyncio.sleep(0.02)


def _said(pod: Tree) -> str:
    conditions: list[Any] = pod["status"].get("conditions", [])
    return "; ".join(str(one.get("message", one["reason"])) for one in conditions if one["type"] == "PodScheduled")


async def _main(given: argparse.Namespace, kubeconfig: Path) -> int:
    everything = catalog()
    words = [given.only] if given.only else [f"{given.seed}/{number}" for number in range(given.count)]
    began, told, wrong = time.monotonic(), Counter[str](), 0
    async with connected(kubeconfig) as client:
        for word in words:
            scenario = scenario_of(word, everything)
            if scenario.fleet and given.opening != "gated":
                continue  # machines that are there do not open, and who waits for one of those has been tried there
            told["scenarios"] += 1
            try:
                done = await kept(client, scenario, opening=given.opening)
            except (StatusError, KeyError) as error:
                wrong += 1
                sys.stdout.write(f"{word}: {type(error).__name__}: {error}\n")
                continue
            told += Counter({"planned": done.planned, "elsewhere": len(done.elsewhere), "left": len(done.left)})
            wrong += bool(done.left)
            for kind, pods in (("not bound", done.left), ("elsewhere", done.elsewhere)):
                if pods:
                    sys.stdout.write(f"{word}: {kind}: {pods}\n")
            sys.stdout.flush()
    took = time.monotonic() - began
    sys.stdout.write(f"{took:.0f} s, {wrong} wrong: {dict(told)}\n")
    return 1 if wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 if any planned pod was left without a node, 2 if the programs are not there."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube.plans_on_kubernetes", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", default="kube", help="one that begins with wide asks for much more")
    parser.add_argument("--only", help="one scenario, by its words (SEED/NUMBER)")
    parser.add_argument("--opening", choices=get_args(Opening), default="gated", help="how nodes and pods meet")
    given = parser.parse_args(arguments)
    paths = programs(PROGRAMS)
    if paths is None:
        sys.stderr.write(f"{', '.join(missing(PROGRAMS))} not found: `python -m tests.kube.binaries` builds them\n")
        return 2
    with plane(paths, controllers="") as running:
        return asyncio.run(_main(given, running.kubeconfig))


if __name__ == "__main__":
    raise SystemExit(main())
