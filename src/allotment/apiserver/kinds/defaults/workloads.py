"""Defaults of what makes pods: deployments and their kin, jobs, autoscalers."""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.defaults.combinators import Fill, absent, each, empty, when_absent, when_empty, within
from allotment.model.trees import Tree

_MOST: Final = 2**31 - 1
#: Where a daemon set's count of template changes has lived since the field went; whoever counts starts at 1.
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _rolling(strategy: Tree, defaults: Tree) -> Tree:
    """How to roll; where another strategy is asked for all the same, what it does not say is zero."""
    if strategy["type"] != "RollingUpdate":
        if strategy.get("rollingUpdate") is None:
            return strategy
        defaults = dict.fromkeys(defaults, 0)
    return within(strategy, "rollingUpdate", lambda inner: absent(inner, defaults))


def deployment(tree: Tree) -> Tree:
    """One replica, replaced a quarter at a time."""

    def strategy(inner: Tree) -> Tree:
        return _rolling(empty(inner, {"type": "RollingUpdate"}), {"maxUnavailable": "25%", "maxSurge": "25%"})

    def spec(inner: Tree) -> Tree:
        inner = absent(inner, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
        return within(inner, "strategy", strategy)

    return within(tree, "spec", spec)


def daemon_set(tree: Tree) -> Tree:
    """Replaced one at a time."""

    def strategy(inner: Tree) -> Tree:
        return _rolling(empty(inner, {"type": "RollingUpdate"}), {"maxUnavailable": 1, "maxSurge": 0})

    def spec(inner: Tree) -> Tree:
        return within(absent(inner, {"revisionHistoryLimit": 10}), "updateStrategy", strategy)

    def metadata(inner: Tree) -> Tree:
        return within(inner, "annotations", when_absent(**{TEMPLATE_GENERATION: "0"}))

    return within(within(tree, "spec", spec), "metadata", metadata)


def stateful_set(tree: Tree) -> Tree:
    """Started in order; its claims outlive it."""

    def strategy(inner: Tree) -> Tree:
        if not inner.get("type"):
            inner = absent({**inner, "type": "RollingUpdate"}, {"rollingUpdate": {}})
        if inner.get("rollingUpdate") is not None:
            inner = within(inner, "rollingUpdate", when_absent(partition=0))
        return inner

    def template(claim: Tree) -> Tree:
        named = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        return claim if claim.items() >= named.items() else {**claim, **named}

    def spec(inner: Tree) -> Tree:
        inner = empty(inner, {"podManagementPolicy": "OrderedReady"})
        inner = absent(inner, {"replicas": 1, "revisionHistoryLimit": 10})
        inner = within(inner, "updateStrategy", strategy)
        inner = within(
            inner, "persistentVolumeClaimRetentionPolicy", when_empty(whenDeleted="Retain", whenScaled="Retain")
        )
        return each(inner, "volumeClaimTemplates", template)

    return within(tree, "spec", spec)


def job(tree: Tree) -> Tree:
    """One pod, tried six more times."""
    spec: Tree = tree.get("spec") or {}
    filled = spec
    if spec.get("completions") is None and spec.get("parallelism") is None:
        filled = {**filled, "completions": 1}
    per_index = spec.get("backoffLimitPerIndex") is not None
    filled = absent(
        filled,
        {
            "parallelism": 1,
            "backoffLimit": _MOST if per_index else 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed",
            "manualSelector": False,
        },
    )
    tree = tree if filled is spec and "spec" in tree else {**tree, "spec": filled}
    labels = ((filled.get("template") or {}).get("metadata") or {}).get("labels")
    return within(tree, "metadata", when_empty(labels=labels)) if labels else tree


def cron_job(tree: Tree) -> Tree:
    """Jobs may overlap; a few of the finished ones stay."""

    def spec(inner: Tree) -> Tree:
        inner = empty(inner, {"concurrencyPolicy": "Allow"})
        return absent(inner, {"suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})

    return within(tree, "spec", spec)


_CPU_METRIC: Final = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Final = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def _rules(tree: Tree, defaults: Tree) -> Tree:
    # An empty list of policies does not outlive the store, so it is none.
    return absent(empty(tree, {"policies": defaults["policies"]}), defaults)


def autoscaler(tree: Tree) -> Tree:
    """By CPU, between one and the maximum."""

    def behavior(inner: Tree) -> Tree:
        return within(
            within(inner, "scaleUp", lambda up: _rules(up, _UP)), "scaleDown", lambda down: _rules(down, _DOWN)
        )

    def spec(inner: Tree) -> Tree:
        inner = empty(absent(inner, {"minReplicas": 1}), {"metrics": [_CPU_METRIC]})
        return inner if inner.get("behavior") is None else within(inner, "behavior", behavior)

    return within(tree, "spec", spec)


def _replicas(tree: Tree) -> Tree:
    return within(tree, "spec", when_absent(replicas=1))


TYPES: Final[dict[str, Fill]] = {
    "apps/v1.Deployment": deployment,
    "apps/v1.DaemonSet": daemon_set,
    "apps/v1.StatefulSet": stateful_set,
    "apps/v1.ReplicaSet": _replicas,
    "batch/v1.Job": job,
    "batch/v1.CronJob": cron_job,
    "batch/v1.PodFailurePolicyOnPodConditionsPattern": when_empty(status="True"),
    "autoscaling/v1.HorizontalPodAutoscaler": lambda tree: within(tree, "spec", when_absent(minReplicas=1)),
    "autoscaling/v2.HorizontalPodAutoscaler": autoscaler,
}
