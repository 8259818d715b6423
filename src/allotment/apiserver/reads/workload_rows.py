"""Table rows of workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from allotment.apiserver.kinds.kind import TableConverter
from allotment.apiserver.reads.columns import (
    NONE,
    age,
    age_of,
    between,
    containers,
    labels,
    name_of,
    selector,
    shortened,
    table,
)
from allotment.model.trees import Tree

_WIDE: Final = ("Containers*", "Images*", "Selector*")


def _parts(tree: Tree) -> tuple[Tree, Tree, Tree]:
    """The spec, the status and the pod spec."""
    spec = tree.get("spec") or {}
    return spec, tree.get("status") or {}, (spec.get("template") or {}).get("spec") or {}


def _deployment(tree: Tree, now: str) -> list[Any]:
    spec, status, pod = _parts(tree)
    return [
        name_of(tree), f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        status.get("updatedReplicas") or 0, status.get("availableReplicas") or 0, age_of(tree, now), *containers(pod),
        selector(spec.get("selector")),
    ]  # fmt: skip


def _replica_set(tree: Tree, now: str) -> list[Any]:
    spec, status, pod = _parts(tree)
    return [
        name_of(tree), spec.get("replicas") or 0, status.get("replicas") or 0, status.get("readyReplicas") or 0,
        age_of(tree, now), *containers(pod), selector(spec.get("selector")),
    ]  # fmt: skip


def _replication_controller(tree: Tree, now: str) -> list[Any]:
    return [*_replica_set(tree, now)[:-1], labels((tree.get("spec") or {}).get("selector"))]


def _stateful_set(tree: Tree, now: str) -> list[Any]:
    spec, status, pod = _parts(tree)
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    return [name_of(tree), ready, age_of(tree, now), *containers(pod)]


def _daemon_set(tree: Tree, now: str) -> list[Any]:
    spec, status, pod = _parts(tree)
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled",
              "numberAvailable")  # fmt: skip
    return [
        name_of(tree), *(status.get(name) or 0 for name in counts), labels(pod.get("nodeSelector")), age_of(tree, now),
        *containers(pod), selector(spec.get("selector")),
    ]  # fmt: skip


_JOB_STATES: Final = (
    ("Complete", "Complete"), ("Failed", "Failed"), ("", "Terminating"), ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)  # fmt: skip


def _job(tree: Tree, now: str) -> list[Any]:
    spec, status, pod = _parts(tree)
    true = {item.get("type") for item in status.get("conditions") or () if item.get("status") == "True"}
    if tree["metadata"].get("deletionTimestamp"):
        true.add("")
    state = next((text for condition, text in _JOB_STATES if condition in true), "Running")
    succeeded, required, parallel = status.get("succeeded") or 0, spec.get("completions"), spec.get("parallelism") or 0
    if required is not None:
        completions = f"{succeeded}/{required}"
    else:
        completions = f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"
    started, finished = status.get("startTime"), status.get("completionTime")
    took = between(started, finished or now) if started else ""
    return [
        name_of(tree), state, completions, took, age_of(tree, now), *containers(pod), selector(spec.get("selector")),
    ]  # fmt: skip


def _cron_job(tree: Tree, now: str) -> list[Any]:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    last = status.get("lastScheduleTime")
    suspended = spec.get("suspend")
    return [
        name_of(tree), spec.get("schedule") or "", spec.get("timeZone") or NONE,
        "<unset>" if suspended is None else str(bool(suspended)), len(status.get("active") or ()),
        age(last, now) if last else NONE, age_of(tree, now),
        *containers((inner.get("template") or {}).get("spec") or {}),
        selector(inner.get("selector")),
    ]  # fmt: skip


def _pod_template(tree: Tree, now: str) -> list[Any]:
    template = tree.get("template") or {}
    return [
        name_of(tree),
        *containers(template.get("spec") or {}),
        labels((template.get("metadata") or {}).get("labels")),
    ]


def _revision(tree: Tree, now: str) -> list[Any]:
    owner = next((item for item in tree["metadata"].get("ownerReferences") or () if item.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        controller = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"
    return [name_of(tree), controller, tree.get("revision") or 0, age_of(tree, now)]


def _autoscaler(tree: Tree, now: str) -> list[Any]:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    if "targetCPUUtilizationPercentage" in spec:
        current = status.get("currentCPUUtilizationPercentage")
        text = "<unknown>" if current is None else f"{current}%"
        metrics = [f"cpu: {text}/{spec['targetCPUUtilizationPercentage']}%"]
    else:
        currents = status.get("currentMetrics") or []
        pairs = enumerate(spec.get("metrics") or ())
        metrics = [_metric(metric, currents[i] if i < len(currents) else {}) for i, metric in pairs]
    minimum = spec.get("minReplicas")
    return [
        name_of(tree), f"{target.get('kind') or ''}/{target.get('name') or ''}",
        shortened(metrics, 2).replace(",", ", "),
        "<unset>" if minimum is None else str(minimum), spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        age_of(tree, now),
    ]  # fmt: skip


def _metric(metric: Tree, current: Tree) -> str:
    metric_type = str(metric.get("type") or "")
    part = metric_type[:1].lower() + metric_type[1:]
    target = (metric.get(part) or {}).get("target") or {}
    now = (current.get(part) or {}).get("current") or {}
    name = (metric.get(part) or {}).get("name")
    prefix = f"{name}: " if "esource" in metric_type and isinstance(name, str) else ""
    for key, unit, tail in (("averageUtilization", "%", ""), ("averageValue", "", " (avg)"), ("value", "", "")):
        if target.get(key) is not None:
            value = now.get(key)
            text = "<unknown>" if value is None else f"{value}{unit}"
            return f"{prefix}{text}/{target[key]}{unit}{'' if prefix or metric_type == 'Pods' else tail}"
    return f"{prefix}<unknown>/<auto>"


_COUNTED: Final = ("Desired:integer", "Current:integer", "Ready:integer")
TABLES: Final[Mapping[str, TableConverter]] = {
    "deployments.apps": table(_deployment, "Name", "Ready", "Up-to-date", "Available", "Age", *_WIDE),
    "replicasets.apps": table(_replica_set, "Name", *_COUNTED, "Age", *_WIDE),
    "replicationcontrollers": table(_replication_controller, "Name", *_COUNTED, "Age", *_WIDE),
    "statefulsets.apps": table(_stateful_set, "Name", "Ready", "Age", *_WIDE[:2]),
    "daemonsets.apps": table(
        _daemon_set, "Name", *_COUNTED, "Up-to-date:integer", "Available:integer", "Node Selector", "Age", *_WIDE
    ),
    "jobs.batch": table(_job, "Name", "Status", "Completions", "Duration", "Age", *_WIDE),
    "cronjobs.batch": table(
        _cron_job, "Name", "Schedule", "Timezone", "Suspend:boolean", "Active:integer", "Last Schedule", "Age", *_WIDE
    ),
    "podtemplates": table(_pod_template, "Name", "Containers", "Images", "Pod Labels"),
    "controllerrevisions.apps": table(_revision, "Name", "Controller", "Revision", "Age"),
    "horizontalpodautoscalers.autoscaling": table(
        _autoscaler, "Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"
    ),
}
