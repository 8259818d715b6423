"""CronJob controller: one Job for each scheduled time, and the concurrency policy for Jobs that still run.

The name of a Job is derived from the CronJob and the scheduled minute, so that a restart cannot start one twice.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import parse as parse_time
from allotment.cluster.clock import stamp
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import CRON_JOBS, JOBS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.adoption import Children
from allotment.controllers.conditions import is_true
from allotment.controllers.cron_schedules import Schedule, ScheduleError, parse
from allotment.controllers.jobs import is_finished_job
from allotment.controllers.pods import owner_reference
from allotment.model.trees import Tree

_SCHEDULED_FOR: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: More missed times than this are reported as too many; the last of them is started all the same.
_MANY_MISSED: Final = 100

Key = tuple[str, str]


async def cron_jobs(context: ProgramContext) -> None:
    """Run the CronJob controller."""
    await _CronJobs(context).run()


class _CronJobs:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("cronjob-controller")
        self._clock = context.clock
        self._recorder = context.recorder("cronjob-controller")
        self._cron_jobs = context.caches.trees(CRON_JOBS)
        self._jobs = context.caches.trees(JOBS)
        self._children = Children(self._jobs, self._client)
        self._by_uid = self._cron_jobs.index("uid", lambda item: (item.uid,))
        self._queue: WorkQueue[Key] = WorkQueue("cronjobs", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await run_queues([self._queue], [(self._jobs, self._job_changed), (self._cron_jobs, self._changed)])

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            self._queue.cancel(new.key)
            self._queue.add(new.key)

    def _job_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        job = new or old
        owner = job.controller if job else None
        for found in self._by_uid[owner["uid"]] if owner else ():
            self._queue.add(found.key)

    async def _sync(self, key: Key) -> float | None:
        cron = self._cron_jobs.item(*key)
        if cron is None or cron.deleting:
            return None
        jobs = list(self._children.known(cron.uid))
        status = dict(cron.status)
        self._record_finished(cron, jobs, status)
        await self._delete_old_jobs(cron, jobs)
        wait: float | None = None
        if not cron.spec.get("suspend"):
            try:
                schedule, zone = parse(cron.spec["schedule"]), _zone(cron.spec.get("timeZone"))
            except ScheduleError as error:
                text = f'unparseable schedule: "{cron.spec["schedule"]}" : {error}'
                self._recorder.event(cron.tree, "Warning", "UnparseableSchedule", text)
            except ZoneInfoNotFoundError as error:
                text = f'invalid timeZone: "{cron.spec["timeZone"]}": {error}'
                self._recorder.event(cron.tree, "Warning", "UnknownTimeZone", text)
            else:
                wait = await self._start(cron, jobs, status, schedule, zone)
        active = [job for job in self._children.known(cron.uid) if not is_finished_job(job)]
        status["active"] = [_reference(job) for job in sorted(active, key=lambda job: job.name)]
        if not active:
            del status["active"]
        if status != cron.status:
            tree = {**cron.tree, "status": status}
            self._cron_jobs.record_write(await self._client.update(CRON_JOBS, tree, subresource="status"))
        return wait

    def _record_finished(self, cron: CachedItem[Any], jobs: list[CachedItem[Any]], status: Tree) -> None:
        known = {reference["uid"] for reference in cron.status.get("active") or ()}
        for job in jobs:
            if job.uid in known and is_finished_job(job):
                complete = is_true(job.status.get("conditions"), "Complete")
                text = f"Saw completed job: {job.name}, condition: {'Complete' if complete else 'Failed'}"
                self._recorder.event(cron.tree, "Normal", "SawCompletedJob", text)
            end = job.status.get("completionTime")
            if end and end > status.get("lastSuccessfulTime", ""):
                status["lastSuccessfulTime"] = end

    async def _start(
        self, cron: CachedItem[Any], jobs: list[CachedItem[Any]], status: Tree, schedule: Schedule, zone: tzinfo
    ) -> float | None:
        """Start the Job that is due. Returns the seconds until the next scheduled time."""
        now = self._clock.moment()
        due, missed = _due(cron, schedule, zone, now)
        following = schedule.after(now, zone)
        wait = (following - now).total_seconds() * self._clock.speed if following else None
        if due is None:
            return wait
        if missed > _MANY_MISSED:
            advice = "Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            text = f"too many missed start times: {missed}. {advice}"
            self._recorder.event(cron.tree, "Warning", "TooManyMissedTimes", text)
        limit = cron.spec.get("startingDeadlineSeconds")
        if limit is not None and due + timedelta(seconds=limit) < now:
            text = f"Missed scheduled time to start a job: {due:%a, %d %b %Y %H:%M:%S +0000}"
            self._recorder.event(cron.tree, "Warning", "MissSchedule", text)
            return wait
        running = [job for job in jobs if not is_finished_job(job)]
        policy = cron.spec.get("concurrencyPolicy")
        if policy == "Forbid" and running:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._recorder.event(cron.tree, "Normal", "JobAlreadyActive", text)
            return wait
        if policy == "Replace":
            for job in running:
                await self._delete(cron, job)
        await self._create(cron, due)
        status["lastScheduleTime"] = stamp(due)
        return wait

    async def _create(self, cron: CachedItem[Any], due: datetime) -> None:
        template = cron.spec["jobTemplate"]
        wanted = template.get("metadata") or {}
        metadata: Tree = {
            "name": f"{cron.name}-{int(due.timestamp()) // 60}",
            "namespace": cron.namespace,
            "annotations": {**(wanted.get("annotations") or {}), _SCHEDULED_FOR: stamp(due)},
            "ownerReferences": [owner_reference(cron.tree)],
        }
        if wanted.get("labels"):
            metadata["labels"] = wanted["labels"]
        tree = {"kind": "Job", "apiVersion": JOBS.api_version, "metadata": metadata, "spec": template["spec"]}
        try:
            made = await self._client.create(JOBS, tree, cron.namespace)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                return
            self._recorder.event(cron.tree, "Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        self._jobs.record_write(made)
        self._recorder.event(cron.tree, "Normal", "SuccessfulCreate", f"Created job {made['metadata']['name']}")

    async def _delete(self, cron: CachedItem[Any], job: CachedItem[Any]) -> None:
        try:
            await self._client.delete(JOBS, job.name, job.namespace, uid=job.uid, propagation="Background")
        except StatusError as error:
            if error.code != 404:
                raise
        self._jobs.record_deletion(job.tree)
        self._recorder.event(cron.tree, "Normal", "SuccessfulDelete", f"Deleted job {job.name}")

    async def _delete_old_jobs(self, cron: CachedItem[Any], jobs: list[CachedItem[Any]]) -> None:
        """Delete the oldest finished Jobs beyond the two history limits."""
        for field, default, complete in (("successfulJobsHistoryLimit", 3, True), ("failedJobsHistoryLimit", 1, False)):
            limit = cron.spec.get(field, default)
            ended = [
                job
                for job in jobs
                if is_finished_job(job) and is_true(job.status.get("conditions"), "Complete") == complete
            ]
            ended.sort(key=lambda job: (job.status.get("startTime", ""), job.name))
            for job in ended[: max(len(ended) - limit, 0)]:
                await self._delete(cron, job)


def _due(cron: CachedItem[Any], schedule: Schedule, zone: tzinfo, now: datetime) -> tuple[datetime | None, int]:
    """The last scheduled time that has passed without a Job, and the number of such times."""
    since = parse_time(cron.status.get("lastScheduleTime") or cron.metadata["creationTimestamp"])
    limit = cron.spec.get("startingDeadlineSeconds")
    if limit is not None:
        since = max(since, now - timedelta(seconds=limit))
    if schedule.every is not None:
        count = int((now - since) / schedule.every)
        return (since + count * schedule.every if count > 0 else None), count
    due, missed = None, 0
    following = schedule.after(since, zone)
    while following is not None and following <= now:
        due, missed = following, missed + 1
        if missed > _MANY_MISSED:
            # Far behind: continue from shortly before now instead of iterating over years of minutes.
            since = max(following, now - timedelta(days=1))
        else:
            since = following
        following = schedule.after(since, zone)
    return due, missed


def _zone(name: str | None) -> tzinfo:
    return ZoneInfo(name) if name else UTC


def _reference(job: CachedItem[Any]) -> Tree:
    return {
        "kind": "Job",
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.uid,
        "apiVersion": JOBS.api_version,
        "resourceVersion": job.metadata["resourceVersion"],
    }
