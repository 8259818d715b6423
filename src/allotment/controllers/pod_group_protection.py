"""PodGroup protection: keeps a deleted group until its last pod has finished, as the pods use its reservations.

Every group is created with a finalizer; it is removed once the group is being deleted and none of its pods can run any
more (KEP-4671).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import POD_GROUPS, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.pods import is_finished
from allotment.model.pod_groups import FINALIZER, group_name

_Key = tuple[str, str]


async def pod_group_protection(context: ProgramContext) -> None:
    """Run the PodGroup protection controller."""
    client = context.client_for("podgroup-protection-controller")
    groups = context.caches.trees(POD_GROUPS)
    pods = context.caches.trees(PODS)
    active = pods.index("active pods of a group", _active)

    async def remove_finalizer(key: _Key) -> None:
        group = groups.item(*key)
        if group is None or not _waits(group) or active[key]:
            return
        rest = [finalizer for finalizer in group.metadata["finalizers"] if finalizer != FINALIZER]
        metadata = {**group.metadata, "finalizers": rest}
        if not rest:
            del metadata["finalizers"]
        try:
            await client.update(POD_GROUPS, {**group.tree, "metadata": metadata})
        except StatusError as error:
            if error.code != 404:
                raise

    queue: WorkQueue[_Key] = WorkQueue(
        "pod_group_protection", remove_finalizer, clock=context.clock, random=context.random
    )

    def group_changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and _waits(new):
            queue.add(new.key)

    def pod_changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for pod in (old, new):
            if pod is not None and (name := group_name(pod.spec)):
                key = pod.namespace, name
                group = groups.item(*key)
                if group is not None and _waits(group) and not active[key]:
                    queue.add(key)

    await run_queues([queue], [(groups, group_changed), (pods, pod_changed)])


def _waits(group: CachedItem[Any]) -> bool:
    return group.deleting and FINALIZER in (group.metadata.get("finalizers") or ())


def _active(pod: CachedItem[Any]) -> Iterator[_Key]:
    if not is_finished(pod) and (name := group_name(pod.spec)):
        yield pod.namespace, name
