"""Limits manifests that others send: the number of their values, and of their pods.

The values take memory, twenty times that of the text. Each pod is tried by the engine, so that the time of an answer is
proportional to their number, and a short text can state two thousand million replicas. A server has only a few threads
for all of its visitors; the commands have no limit: they take the time of the user who starts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from allotment.api.load import Manifests, text_manifests
from allotment.errors import InputError
from allotment.model.trees import Tree

#: The most pods and claims of manifests, so that an answer takes seconds.
MOST_PODS: Final = 2_000
#: The most values of a text; 5 MB of JSON as a cluster prints it have fewer.
MOST_VALUES: Final = 500_000
#: Each value but the first follows one of these.
_SEPARATORS: Final = (":", ",", "- ")
#: A DaemonSet counts as this many pods: one for each node, of which a cluster may have thousands.
_DAEMONS: Final = 100


def load_limited(text: str, file: str = "") -> Manifests:
    """Load the manifests of a text. Raises InputError if they have too many values, pods or claims.

    Malformed numbers do not matter here: validation rejects them.
    """
    manifests = load_few_values(text, file)
    count = sum(_count(document.kind, document.tree) for document in manifests.documents)
    if count > MOST_PODS:
        hint = "state fewer replicas, or use the command line, which has no limit"
        raise InputError(f"the manifests have {count:,} pods and claims: expected at most {MOST_PODS:,}", hint)
    return manifests


def load_few_values(text: str, file: str = "") -> Manifests:
    """Load objects that are not tried, for example of a snapshot. Raises InputError for too many values."""
    values = sum(map(text.count, _SEPARATORS))
    if values > MOST_VALUES:
        hint = "send fewer objects, or use the command line, which has no limit"
        raise InputError(f"the text has about {values:,} values: expected at most {MOST_VALUES:,}", hint)
    return text_manifests(text, file) if file else text_manifests(text)


def _count(kind: str, tree: Tree) -> int:
    count = _COUNTS.get(kind)
    return max(count(_part(tree, "spec")), 0) if count is not None else 0


def _one(_: Mapping[str, object]) -> int:
    return 1


def _replicas(spec: Mapping[str, object]) -> int:
    return _number(spec, "replicas")


def _of_job(spec: Mapping[str, object]) -> int:
    parallelism = _number(spec, "parallelism")
    return min(parallelism, _number(spec, "completions")) if "completions" in spec else parallelism


def _of_cron_job(spec: Mapping[str, object]) -> int:
    return _of_job(_part(_part(spec, "jobTemplate"), "spec"))


def _part(tree: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(spec: Mapping[str, object], name: str) -> int:
    found = spec.get(name)
    return int(found) if isinstance(found, int | float) and abs(found) < 2**63 else 1


_COUNTS: Final[Mapping[str, Callable[[Mapping[str, object]], int]]] = {
    "Pod": _one,
    "ResourceClaim": _one,
    "Deployment": _replicas,
    "ReplicaSet": _replicas,
    "ReplicationController": _replicas,
    "StatefulSet": _replicas,
    "DaemonSet": lambda _: _DAEMONS,
    "Job": _of_job,
    "CronJob": _of_cron_job,
}
