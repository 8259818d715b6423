"""``python -m tests.kube.advice --count 200``: kube-scheduler places pending pods after the first remedy.

The worlds are those of ``tests.storm.advice``: a pod is pending because of planted mistakes. Here the unmodified
kube-apiserver, kube-controller-manager and kube-scheduler with their default feature gates have the objects. The first
remedy of ``explain`` is applied through the API, as users, administrators and time would: objects that cannot be
updated are deleted and created again, and the users of released claims are deleted. Worlds without a remedy are
skipped, because nothing that an object says would help.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.resources import CLAIMS, NAMESPACES, NODES, SLICES
from allotment.model.trees import Tree
from bench.kube_programs import missing, programs
from bench.real_kube import ApiServer, plane
from tests.cluster_actions import is_unschedulable, scheduled_condition
from tests.kube.test_causes import ClusterScenarios
from tests.storm.advice.explanations import explained
from tests.storm.advice.planting import PlantedWorld, planted_world
from tests.storm.advice.remedies import with_remedy
from tests.storm.advice.tools import words_of
from tests.storm.advice.worlds import NAMESPACE, POD, World, key_of

#: Seconds in which kube-scheduler must place the pod after the remedy, and must not have placed it before. It retries a
#: pod whose event it missed after ten seconds.
_PLACED_SECONDS: Final = 30.0
_PENDING_SECONDS: Final = 1.0
#: kube-scheduler sets this field; without it, the claim's status cannot be updated for the next consumer.
_ALLOCATION_TIMESTAMP: Final = "2026-01-01T00:00:00Z"
_LATER: Final = ("Pod", "ResourceClaim", "ResourceClaimTemplate")


class Outcome(NamedTuple):
    """The result for the pod of a world: ``placed``, ``not placed``, ``placed before`` or ``no remedy``, and the
    remedy with the last message of kube-scheduler."""

    name: str
    result: str
    detail: str = ""


@asynccontextmanager
async def empty_cluster(kube: ApiServer) -> AsyncIterator[ClusterScenarios]:
    """The cluster, which is cleared before and after each world."""
    async with kube.client("advice") as client:
        cluster = ClusterScenarios(client, await discover(client))
        await cluster.clear()
        try:
            yield cluster
        finally:
            await cluster.clear()


async def outcome(kube: ApiServer, planted: PlantedWorld) -> Outcome:
    """Create a world, apply the first remedy, and wait for kube-scheduler."""
    reasons = explained(planted.world.cluster, planted.world.own).reasons
    changes = reasons.headline.changes if reasons is not None else ()
    repaired = with_remedy(planted.world, changes) if changes else None
    if repaired is None:
        return Outcome(planted.name, "no remedy", words_of(changes))
    async with empty_cluster(kube) as cluster:
        await _create_cluster(cluster, planted.world)
        await _apply(cluster, planted.world.own)
        if await _placed(cluster, _PENDING_SECONDS, unless_reported=True):
            return Outcome(planted.name, "placed before", words_of(changes))
        await _change(cluster, planted.world, repaired)
        if await _placed(cluster, _PLACED_SECONDS):
            return Outcome(planted.name, "placed", words_of(changes))
        message = scheduled_condition(await _pod(cluster)).get("message", "no condition")
        return Outcome(planted.name, "not placed", f"{words_of(changes)}: {message}")


# --- the world ------------------------------------------------------------------------------------------------------


async def _create_cluster(cluster: ClusterScenarios, world: World) -> None:
    """Create the cluster, the pods that run in it, and their claims with the devices that they hold."""
    for tree in world.cluster:
        if tree["kind"] == "Namespace":
            await cluster.ensure(NAMESPACES, {"metadata": {"name": tree["metadata"]["name"]}})
            await _set_labels(cluster, tree)
    for tree in world.cluster:
        if tree["kind"] == "Node":
            await cluster.create_node(tree)
        elif tree["kind"] not in ("Namespace", *_LATER):
            await cluster.create(tree)
    uids = {}
    for tree in world.of_kind("Pod"):
        if tree in world.cluster:
            created = await cluster.create({key: value for key, value in tree.items() if key != "status"})
            uids[tree["metadata"]["namespace"], tree["metadata"]["name"]] = created["metadata"]["uid"]
    for tree in world.cluster:
        if tree["kind"] == "ResourceClaim":
            await _create_allocated(cluster, tree, uids)


async def _create_allocated(cluster: ClusterScenarios, tree: Tree, uids: dict[tuple[str, str], str]) -> None:
    created = await cluster.create({key: value for key, value in tree.items() if key != "status"})
    namespace = tree["metadata"]["namespace"]
    users = [{**user, "uid": uids[namespace, user["name"]]} for user in tree["status"]["reservedFor"]]
    allocation = {**tree["status"]["allocation"], "allocationTimestamp": _ALLOCATION_TIMESTAMP}
    status = {"allocation": allocation, "reservedFor": users}
    await cluster.client.update(CLAIMS, {**created, "status": status}, subresource="status")


async def _apply(cluster: ClusterScenarios, own: Iterable[Tree]) -> None:
    """Create the author's objects, the pod last; the API server may reject them because of the mistake."""
    for tree in sorted(own, key=lambda tree: tree["kind"] == "Pod"):
        try:
            await cluster.create(tree)
        except StatusError as error:
            if error.code not in (400, 422):
                raise


