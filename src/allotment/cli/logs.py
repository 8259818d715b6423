"""``allot logs``: prints the log of a container, and with ``-f`` follows it."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from allotment.cli.live.connection import namespace_of, on_cluster
from allotment.cli.live.resource_arguments import kind_of
from allotment.cli.live.tables import path_of
from allotment.cli.output.errors import Failure
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.resources import JOBS, PODS, REPLICA_SETS
from allotment.model.trees import Tree

if TYPE_CHECKING:
    from allotment.cluster.client import Client
    from allotment.cluster.remote.http_client import HttpClient


#: The kinds between a workload and its pods.
_BETWEEN: dict[str, Resource] = {"Deployment": REPLICA_SETS, "CronJob": JOBS}


async def pods_of(client: Client, owner: Tree) -> list[Tree]:
    """Return the pods that an object owns, directly or indirectly."""
    namespace, uids = owner["metadata"].get("namespace", ""), {owner["metadata"].get("uid")}
    between = _BETWEEN.get(owner.get("kind", ""))
    if between is not None:
        uids = {
            tree["metadata"].get("uid") for tree in (await client.list(between, namespace)).items if owned(tree, uids)
        }
    return [tree for tree in (await client.list(PODS, namespace)).items if owned(tree, uids)]


def owned(tree: Tree, uids: set[Any]) -> bool:
    """Return whether one of the uids owns an object."""
    return any(owner.get("uid") in uids for owner in tree["metadata"].get("ownerReferences") or ())


#: The annotation with the default container of a pod.
_DEFAULT = "kubectl.kubernetes.io/default-container"


def run(arguments: Namespace) -> int:
    """Print the log of a pod, or of a workload's first pod."""
    return on_cluster(arguments, lambda client, way: _logs(arguments, client, namespace_of(arguments, way)))


async def _logs(arguments: Namespace, client: HttpClient, namespace: str) -> int:
    pod = await _pod(arguments.pod, client, namespace)
    name = pod["metadata"]["name"]
    query = [("container", _container(pod, arguments.container))]
    query += [("follow", "true")] if arguments.follow else []
    query += [("previous", "true")] if arguments.previous else []
    query += [("timestamps", "true")] if arguments.timestamps else []
    if arguments.tail is not None and arguments.tail >= 0:
        query.append(("tailLines", str(arguments.tail)))
    sys.stdout.flush()
    # Bytes are passed through unchanged.
    binary = getattr(sys.stdout, "buffer", None)
    async for piece in client.stream(f"{path_of(PODS, namespace, name)}/log", query):
        if binary is not None:
            binary.write(piece)
            binary.flush()
        else:
            sys.stdout.write(piece.decode("utf-8", "replace"))
    return 0


async def _pod(word: str, client: HttpClient, namespace: str) -> Tree:
    kind, slash, name = word.rpartition("/")
    served = kind_of(await discover(client), kind) if slash else None
    try:
        if served is None or served.resource.kind == "Pod":
            return await client.get(PODS, name, namespace)
        owner = await client.get(served.resource, name, namespace if served.resource.namespaced else "")
    except StatusError as error:
        if error.code != 404:
            raise
        raise Failure(f'error: error from server (NotFound): {error} in namespace "{namespace}"') from None
    found = await pods_of(client, owner)
    if not found:
        raise Failure(f"error: no pods found for {served.label}/{name}")
    # Prefer a running pod, then order by name.
    chosen = min(found, key=lambda pod: ((pod.get("status") or {}).get("phase") != "Running", pod["metadata"]["name"]))
    if len(found) > 1:
        sys.stderr.write(f"Found {len(found)} pods, using pod/{chosen['metadata']['name']}\n")
    return chosen


def _container(pod: Tree, requested: str | None) -> str:
    """Return the name of the selected container. Raises Failure for an unknown name."""
    spec, metadata = pod["spec"], pod["metadata"]
    own = [container["name"] for container in spec.get("containers") or ()]
    init = [
        container["name"]
        for container in (*(spec.get("initContainers") or ()), *(spec.get("ephemeralContainers") or ()))
    ]
    if requested is not None:
        if requested not in (*own, *init):
            raise Failure(
                f"error: container {requested} is not valid for pod {metadata['name']}",
                f"known: {', '.join(own + init)}",
            )
        return requested
    chosen = str((metadata.get("annotations") or {}).get(_DEFAULT) or own[0])
    if len(own) + len(init) > 1 and _DEFAULT not in (metadata.get("annotations") or {}):
        every = ", ".join([*own, *(f"{container} (init)" for container in init)])
        sys.stderr.write(f'Defaulted container "{chosen}" out of: {every}\n')
    return chosen if chosen in (*own, *init) else str(own[0])
