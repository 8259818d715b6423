"""Failed pods of a Job: their effect (``podFailurePolicy``, KEP-3329), and the failures of each index (KEP-3850).

A pod carries the number of earlier failures of its index, so that no other state is needed: the last failed pod of an
index determines the remaining tries and the delay of the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.model.trees import Tree


class FailureEffect(NamedTuple):
    """Whether the failure counts, why the Job fails (empty if it does not), and whether the index fails."""

    counts: bool = True
    end: str = ""
    fails_index: bool = False


def failure_effect(pod: CachedItem[Any], policy: Tree | None) -> FailureEffect:
    """The effect by the first matching rule; without a match the failure counts."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        found = _exit_code(pod, rule.get("onExitCodes")) or _condition(pod, rule.get("onPodConditions"))
        if not found:
            continue
        match rule["action"]:
            case "FailJob":
                return FailureEffect(end=f"{found} matching FailJob rule at index {number}")
            case "Ignore":
                return FailureEffect(counts=False)
            case "FailIndex":
                return FailureEffect(fails_index=True)
        return FailureEffect()
    return FailureEffect()


def _exit_code(pod: CachedItem[Any], wanted: Tree | None) -> str:
    if wanted is None:
        return ""
    values = wanted.get("values") or ()
    for field in ("containerStatuses", "initContainerStatuses"):
        for status in pod.status.get(field) or ():
            if wanted.get("containerName") not in (None, "", status["name"]):
                continue
            ended = (status.get("state") or {}).get("terminated")
            code = ended.get("exitCode", 0) if ended else 0
            if code and (code in values) == (wanted["operator"] == "In"):
                name = f"{pod.namespace}/{pod.name}"
                return f"Container {status['name']} for pod {name} failed with exit code {code}"
    return ""


def _condition(pod: CachedItem[Any], wanted: list[Tree] | None) -> str:
    for pattern in wanted or ():
        for condition in pod.status.get("conditions") or ():
            if condition["type"] == pattern["type"] and condition["status"] == pattern.get("status", "True"):
                return f"Pod {pod.namespace}/{pod.name} has condition {condition['type']}"
    return ""


INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


def index_of(pod: CachedItem[Any]) -> int:
    """The completion index of a pod, or -1."""
    text = (pod.metadata.get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdecimal() else -1


def limit_of(job: CachedItem[Any]) -> int | None:
    """The failures allowed for each index; None if only the total is limited."""
    limit = job.spec.get("backoffLimitPerIndex")
    return int(limit) if limit is not None and job.spec.get("completionMode") == "Indexed" else None


def index_has_failed(pod: CachedItem[Any], meaning: FailureEffect, limit: int) -> bool:
    """Whether the failure of a pod fails its index."""
    return meaning.fails_index or (meaning.counts and _count(pod, FAILURES) >= limit)


def last_failures(pods: Iterable[CachedItem[Any]]) -> dict[int, CachedItem[Any]]:
    """The failed pod with the most tries, for each index."""
    last: dict[int, CachedItem[Any]] = {}
    for pod in pods:
        known = last.get(index_of(pod))
        if known is None or tries(known) <= tries(pod):
            last[index_of(pod)] = pod
    return last


def tries(pod: CachedItem[Any]) -> int:
    """The number of failed tries of its index, including this pod."""
    return _count(pod, FAILURES) + _count(pod, IGNORED) + 1


def with_failure_counts(pod: Tree, before: CachedItem[Any] | None, meaning: FailureEffect) -> Tree:
    """Return a new pod with the failure counts of its predecessor added to it."""
    counts = {FAILURES: 0, IGNORED: 0}
    if before is not None:
        counts = {name: _count(before, name) for name in counts}
        counts[FAILURES if meaning.counts else IGNORED] += 1
    annotations: Mapping[str, str] = {name: str(count) for name, count in counts.items() if count or name == FAILURES}
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}}


def _count(pod: CachedItem[Any], name: str) -> int:
    text = (pod.metadata.get("annotations") or {}).get(name, "")
    return int(text) if text.isdecimal() else 0
