"""``python -m tests.kube.plans_on_kubernetes``: checks that Kubernetes' own scheduler places pods as planned.

The scenarios are those of ``tests.storm.plans``; here the unmodified kube-apiserver and kube-scheduler, without client
rate limits, bind the pods. The scenarios run one after the other, each on an empty cluster: the plan's nodes are
created unschedulable, then their slices, then the pods, with ``nominatedNodeName`` where the plan has them (KEP-5278),
and everything becomes schedulable in one of the ways of ``Opening``. Of Allotment, only the planner runs.
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
from tests.storm.plan_execution import classes, existing_machines, objects_of, plan_names
from tests.storm.plans import make_plan

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-scheduler")
#: Seconds without a binding after which kube-scheduler is idle; it retries a pod that failed after a second or two.
_QUIET_SECONDS: Final = 6.0
#: Seconds that kube-scheduler may need to receive a change: it watches each kind over a connection of its own.
_WATCH_DELAY_SECONDS: Final = 0.1
_PRIORITIES: Final = (500, 1000)
_GATE: Final = "example.com/not-yet"
_PROBE: Final = "is-it-open"
#: kube-scheduler sets this field; without it, the claim's status cannot be updated for the next consumer.
_ALLOCATION_TIMESTAMP: Final = "2026-01-01T00:00:00Z"

Opening = Literal["gated", "reserved", "together"]
"""When nodes become schedulable. ``gated``: all nodes before the first pod is ungated. ``reserved``: a node of the plan
is open only to the pods planned for it, which tolerate its taint. ``together``: one right after the other while pods
are pending; kube-scheduler gives the first nodes to any pod, because it reserves no device for a nominated pod.

