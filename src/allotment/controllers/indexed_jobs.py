"""How often each index of a Job may fail (``backoffLimitPerIndex``, KEP-3850).

A pod carries how often its index failed before it, so that nothing else need be remembered: the last failed pod of an
index says how many tries are left and how long the next one waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from allotment.cluster.cached_item import Item
from allotment.controllers.job_failure_policy import Meaning
from allotment.model.trees import Tree

INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


def index_of(pod: Item[Any]) -> int:
    """The completion index of a pod; -1 where it has none."""
    text = (pod.metadata.get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdecimal() else -1


def limit_of(job: Item[Any]) -> int | None:
    """Failures that each index has; None where only all of them together are counted."""
    limit = job.spec.get("backoffLimitPerIndex")
    return int(limit) if limit is not None and job.spec.get("completionMode") == "Indexed" else None


def has_failed(pod: Item[Any], meaning: Meaning, limit: int) -> bool:
    """Whether the failure of a pod is the end of its index."""
    return meaning.fails_index or (meaning.counts and _count(pod, FAILURES) >= limit)


def last_failures(pods: Iterable[Item[Any]]) -> dict[int, Item[Any]]:
    """Of each index the failed pod that knows most."""
    last: dict[int, Item[Any]] = {}
    for pod in pods:
        known = last.get(index_of(pod))
        if known is None or tries(known) <= tries(pod):
            last[index_of(pod)] = pod
    return last


def tries(pod: Item[Any]) -> int:
    """How often its index had been tried in vain when it ended."""
    return _count(pod, FAILURES) + _count(pod, IGNORED) + 1


def remembering(pod: Tree, before: Item[Any] | None, meaning: Meaning) -> Tree:
    """A new pod that knows of the failures before it."""
    counts = {FAILURES: 0, IGNORED: 0}
    if before is not None:
        counts = {name: _count(before, name) for name in counts}
        counts[FAILURES if meaning.counts else IGNORED] += 1
    told: Mapping[str, str] = {name: str(count) for name, count in counts.items() if count or name == FAILURES}
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **told}}}


def _count(pod: Item[Any], name: str) -> int:
    text = (pod.metadata.get("annotations") or {}).get(name, "")
    return int(text) if text.isdecimal() else 0
