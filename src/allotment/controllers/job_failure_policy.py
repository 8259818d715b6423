"""Effect of a failed pod on its Job: counted, ignored, or fatal (``podFailurePolicy``, KEP-3329)."""

from __future__ import annotations

from typing import Any, NamedTuple

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
