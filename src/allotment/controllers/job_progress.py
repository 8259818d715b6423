"""Progress of a Job: the counts of its pods, and whether it has ended, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.controllers.conditions import condition_of
from allotment.controllers.job_failures import failure_effect, index_has_failed, index_of, limit_of
from allotment.controllers.job_indexes import Indexes, indexes_of, parse_indexes
from allotment.controllers.pods import is_finished, phase_of, restarts

#: The finalizer of pods that are not counted yet.
TRACKING: Final = "batch.kubernetes.io/job-tracking"
#: The condition of an ended Job, by the condition that announces it.
ENDS: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


class JobEnd(NamedTuple):
    """The end of a Job: its first condition, with reason and message."""

    type: str
    reason: str
    message: str


class PodCounts(NamedTuple):
    """A snapshot of a Job's pods; ``succeeded`` and ``failed`` hold pods not yet counted in the status."""

    pods: Sequence[CachedItem[Any]]
    active: list[CachedItem[Any]]
    succeeded: list[CachedItem[Any]]
    failed: list[CachedItem[Any]]
    total_succeeded: int
    total_failed: int
    done_indexes: Indexes
    failed_indexes: Indexes
    end: str


def count_pods(job: CachedItem[Any], pods: Sequence[CachedItem[Any]]) -> PodCounts:
    """Count the pods of a Job."""
    uncounted = job.status.get("uncountedTerminatedPods") or {}
    known = {uid for field in ("succeeded", "failed") for uid in uncounted.get(field) or ()}
    tracked = [pod for pod in pods if is_tracked(pod) and pod.uid not in known]
    active = [pod for pod in pods if not is_finished(pod) and not pod.deleting]
    succeeded = [pod for pod in tracked if phase_of(pod) == "Succeeded"]
    failed, end = [], ""
    per_index = limit_of(job)
    given_up: list[int] = []
    for pod in tracked:
        if not pod_has_failed(pod, job):
            continue
        meaning = failure_effect(pod, job.spec.get("podFailurePolicy"))
        end = end or meaning.end
        if meaning.counts:
            failed.append(pod)
        if per_index is not None and index_has_failed(pod, meaning, per_index):
            given_up.append(index_of(pod))
    total = job.status.get("succeeded", 0) + len(uncounted.get("succeeded") or ()) + len(succeeded)
    indexes, failed_indexes = Indexes(), Indexes()
    if job.spec.get("completionMode") == "Indexed":
        completions = job.spec.get("completions") or 0
        failed_indexes = parse_indexes(job.status.get("failedIndexes")) | indexes_of(given_up)
        failed_indexes = failed_indexes.below(completions)
        indexes = parse_indexes(job.status.get("completedIndexes")) | indexes_of(map(index_of, succeeded))
        indexes = indexes.below(completions)
        total = len(indexes)
    total_failed = job.status.get("failed", 0) + len(uncounted.get("failed") or ()) + len(failed)
    return PodCounts(pods, active, succeeded, failed, total, total_failed, indexes, failed_indexes, end)


def job_end(job: CachedItem[Any], count: PodCounts, deadline: float | None) -> JobEnd | None:
    """The end of a Job; None while it runs. ``deadline``: seconds until it, if there is one."""
    for type in ENDS:
        known = condition_of(job.status.get("conditions"), type)
        if known is not None:
            return JobEnd(type, known.get("reason", ""), known.get("message", ""))
    if count.end:
        return JobEnd("FailureTarget", "PodFailurePolicy", count.end)
    limit = job.spec.get("backoffLimit", 6)
    again = 0
    if job.spec["template"]["spec"].get("restartPolicy") == "OnFailure":
        again = sum(restarts(pod) for pod in count.active)
    if count.total_failed > limit or (again and again >= max(limit, 1)):
        text = "Job has reached the specified backoff limit"
        return JobEnd("FailureTarget", "BackoffLimitExceeded", text)
    if not job.spec.get("suspend") and deadline is not None and deadline <= 0:
        return JobEnd("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
    if count.failed_indexes:
        most, completions = job.spec.get("maxFailedIndexes"), job.spec.get("completions") or 0
        if most is not None and len(count.failed_indexes) > most:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return JobEnd("FailureTarget", "MaxFailedIndexesExceeded", text)
        if len(count.failed_indexes) + len(count.done_indexes) >= completions:
            return JobEnd("FailureTarget", "FailedIndexes", "Job has failed indexes")
    policy = _met_policy(job, count)
    if policy:
        return JobEnd("SuccessCriteriaMet", "SuccessPolicy", policy)
    completions = job.spec.get("completions")
    if completions is None:
        done = count.total_succeeded > 0 and not count.active
    else:
        done = count.total_succeeded >= completions
    if done:
        text = "Reached expected number of succeeded pods"
        return JobEnd("SuccessCriteriaMet", "CompletionsReached", text)
    return None


def _met_policy(job: CachedItem[Any], count: PodCounts) -> str:
    """The rule of ``successPolicy`` that is met, as the message of the condition (KEP-3998)."""
    for number, rule in enumerate((job.spec.get("successPolicy") or {}).get("rules") or ()):
        indexes = parse_indexes(rule["succeededIndexes"]) if rule.get("succeededIndexes") else None
        done = count.done_indexes if indexes is None else count.done_indexes & indexes
        wanted = rule.get("succeededCount")
        if len(done) >= wanted if wanted is not None else done == indexes:
            return f"Matched rules at index {number}"
    return ""


def pod_has_failed(pod: CachedItem[Any], job: CachedItem[Any]) -> bool:
    phase = phase_of(pod)
    if phase == "Failed":
        return True
    if job.spec.get("podReplacementPolicy") == "Failed":
        return pod.deleting and phase == "Pending"
    # A deleted pod may never report how it ended.
    return pod.deleting and phase != "Succeeded"


def is_tracked(pod: CachedItem[Any]) -> bool:
    return TRACKING in (pod.metadata.get("finalizers") or ())
