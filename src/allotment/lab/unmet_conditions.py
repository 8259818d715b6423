"""The reason for which an object does not meet the condition that ``Lab.wait`` waits for.

A workload's own conditions only say that replicas are missing; the reason is in its pods. These are found by their
owners, so that the pods of a custom resource that owns a Deployment are found, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from allotment.lab.wait_conditions import condition, deletion_blockers, describe_state, predicate_for
from allotment.model.trees import Tree
from allotment.scheduler.pods import claim_keys

#: The kinds between an object and its pods, owners first.
_OWNERS: Final = (
    DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS, JOBS, REPLICA_SETS, REPLICATION_CONTROLLERS,
)  # fmt: skip
#: Reasons of containers that are not the cause: they start, or have done their work.
_NORMAL: Final = frozenset({"", "ContainerCreating", "PodInitializing", "Completed"})
#: The scheduler's event repeats the condition PodScheduled, and outlives it.
_OUTDATED: Final = frozenset({"FailedScheduling"})
#: The reads are made after the time of the caller has elapsed.
_READ_SECONDS: Final = 5.0

_has_met = predicate_for(None, "Pod")


async def reason(client: Client, kind: str, tree: Tree | None) -> str:
    """Return the reason from the most specific source. ``tree``: the object, or None if it does not exist."""
    if tree is None:
        return describe_state(None)
    try:
        async with asyncio.timeout(_READ_SECONDS):
            return await _reason(client, kind, tree)
    except (StatusError, Unreachable, TimeoutError):  # such as a namespace that was deleted
        return describe_state(tree)


async def _reason(client: Client, kind: str, tree: Tree) -> str:
    if kind == "Pod":
        return ("" if _has_met(tree) else await _pod_reason(client, tree)) or describe_state(tree)
    for type_ in ("Failed", "ReplicaFailure"):  # such as a quota, for which there are no pods
        if (found := condition(tree, type_)).get("status") == "True" and found.get("message"):
            return f"{type_}: {found['message']}"
    pods = await (_pods_with_claim if kind == "ResourceClaim" else _pods_of)(client, tree)
    pending = [pod for pod in pods if not _has_met(pod)]
    if pending:
        first = min(pending, key=lambda pod: ("deletionTimestamp" in pod["metadata"], pod["metadata"]["name"]))
        count = f"{len(pending)} of {len(pods)} pods are not ready: " if len(pods) > 1 else ""
        text = await _pod_reason(client, first) or describe_state(first)
        return f"{count}pod {first['metadata']['name']}: {text}"
    if kind == "ResourceClaim" and not pods:
        return "no pod uses it; a claim is allocated for its first pod"
    return await _last_warning(client, tree) or describe_state(tree)


async def _pod_reason(client: Client, pod: Tree) -> str:
    """The reason for which a pod is not ready; empty if neither its status nor an event has one."""
    if "deletionTimestamp" in pod["metadata"]:
        return f"is being deleted: {deletion_blockers(pod)}"
    scheduled, status = condition(pod, "PodScheduled"), pod.get("status") or {}
    if scheduled.get("status") == "False":
        return f"not scheduled: {scheduled.get('message') or scheduled.get('reason', '')}"
    if status.get("reason"):  # the node or a controller ended the pod
        return ": ".join(filter(None, (status["reason"], status.get("message"))))
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = container.get("state") or {}
        stopped = state.get("waiting") or state.get("terminated") or {}
        if stopped.get("reason", "") not in _NORMAL:
            code = f", exit code {stopped['exitCode']}" if "exitCode" in stopped else ""
            message = f": {stopped['message']}" if stopped.get("message") else ""
            return f"container {container['name']}: {stopped['reason']}{code}{message}"
    return await _last_warning(client, pod)


async def _last_warning(client: Client, tree: Tree) -> str:
    """The message of the latest warning about an object; empty if there is none."""
    meta = tree["metadata"]
    fields = f"involvedObject.uid={meta['uid']},type=Warning"
    events = (await client.list(EVENTS, meta.get("namespace", ""), fields=fields)).items
    relevant = [event for event in events if event.get("reason") not in _OUTDATED and event.get("message")]
    latest = max(relevant, key=lambda event: int(event["metadata"]["resourceVersion"]), default=None)
    return str(latest["message"]) if latest is not None else ""


# --- the pods of an object --------------------------------------------------------------------------------------------


async def _pods_of(client: Client, tree: Tree) -> Sequence[Tree]:
    """The pods that an object owns, directly or through workloads."""
    namespace = tree["metadata"].get("namespace", "")
    owners = {tree["metadata"]["uid"]}

    async def owned(resource: Resource) -> list[Tree]:
        return [each for each in (await client.list(resource, namespace)).items if not owners.isdisjoint(_owners(each))]

    for resource in _OWNERS:
        owners.update(each["metadata"]["uid"] for each in await owned(resource))
    return await owned(PODS)


async def _pods_with_claim(client: Client, claim: Tree) -> Sequence[Tree]:
    """The pods that use a claim."""
    namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
    pods = (await client.list(PODS, namespace)).items
    return [pod for pod in pods if any(key.name == name for key in claim_keys(pod))]


def _owners(tree: Tree) -> list[str]:
    return [owner["uid"] for owner in tree["metadata"].get("ownerReferences") or ()]
