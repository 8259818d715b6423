"""Defaults of workloads: deployments, daemon sets, stateful sets, jobs, cron jobs, autoscalers."""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.defaults.combinators import (
    Fill,
    fill_absent,
    fill_each,
    fill_empty,
    fill_within,
    when_absent,
    when_empty,
)
from allotment.model.trees import Tree

_MAX_INT32: Final = 2**31 - 1
#: Annotation that replaces the removed field templateGeneration of daemon sets; counting starts at 1.
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _rolling_update(strategy: Tree, defaults: Tree) -> Tree:
    """Defaults of rollingUpdate; with another strategy type, unset fields of an existing one are zero."""
    if strategy["type"] != "RollingUpdate":
        if strategy.get("rollingUpdate") is None:
            return strategy
        defaults = dict.fromkeys(defaults, 0)
    return fill_within(strategy, "rollingUpdate", lambda inner: fill_absent(inner, defaults))


def deployment(tree: Tree) -> Tree:
    def strategy(inner: Tree) -> Tree:
        return _rolling_update(
            fill_empty(inner, {"type": "RollingUpdate"}), {"maxUnavailable": "25%", "maxSurge": "25%"}
        )

    def spec(inner: Tree) -> Tree:
        inner = fill_absent(inner, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
        return fill_within(inner, "strategy", strategy)

    return fill_within(tree, "spec", spec)


def daemon_set(tree: Tree) -> Tree:
    def strategy(inner: Tree) -> Tree:
        return _rolling_update(fill_empty(inner, {"type": "RollingUpdate"}), {"maxUnavailable": 1, "maxSurge": 0})

    def spec(inner: Tree) -> Tree:
        return fill_within(fill_absent(inner, {"revisionHistoryLimit": 10}), "updateStrategy", strategy)

    def metadata(inner: Tree) -> Tree:
        return fill_within(inner, "annotations", when_absent(**{TEMPLATE_GENERATION: "0"}))

    return fill_within(fill_within(tree, "spec", spec), "metadata", metadata)


def stateful_set(tree: Tree) -> Tree:
    def strategy(inner: Tree) -> Tree:
        if not inner.get("type"):
            inner = fill_absent({**inner, "type": "RollingUpdate"}, {"rollingUpdate": {}})
        if inner.get("rollingUpdate") is not None:
            inner = fill_within(inner, "rollingUpdate", when_absent(partition=0))
        return inner

    def template(claim: Tree) -> Tree:
        named = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        return claim if claim.items() >= named.items() else {**claim, **named}

    def spec(inner: Tree) -> Tree:
        inner = fill_empty(inner, {"podManagementPolicy": "OrderedReady"})
        inner = fill_absent(inner, {"replicas": 1, "revisionHistoryLimit": 10})
        inner = fill_within(inner, "updateStrategy", strategy)
        inner = fill_within(
            inner, "persistentVolumeClaimRetentionPolicy", when_empty(whenDeleted="Retain", whenScaled="Retain")
        )
        return fill_each(inner, "volumeClaimTemplates", template)

    return fill_within(tree, "spec", spec)


def job(tree: Tree) -> Tree:
    """One pod and six retries by default."""
    spec: Tree = tree.get("spec") or {}
    filled = spec
    if spec.get("completions") is None and spec.get("parallelism") is None:
        filled = {**filled, "completions": 1}
    per_index = spec.get("backoffLimitPerIndex") is not None
    filled = fill_absent(
        filled,
        {
            "parallelism": 1,
            "backoffLimit": _MAX_INT32 if per_index else 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed",
            "manualSelector": False,
        },
    )
    tree = tree if filled is spec and "spec" in tree else {**tree, "spec": filled}
    labels = ((filled.get("template") or {}).get("metadata") or {}).get("labels")
    return fill_within(tree, "metadata", when_empty(labels=labels)) if labels else tree


def cron_job(tree: Tree) -> Tree:
    def spec(inner: Tree) -> Tree:
        inner = fill_empty(inner, {"concurrencyPolicy": "Allow"})
        return fill_absent(inner, {"suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})

    return fill_within(tree, "spec", spec)


_CPU_METRIC: Final = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Final = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def _scaling_rules(tree: Tree, defaults: Tree) -> Tree:
    # An empty list of policies is not preserved by the store, so it counts as unset.
    return fill_absent(fill_empty(tree, {"policies": defaults["policies"]}), defaults)


def autoscaler(tree: Tree) -> Tree:
    def behavior(inner: Tree) -> Tree:
        return fill_within(
            fill_within(inner, "scaleUp", lambda up: _scaling_rules(up, _SCALE_UP)),
            "scaleDown",
            lambda down: _scaling_rules(down, _SCALE_DOWN),
        )

    def spec(inner: Tree) -> Tree:
        inner = fill_empty(fill_absent(inner, {"minReplicas": 1}), {"metrics": [_CPU_METRIC]})
        return inner if inner.get("behavior") is None else fill_within(inner, "behavior", behavior)

    return fill_within(tree, "spec", spec)


def _replicas(tree: Tree) -> Tree:
    return fill_within(tree, "spec", when_absent(replicas=1))


TYPES: Final[dict[str, Fill]] = {
    "apps/v1.Deployment": deployment,
    "apps/v1.DaemonSet": daemon_set,
    "apps/v1.StatefulSet": stateful_set,
    "apps/v1.ReplicaSet": _replicas,
    "batch/v1.Job": job,
    "batch/v1.CronJob": cron_job,
    "batch/v1.PodFailurePolicyOnPodConditionsPattern": when_empty(status="True"),
    "autoscaling/v1.HorizontalPodAutoscaler": lambda tree: fill_within(tree, "spec", when_absent(minReplicas=1)),
    "autoscaling/v2.HorizontalPodAutoscaler": autoscaler,
}
