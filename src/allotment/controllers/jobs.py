"""Job controller: pods that run until enough have succeeded or too many have failed.

Each finished pod must be counted exactly once, whatever is deleted or restarted in between. So each pod carries a
finalizer, and counting has three steps: its uid is written into ``uncountedTerminatedPods``, the finalizer is removed,
and only then the uid becomes a number (KEP-2307).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import parse
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.resources import JOBS, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.adoption import Children, PartialFailure, call_all
from allotment.controllers.conditions import condition_of, is_true, with_condition
from allotment.controllers.job_failures import (
    INDEX,
    FailureEffect,
    failure_effect,
    index_of,
    last_failures,
    limit_of,
    tries,
    with_failure_counts,
)
from allotment.controllers.job_indexes import Indexes, format_indexes, indexes_of
from allotment.controllers.job_progress import (
    ENDS,
    TRACKING,
    JobEnd,
    PodCounts,
    count_pods,
    is_tracked,
    job_end,
    pod_has_failed,
)
from allotment.controllers.job_scheduling import JobScheduling, are_job_groups_enabled
from allotment.controllers.label_selectors import selects
from allotment.controllers.pod_control import OwnPods
from allotment.controllers.pods import is_finished, is_ready, phase_of, pod_from
from allotment.model.features import Features
from allotment.model.trees import Tree

_MANAGER: Final = "kubernetes.io/job-controller"
_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 600.0
#: Pods created in one sync, as in Kubernetes; their creation triggers the next sync.
_BURST: Final = 500

Key = tuple[str, str]


def jobs(features: Features) -> Program:
    """Create the Job controller."""

    async def run(context: ProgramContext) -> None:
        await _Jobs(context, features).run()

    return run


class _Jobs:
    def __init__(self, context: ProgramContext, features: Features) -> None:
        self._client = context.client_for("job-controller")
        self._clock = context.clock
        self._recorder = context.recorder("job-controller")
        self._jobs = context.caches.trees(JOBS)
        self._pods = context.caches.trees(PODS)
        self._children = Children(self._pods, self._client)
        self._own = OwnPods(self._pods, self._client, self._recorder)
        self._scheduling = JobScheduling(context) if are_job_groups_enabled(features) else None
        self._by_uid = self._jobs.index("uid", lambda item: (item.uid,))
        self._queue: WorkQueue[Key] = WorkQueue("jobs", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        if self._scheduling is not None:
            await self._scheduling.synced()
        await run_queues([self._queue], [(self._pods, self._pod_changed), (self._jobs, self._changed)])

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            self._queue.add(new.key)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for pod in (old, new):
            owner = pod.controller if pod else None
            if owner is not None and owner["kind"] == "Job":
                jobs = self._by_uid[owner["uid"]]
                for job in jobs:
                    self._queue.add(job.key, after=self._children.count(job.uid) * 5e-5)
                if not jobs and new is not None and TRACKING in (new.metadata.get("finalizers") or ()):
                    # Its Job is deleted, so it is not counted any more.
                    self._queue.add((f"{new.namespace}/{owner['uid']}", ""))
        if new is not None and new.controller is None and is_tracked(new):
            self._queue.add((f"{new.namespace}/", new.name))

    async def _sync(self, key: Key) -> float | None:
        if not key[1]:
            await self._release_orphans(key[0].partition("/")[2])
            return None
        if key[0].endswith("/"):
            await self._release_unowned(key[0].removesuffix("/"), key[1])
            return None
        job = self._jobs.item(*key)
        if job is None or job.spec.get("managedBy", _MANAGER) != _MANAGER:
            return None
        if is_finished_job(job):
            await self._release([pod for pod in self._children.known(job.uid) if is_tracked(pod)])
            return await self._delete_expired(job)
        pods = await self._children.of(job)
        group = await self._scheduling.group_of(job, pods) if self._scheduling is not None else ""
        count = count_pods(job, pods)
        end = job_end(job, count, self._deadline(job))
        pause: float | None = None
        failure: PartialFailure | None = None
        if not job.deleting:
            try:
                pause = await self._manage(job, count, end, group)
            except PartialFailure as error:
                failure = error
            count = count_pods(job, self._children.known(job.uid))
        await self._record(job, count, end)
        if failure is not None:
            raise failure.failure
        # An exceeded deadline has already finished the Job; its last pods trigger a sync when they end.
        left = self._deadline(job) if end is None else None
        return min((wait for wait in (pause, left) if wait is not None), default=None)

    def _deadline(self, job: CachedItem[Any]) -> float | None:
        seconds, start = job.spec.get("activeDeadlineSeconds"), job.status.get("startTime")
        return self._clock.left(start, seconds) if seconds is not None and start else None

    # --- pods -----------------------------------------------------------------------------------------------------

    async def _manage(self, job: CachedItem[Any], count: PodCounts, end: JobEnd | None, group: str) -> float | None:
        """Create or delete pods. Returns the seconds until delayed pods may be created.

        ``group``: the PodGroup of new pods, or empty.
        """
        if end is not None:
            await call_all([partial(self._own.delete, job, pod) for pod in count.active])
            return None
        if job.spec.get("suspend"):
            await self._delete_unneeded(job, count.active)
            return None
        parallelism = job.spec.get("parallelism", 1)
        completions = job.spec.get("completions")
        if completions is None:
            wanted = len(count.active) if count.total_succeeded else parallelism
            wanted = min(wanted, parallelism)
        else:
            wanted = min(parallelism, completions - count.total_succeeded - len(count.failed_indexes))
        spare = sorted(count.active, key=lambda pod: (is_ready(pod), bool(pod.spec.get("nodeName"))))
        if job.spec.get("completionMode") == "Indexed":
            seen: set[int] = set()
            doubles = []
            over = count.done_indexes | count.failed_indexes
            for pod in count.active:
                index = index_of(pod)
                if index in seen or index in over or index >= (completions or 0):
                    doubles.append(pod)
                seen.add(index)
            await self._delete_unneeded(job, doubles)
            spare = [pod for pod in spare if pod not in doubles]
        if len(spare) > wanted:
            await self._delete_unneeded(job, spare[: len(spare) - wanted])
            return None
        missing = wanted - len(spare)
        if job.spec.get("podReplacementPolicy") == "Failed":
            missing -= sum(pod.deleting and not is_finished(pod) for pod in count.pods)
        if missing <= 0:
            return None
        missing = min(missing, _BURST)
        taken = indexes_of(map(index_of, spare)) | count.done_indexes | count.failed_indexes
        if limit_of(job) is not None:
            return await self._retry(job, self._pod_tree(job, group), count, missing, taken)
        pause = self._backoff(count)
        if pause > 0:
            return pause
        await self._create(job, self._pod_tree(job, group), missing, taken)
        return None

    async def _delete_unneeded(self, job: CachedItem[Any], pods: Sequence[CachedItem[Any]]) -> None:
        """Delete pods that are no longer needed; without the finalizer they are not counted."""
        await self._release(pods)
        await call_all([partial(self._own.delete, job, pod) for pod in pods])

    async def _retry(
        self, job: CachedItem[Any], made: Tree, count: PodCounts, missing: int, taken: Indexes
    ) -> float | None:
        """Create pods for free indexes, each after its own back-off; ``made``: the pod without its index."""
        last = last_failures(pod for pod in count.pods if pod_has_failed(pod, job))
        waits = {
            index: wait
            for index, before in last.items()
            if index not in taken and (wait := self._backoff_left(_ended(before), tries(before))) > 0
        }
        calls: list[Callable[[], Awaitable[object]]] = []
        for index in islice((taken | indexes_of(waits)).absent(job.spec["completions"]), missing):
            before = last.get(index)
            meaning = (
                failure_effect(before, job.spec.get("podFailurePolicy")) if before is not None else FailureEffect()
            )
            pod = with_failure_counts(_indexed(made, job.name, index), before, meaning)
            calls.append(partial(self._own.create, job, pod))
        await call_all(calls, slow_start=True)
        return min(waits.values(), default=None)

    def _backoff(self, count: PodCounts) -> float:
        """Seconds until new pods may be created: 10, 20, up to 600 after the last failure."""
        ends = [(_ended(pod), phase_of(pod)) for pod in count.pods if is_finished(pod)]
        ends.sort(reverse=True)
        failures = next((number for number, (_, phase) in enumerate(ends) if phase == "Succeeded"), len(ends))
        if not failures:
            return 0.0
        return self._backoff_left(ends[0][0], failures)

    def _backoff_left(self, ended: str, failures: int) -> float:
        return self._clock.left(ended, min(_FIRST_PAUSE * 2 ** min(failures - 1, 16), _LONGEST_PAUSE))

    async def _create(self, job: CachedItem[Any], made: Tree, missing: int, taken: Indexes) -> None:
        if job.spec.get("completionMode") != "Indexed":
            await call_all([partial(self._own.create, job, made)] * missing, slow_start=True)
            return
        indexes = islice(taken.absent(job.spec["completions"]), missing)
        await call_all(
            [partial(self._own.create, job, _indexed(made, job.name, index)) for index in indexes], slow_start=True
        )

    def _pod_tree(self, job: CachedItem[Any], group: str) -> Tree:
        made = pod_from(job.spec["template"], job.tree)
        metadata = {**made["metadata"], "finalizers": [*made["metadata"].get("finalizers", ()), TRACKING]}
        spec = {**made["spec"], "schedulingGroup": {"podGroupName": group}} if group else made["spec"]
        return {**made, "metadata": metadata, "spec": spec}

    async def _release(self, pods: Sequence[CachedItem[Any]]) -> None:
        await call_all([partial(self._release_one, pod) for pod in pods])

    async def _release_one(self, pod: CachedItem[Any]) -> None:
        current = self._pods.item(pod.namespace, pod.name)
        if current is None or current.uid != pod.uid or not is_tracked(current):
            return
        finalizers = [name for name in current.metadata["finalizers"] if name != TRACKING]
        metadata = {**current.metadata, "finalizers": finalizers}
        if not finalizers:
            del metadata["finalizers"]
        try:
            self._pods.record_write(await self._client.update(PODS, {**current.tree, "metadata": metadata}))
        except StatusError as error:
            if error.code != 404:
                raise

    async def _release_orphans(self, uid: str) -> None:
        if not self._by_uid[uid]:
            await self._release([pod for pod in self._children.known(uid) if is_tracked(pod)])

    async def _release_unowned(self, namespace: str, name: str) -> None:
        """Release a pod without a controller, such as one whose labels were removed, unless a Job will adopt it."""
        pod = self._pods.item(namespace, name)
        if pod is None or pod.controller is not None:
            return
        jobs = [job for job in self._jobs.items() if job.namespace == namespace and not job.deleting]
        if pod.deleting or not any(selects(job.spec.get("selector") or {}, pod.labels) for job in jobs):
            await self._release([pod])

    # --- status ---------------------------------------------------------------------------------------------------

    async def _record(self, job: CachedItem[Any], count: PodCounts, end: JobEnd | None) -> None:
        """Write new uids to the status, then remove the finalizers of counted pods, then count the uids."""
        now = self._clock.now()
        status = dict(job.status)
        conditions = status.get("conditions")
        if job.spec.get("suspend"):
            if not is_true(conditions, "Suspended"):
                conditions = with_condition(
                    conditions, "Suspended", "True", "JobSuspended", "Job suspended", now=now, lastProbeTime=now
                )
                self._recorder.event(job.tree, "Normal", "Suspended", "Job suspended")
            status.pop("startTime", None)
        else:
            if is_true(conditions, "Suspended"):
                conditions = with_condition(
                    conditions, "Suspended", "False", "JobResumed", "Job resumed", now=now, lastProbeTime=now
                )
                self._recorder.event(job.tree, "Normal", "Resumed", "Job resumed")
            status.setdefault("startTime", now)
        if end is not None and condition_of(conditions, end.type) is None:
            conditions = with_condition(
                conditions, end.type, "True", end.reason, end.message, now=now, lastProbeTime=now
            )
        if conditions:
            status["conditions"] = conditions
        uncounted = {
            field: [*((status.get("uncountedTerminatedPods") or {}).get(field) or ()), *(pod.uid for pod in pods)]
            for field, pods in (("succeeded", count.succeeded), ("failed", count.failed))
        }
        status["uncountedTerminatedPods"] = {field: uids for field, uids in uncounted.items() if uids}
        _set(status, "active", len(count.active))
        status["terminating"] = sum(pod.deleting and not is_finished(pod) for pod in count.pods)
        status["ready"] = sum(is_ready(pod) for pod in count.active)
        if job.spec.get("completionMode") == "Indexed":
            _set(status, "completedIndexes", format_indexes(count.done_indexes))
            if limit_of(job) is not None:
                status["failedIndexes"] = format_indexes(count.failed_indexes)
        job = await self._write(job, status)
        finished = {uid for uids in uncounted.values() for uid in uids}
        await self._release(
            [
                pod
                for pod in count.pods
                if is_tracked(pod) and (pod.uid in finished or is_finished(pod) or (end and pod.deleting))
            ]
        )
        if finished:
            status = {**job.status, "uncountedTerminatedPods": {}}
            for field, uids in uncounted.items():
                _set(status, field, job.status.get(field, 0) + len(uids))
            if job.spec.get("completionMode") == "Indexed":
                _set(status, "succeeded", len(count.done_indexes))
            job = await self._write(job, status)
        if end is not None and not count.active and not status["terminating"]:
            await self._finish(job, end)

    async def _finish(self, job: CachedItem[Any], end: JobEnd) -> None:
        now = self._clock.now()
        type = ENDS[end.type]
        status = dict(job.status)
        status["conditions"] = with_condition(
            status.get("conditions"), type, "True", end.reason, end.message, now=now, lastProbeTime=now
        )
        if type == "Complete":
            status["completionTime"] = now
        await self._write(job, status)
        if type == "Complete":
            self._recorder.event(job.tree, "Normal", "Completed", "Job completed")
        else:
            self._recorder.event(job.tree, "Warning", end.reason, end.message)

    async def _write(self, job: CachedItem[Any], status: Tree) -> CachedItem[Any]:
        if status == job.status:
            return job
        tree = await self._client.update(JOBS, {**job.tree, "status": status}, subresource="status")
        self._jobs.record_write(tree)
        return CachedItem(tree)

    async def _delete_expired(self, job: CachedItem[Any]) -> float | None:
        """Delete a finished Job after ``ttlSecondsAfterFinished``."""
        seconds = job.spec.get("ttlSecondsAfterFinished")
        if seconds is None or job.deleting:
            return None
        ended = [
            condition
            for condition in job.status["conditions"]
            if condition["type"] in ENDS.values() and condition["status"] == "True"
        ]
        left = self._clock.left(ended[0]["lastTransitionTime"], seconds)
        if left > 0:
            return left
        try:
            await self._client.delete(JOBS, job.name, job.namespace, uid=job.uid, propagation="Foreground")
        except StatusError as error:
            if error.code != 404:
                raise
        return None


def is_finished_job(job: CachedItem[Any]) -> bool:
    """Whether the Job has the condition Complete or Failed."""
    return any(is_true(job.status.get("conditions"), type) for type in ENDS.values())


def _indexed(pod: Tree, job: str, index: int) -> Tree:
    metadata, spec = pod["metadata"], pod["spec"]
    env = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}

    def with_index(containers: Sequence[Tree]) -> list[Tree]:
        return [
            container
            if any(known["name"] == env["name"] for known in container.get("env") or ())
            else {**container, "env": [*(container.get("env") or ()), env]}
            for container in containers
        ]

    spec = {**spec, "containers": with_index(spec["containers"])}
    if spec.get("initContainers"):
        spec["initContainers"] = with_index(spec["initContainers"])
    if not spec.get("hostname"):
        spec["hostname"] = f"{job}-{index}"
    marked = {
        **metadata,
        "generateName": f"{job}-{index}-",
        "labels": {**(metadata.get("labels") or {}), INDEX: str(index)},
        "annotations": {**(metadata.get("annotations") or {}), INDEX: str(index)},
    }
    return {**pod, "metadata": marked, "spec": spec}


def _ended(pod: CachedItem[Any]) -> str:
    ends = [
        ((status.get("state") or {}).get("terminated") or {}).get("finishedAt")
        for status in pod.status.get("containerStatuses") or ()
    ]
    known: list[str] = [end for end in ends if end]
    if known:
        return max(known, key=parse)
    ready = condition_of(pod.status.get("conditions"), "Ready")
    times = (ready or {}).get("lastTransitionTime"), pod.metadata.get("deletionTimestamp")
    return str(next((time for time in times if time), pod.metadata["creationTimestamp"]))


def _set(status: Tree, field: str, value: int | str) -> None:
    """Set a field; remove it if the value is zero or empty."""
    if value:
        status[field] = value
    else:
        status.pop(field, None)