With ``gated``, pods that share a GPU sometimes go elsewhere and block other pods there: kube-scheduler (1.36.3) counts
a share twice between its write and the answer, and clears the pod's nomination when it then finds no capacity. With
``reserved``, such a pod is retried a second later."""


class PlanOutcome(NamedTuple):
    """The result of a plan."""

    planned: int
    elsewhere: dict[str, str]
    """Pods bound to a node that the plan does not name."""
    unbound: dict[str, str]
    """Pods without a node, with the reason."""


@asynccontextmanager
async def connect(kubeconfig: Path) -> AsyncIterator[HttpClient]:
    """Connect to the cluster and create the objects that every scenario needs: classes, priorities, the pods' service
    account."""
    async with HttpClient(target([kubeconfig]), "plans") as client:
        labels = {"resource.kubernetes.io/admin-access": "true"}
        await client.patch(NAMESPACES, NAMESPACE, {"metadata": {"labels": labels}})
        with suppress(StatusError):  # Kubernetes' controllers, which do not run here, would create it.
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, NAMESPACE)
        for value in _PRIORITIES:
            with suppress(StatusError):
                await client.create(PRIORITY_CLASSES, {"metadata": {"name": f"p{value}"}, "value": value})
        yield client


async def carry_out(
    client: HttpClient, given: Scenario, *, opening: Opening = "gated", quiet: float = _QUIET_SECONDS
) -> PlanOutcome:
    """Plan a scenario, create its objects and wait until no pod has been bound for ``quiet`` seconds."""
    cluster = existing_machines(given)
    created = make_plan(given, cluster)
    names = plan_names(given)
    placements = [*created.existing, *(placement for machine in created.machines for placement in machine.placements)]
    places = {names[placement.pod.name]: placement.node for placement in placements if placement.pod.name in names}
    await _delete_all(client)
    creator = _ObjectCreator(client, places, opening)
    await creator.create_all(objects_of(created, given, cluster, places, reserved=opening == "reserved"))
    found = await _wait_until_idle(client, places, quiet)
    bound = {name: pod["spec"]["nodeName"] for name, pod in found.items() if pod["spec"].get("nodeName")}
    return PlanOutcome(
        len(places),
        {name: f"planned on {places[name]}, is on {bound[name]}" for name in bound if bound[name] != places[name]},
        {name: f"planned on {places[name]}: {_reason(found[name])}" for name in sorted(places.keys() - bound.keys())},
    )


class _ObjectCreator:
    """Creates objects as kube-apiserver requires: statuses in a second request, and with the server's uids."""

    def __init__(self, client: HttpClient, places: dict[str, str], opening: Opening) -> None:
        self._client = client
        self._places = places
        self._opening = opening
        self._uids: dict[str, str] = {}

    async def create_all(self, objects: Sequence[tuple[Resource, Tree]]) -> None:
        """Create the objects, with unschedulable nodes and the pods last, and then make everything schedulable."""
        by_kind: dict[Resource, list[Tree]] = {}
        for kind, tree in objects:
            by_kind.setdefault(kind, []).append(tree)
        nodes = by_kind.get(NODES, [])
        for node in nodes:
            await self._node(node)
        for item in by_kind[DEVICE_CLASSES]:
            with suppress(StatusError):
                await self._client.create(DEVICE_CLASSES, _without_uids(item))
        for entry in by_kind.get(SLICES, ()):
            await self._client.create(SLICES, _without_uids(entry))
        await asyncio.sleep(_WATCH_DELAY_SECONDS)
        pods = sorted(by_kind.get(PODS, ()), key=_queue_order)
        running = [pod for pod in pods if pod["spec"].get("nodeName")]
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        made_for = [item for item in by_kind.get(CLAIMS, ()) if item["metadata"].get("ownerReferences")]
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
                status["allocation"]["allocationTimestamp"] = _ALLOCATION_TIMESTAMP
                await self._status(CLAIMS, claim["metadata"]["name"], status)
        for pod in (*running, *waiting):
            named = pod["status"].get("resourceClaimStatuses")
            status = {
                "resourceClaimStatuses": named,
                "phase": pod["status"]["phase"],
                "nominatedNodeName": self._places.get(pod["metadata"]["name"]),
            }
            await self._status(PODS, pod["metadata"]["name"], {key: value for key, value in status.items() if value})
        await asyncio.sleep(_WATCH_DELAY_SECONDS)
        names = [node["metadata"]["name"] for node in nodes]
        opened = await asyncio.gather(
            *(self._client.patch(NODES, name, {"spec": {"unschedulable": None}}) for name in names)
        )
        if self._opening == "gated" and opened:
            await self._wait_for_watch(max(opened, key=lambda node: int(node["metadata"]["resourceVersion"])))
            for pod in waiting:
                name = pod["metadata"]["name"]
                await self._client.patch(PODS, name, {"spec": {"schedulingGates": None}}, NAMESPACE)

    async def _wait_for_watch(self, opened: Tree) -> None:
        """Wait until kube-scheduler knows of a schedulable node, and so of all earlier objects: a pod for that node
        alone is bound."""
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [opened["metadata"]["name"]]}]}
        existing = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec = {
            "containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": existing},
        }  # fmt: skip
        await self._client.create(PODS, {"metadata": {"name": _PROBE}, "spec": spec}, NAMESPACE)
        while not (await self._client.get(PODS, _PROBE, NAMESPACE))["spec"].get("nodeName"):
            await asyncio.sleep(0.02)
        await self._client.delete(PODS, _PROBE, NAMESPACE, grace_seconds=0)

    async def _status(self, kind: Resource, name: str, status: Tree) -> None:
        await self._client.patch(kind, name, {"status": status}, NAMESPACE, subresource="status")

    async def _node(self, tree: Tree) -> None:
        tree = _without_uids(tree)
        spec = tree.get("spec", {})
        taints = spec.get("taints") or None
        await self._client.create(NODES, {**tree, "spec": {**spec, "unschedulable": True}})
        # Admission taints every new node as not ready until a controller removes the taint, and no controller runs
        # here.
        await self._client.patch(NODES, tree["metadata"]["name"], {"spec": {"taints": taints}})

    async def _claim(self, tree: Tree) -> None:
        tree = _without_uids(tree)
        tree.pop("status", None)
        for owner in tree["metadata"].get("ownerReferences", ()):
            owner["uid"] = self._uids[owner["name"]]
        await self._client.create(CLAIMS, tree, NAMESPACE)

    async def _pod(self, tree: Tree) -> None:
        tree = _without_uids(tree)
        spec = tree["spec"]
        for container in spec["containers"]:
            container.setdefault("image", "i")
        if priority := spec.pop("priority", 0):
            spec["priorityClassName"] = f"p{priority}"
        if self._opening == "gated" and not spec.get("nodeName"):
            spec["schedulingGates"] = [{"name": _GATE}]
        created = await self._client.create(PODS, tree, NAMESPACE)
        self._uids[tree["metadata"]["name"]] = created["metadata"]["uid"]