async def _set_labels(cluster: ClusterScenarios, tree: Tree) -> None:
    """Set the labels of a namespace; those of earlier worlds are removed."""
    name = tree["metadata"]["name"]
    before = (await cluster.client.get(NAMESPACES, name))["metadata"].get("labels") or {}
    kept = {"kubernetes.io/metadata.name", *tree["metadata"]["labels"]}
    labels = {**dict.fromkeys(label for label in before if label not in kept), **tree["metadata"]["labels"]}
    await cluster.client.patch(NAMESPACES, name, {"metadata": {"labels": labels}})


# --- the remedy -----------------------------------------------------------------------------------------------------


async def _change(cluster: ClusterScenarios, before: World, after: World) -> None:
    """Change the objects of a cluster to those of the world after the remedy, and create the author's objects again."""
    for tree in before.own:
        await _delete(cluster, tree)
    old = {key_of(tree): tree for tree in before.cluster}
    new = {key_of(tree): tree for tree in after.cluster}
    for key, tree in old.items():
        if key not in new:
            await _delete(cluster, tree)
    for key, tree in new.items():
        if tree != old.get(key):
            await _update(cluster, tree)
    await _apply(cluster, after.own)


async def _update(cluster: ClusterScenarios, tree: Tree) -> None:
    if tree["kind"] == "Namespace":
        await _set_labels(cluster, tree)
    elif tree["kind"] == "Node":
        spec = {"unschedulable": tree["spec"].get("unschedulable"), "taints": tree["spec"].get("taints") or None}
        await cluster.client.patch(NODES, tree["metadata"]["name"], {"spec": spec})
    elif tree["kind"] == "ResourceSlice":
        await cluster.client.patch(SLICES, tree["metadata"]["name"], {"spec": {"pool": tree["spec"]["pool"]}})
    else:
        resource = cluster.resource(tree)
        await cluster.client.patch(resource, tree["metadata"]["name"], {"spec": tree["spec"]})


async def _delete(cluster: ClusterScenarios, tree: Tree) -> None:
    """Delete an object and wait until it is gone; it need not exist."""
    resource, metadata = cluster.resource(tree), tree["metadata"]
    namespace = metadata.get("namespace", "")
    async with asyncio.timeout(_PLACED_SECONDS):
        while True:
            try:
                await cluster.client.delete(resource, metadata["name"], namespace, grace_seconds=0)
            except StatusError as error:
                if error.code == 404:
                    return
                raise
            await asyncio.sleep(0.05)


async def _pod(cluster: ClusterScenarios) -> Tree:
    try:
        return await cluster.pod(POD, NAMESPACE)
    except StatusError as error:
        if error.code != 404:
            raise
        return {}


async def _placed(cluster: ClusterScenarios, seconds: float, *, unless_reported: bool = False) -> bool:
    """Whether the pod gets a node in this time; with ``unless_reported`` it ends once kube-scheduler reports on it."""
    latest = time.monotonic() + seconds
    while time.monotonic() < latest:
        pod = await _pod(cluster)
        if (pod.get("spec") or {}).get("nodeName"):
            return True
        if unless_reported and (not pod or is_unschedulable(pod)):
            return False
        await asyncio.sleep(0.05)
    return False


# --- the command ----------------------------------------------------------------------------------------------------


async def _run(kube: ApiServer, names: Sequence[str]) -> int:
    counts: Counter[str] = Counter()
    for name in names:
        planted = planted_world(name)
        found = await outcome(kube, planted)
        counts[found.result] += 1
        if found.result != "placed":
            mistakes = ", ".join(mistake.name for mistake in planted.mistakes)
            _print(f"{name} ({mistakes}): {found.result}: {found.detail}")
    for result, count in counts.most_common():
        _print(f"{count:6d} {result}")
    return 1 if counts["not placed"] or counts["placed before"] else 0


def main() -> int:
    """Run the command line; return 1 if a pod was not placed, 2 if the programs are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube.advice", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="number of worlds (%(default)s)")
    parser.add_argument("--seed", default="kube", help="names the worlds: SEED/0, SEED/1, … (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first world (%(default)s)")
    arguments = parser.parse_args()
    paths = programs()
    if paths is None:
        sys.stderr.write(f"{', '.join(missing())} not found: `python -m tests.kube.binaries` builds them\n")
        return 2
    names = [f"{arguments.seed}/{number}" for number in range(arguments.first, arguments.first + arguments.count)]
    with plane(paths) as kube:
        return asyncio.run(_run(kube, names))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