def _queue_order(pod: Tree) -> tuple[int, str]:
    """Sort key: schedulers take pods by priority, then by age."""
    return -pod["spec"].get("priority", 0), str(pod["metadata"].get("creationTimestamp"))


def _without_uids(tree: Tree) -> Tree:
    copied: Tree = json.loads(json.dumps(tree))
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        copied["metadata"].pop(key, None)
    return copied


async def _delete_all(client: HttpClient) -> None:
    """Delete the objects of the last scenario."""
    for kind in (PODS, CLAIMS, NODES, SLICES):
        namespace = NAMESPACE if kind.namespaced else ""
        for tree in (await client.list(kind, namespace)).items:
            metadata = tree["metadata"]
            if metadata.get("finalizers"):
                await client.patch(kind, metadata["name"], {"metadata": {"finalizers": None}}, namespace)
            await client.delete(kind, metadata["name"], namespace, grace_seconds=0)
    for class_ in (await client.list(DEVICE_CLASSES)).items:
        if class_["metadata"]["name"] not in _CLASSES:
            await client.delete(DEVICE_CLASSES, class_["metadata"]["name"])


_CLASSES: Final = frozenset(
    to_tree(class_, "resource.k8s.io/v1", "DeviceClass")["metadata"]["name"] for class_ in classes()
)


async def _wait_until_idle(client: HttpClient, places: dict[str, str], quiet: float) -> dict[str, Tree]:
    """The planned pods by name, once all of them are bound or no pod has been bound for ``quiet`` seconds."""
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


def _reason(pod: Tree) -> str:
    conditions: list[Any] = pod["status"].get("conditions", [])
    return "; ".join(
        str(condition.get("message", condition["reason"]))
        for condition in conditions
        if condition["type"] == "PodScheduled"
    )


async def _main(options: argparse.Namespace, kubeconfig: Path) -> int:
    everything = catalog()
    arguments = [options.only] if options.only else [f"{options.seed}/{number}" for number in range(options.count)]
    start, totals, wrong = time.monotonic(), Counter[str](), 0
    async with connect(kubeconfig) as client:
        for word in arguments:
            scenario = scenario_of(word, everything)
            if scenario.fleet and options.opening != "gated":
                # Existing machines stay unschedulable here, and pods that are waiting for one of those were already
                # tried.
                continue
            totals["scenarios"] += 1
            try:
                done = await carry_out(client, scenario, opening=options.opening)
            except (StatusError, KeyError) as error:
                wrong += 1
                sys.stdout.write(f"{word}: {type(error).__name__}: {error}\n")
                continue
            totals += Counter({"planned": done.planned, "elsewhere": len(done.elsewhere), "left": len(done.unbound)})
            wrong += bool(done.unbound)
            for kind, pods in (("not bound", done.unbound), ("elsewhere", done.elsewhere)):
                if pods:
                    sys.stdout.write(f"{word}: {kind}: {pods}\n")
            sys.stdout.flush()
    elapsed = time.monotonic() - start
    sys.stdout.write(f"{elapsed:.0f} s, {wrong} wrong: {dict(totals)}\n")
    return 1 if wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if any planned pod was left without a node, 2 if the programs are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube.plans_on_kubernetes", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", default="kube", help="a seed that begins with wide makes more diverse requests")
    parser.add_argument("--only", help="a single scenario (SEED/NUMBER)")
    how = "order in which nodes and pods become schedulable (%(default)s)"
    parser.add_argument("--opening", choices=get_args(Opening), default="gated", help=how)
    given = parser.parse_args(arguments)
    paths = programs(PROGRAMS)
    if paths is None:
        sys.stderr.write(f"{', '.join(missing(PROGRAMS))} not found: `python -m tests.kube.binaries` builds them\n")
        return 2
    with plane(paths, controllers="") as running:
        return asyncio.run(_main(given, running.kubeconfig))


if __name__ == "__main__":
    raise SystemExit(main())
