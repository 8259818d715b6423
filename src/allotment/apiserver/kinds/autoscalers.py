"""Autoscalers: what they may say, and how the first version of them says it.

Nothing in a lab scales by them, for there are no metrics; they are kept and judged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString

Check = Callable[[Tree, str], Errors]

_METRICS: Final = "autoscaling.alpha.kubernetes.io/metrics"
_POLICIES: Final = ("Disabled", "Max", "Min")
_WAYS: Final = ("Percent", "Pods")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_LONGEST_WINDOW: Final = 3600
_LONGEST_PERIOD: Final = 1800


def _created(tree: Tree, write: Write) -> Errors:
    return _spec(tree.get("spec") or {}, {})


def _updated(new: Tree, old: Tree, write: Write) -> Errors:
    return () if write.subresource else _spec(new.get("spec") or {}, old.get("spec") or {})


def _spec(spec: Tree, before: Tree) -> Errors:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target, known = spec.get("scaleTargetRef") or {}, before.get("scaleTargetRef") or {}
    same = bool(before) and all(target.get(part) == known.get(part) for part in ("apiVersion", "kind"))
    grouped = None if same else target.get("kind") != "ReplicationController"
    yield from _reference(target, "spec.scaleTargetRef", grouped)
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(metric, f"spec.metrics[{index}]")
    for direction in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(direction)
        if rules is not None:
            yield from _scaling(rules, f"spec.behavior.{direction}")


def _reference(reference: Tree, path: str, grouped: bool | None) -> Errors:
    """``grouped``: whether the version must name a group; None where it may be anything."""
    for part in ("kind", "name"):
        yield from field_validation.path_segment(reference.get(part) or "", f"{path}.{part}")
    version, at = reference.get("apiVersion") or "", f"{path}.apiVersion"
    if grouped is None:
        return
    if version.count("/") > 1:
        yield invalid(at, version, f"unexpected GroupVersion string: {version}")
    elif grouped and "/" not in version:
        yield invalid(at, version, "apiVersion must specify API group")


# --- metrics ---------------------------------------------------------------------------------------------------------


def _metric(metric: Tree, path: str) -> Errors:
    sort = metric.get("type") or ""
    if not sort:
        yield required(f"{path}.type", "must specify a metric source type")
    if sort not in _SOURCES:
        yield not_supported(f"{path}.type", GoNamedString(sort), sorted(_SOURCES))
    given = [field for field in ("object", "external", "pods", "resource", "containerResource") if metric.get(field)]
    if given:
        yield from _CHECKS[given[0]](metric[given[0]], f"{path}.{given[0]}")
    expected = _SOURCES.get(sort)
    if expected is None:
        yield not_supported(f"{path}.type", GoNamedString(sort), sorted(_SOURCES))
    elif not metric.get(expected):
        yield required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(given) != 1:
        for field in given:
            if field != expected:
                yield forbidden(f"{path}.{field}", "must populate the given metric source only")


def _identified(source: Tree, path: str) -> Errors:
    name = (source.get("metric") or {}).get("name") or ""
    yield from field_validation.path_segment(name, f"{path}.metric.name", "must specify a metric name")


def _target(target: Tree, path: str) -> Errors:
    sort = target.get("type") or ""
    if not sort:
        yield required(f"{path}.type", "must specify a metric target type")
    if sort not in _TARGETS:
        yield invalid(f"{path}.type", GoNamedString(sort), "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if target.get(field) is not None and (amount := Quantity.parse(str(target[field]))).nano <= 0:
            yield invalid(f"{path}.{field}", str(amount), "must be positive")
    percent = target.get("averageUtilization")
    if percent is not None and percent < 1:
        yield invalid(f"{path}.averageUtilization", percent, "must be greater than 0")


def _object(source: Tree, path: str) -> Errors:
    yield from _reference(source.get("describedObject") or {}, f"{path}.describedObject", grouped=False)
    yield from _identified(source, path)
    target = source.get("target") or {}
    yield from _target(target, f"{path}.target")
    if target.get("value") is None and target.get("averageValue") is None:
        yield required(f"{path}.target.averageValue", "must set either a target value or averageValue")


def _external(source: Tree, path: str) -> Errors:
    yield from _identified(source, path)
    target = source.get("target") or {}
    yield from _target(target, f"{path}.target")
    whole, average = target.get("value"), target.get("averageValue")
    if whole is None and average is None:
        yield required(f"{path}.target.averageValue", "must set either a target value for metric or a per-pod target")
    if whole is not None and average is not None:
        yield forbidden(f"{path}.target.value", "may not set both a target value for metric and a per-pod target")


def _pods(source: Tree, path: str) -> Errors:
    yield from _identified(source, path)
    target = source.get("target") or {}
    yield from _target(target, f"{path}.target")
    if target.get("averageValue") is None:
        yield required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _resource(source: Tree, path: str) -> Errors:
    if not source.get("name"):
        yield required(f"{path}.name", "must specify a resource name")
    yield from _share(source.get("target") or {}, f"{path}.target")


def _share(target: Tree, path: str) -> Errors:
    yield from _target(target, path)
    percent, average = target.get("averageUtilization"), target.get("averageValue")
    if percent is None and average is None:
        yield required(f"{path}.averageUtilization", "must set either a target raw value or a target utilization")
    if percent is not None and average is not None:
        yield forbidden(f"{path}.averageValue", "may not set both a target raw value and a target utilization")


def _container_resource(source: Tree, path: str) -> Errors:
    name, container = source.get("name") or "", source.get("container") or ""
    if not name:
        yield required(f"{path}.name", "must specify a resource name")
    else:
        yield from (
            invalid(f"{path}.name", name, problem) for problem in field_validation.container_resource_problems(name)
        )
    if not container:
        yield required(f"{path}.container", "must specify a container")
    else:
        yield from names.label(container, f"{path}.container")
    yield from _share(source.get("target") or {}, f"{path}.target")


_SOURCES: Final = {
    "Object": "object", "Pods": "pods", "Resource": "resource", "External": "external",
    "ContainerResource": "containerResource",
}  # fmt: skip
_CHECKS: Final[Mapping[str, Check]] = {
    "object": _object, "pods": _pods, "resource": _resource, "external": _external,
    "containerResource": _container_resource,
}  # fmt: skip


# --- behaviour -------------------------------------------------------------------------------------------------------


def _scaling(rules: Tree, path: str) -> Errors:
    window, at = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        yield invalid(at, window, "must be greater than or equal to zero")
    if window is not None and window > _LONGEST_WINDOW:
        yield invalid(at, window, f"must be less than or equal to {_LONGEST_WINDOW}")
    chosen = rules.get("selectPolicy")
    if chosen is not None and chosen not in _POLICIES:
        yield not_supported(f"{path}.selectPolicy", GoNamedString(chosen), _POLICIES)
    policies: Sequence[Tree] = rules.get("policies") or ()
    if not policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        yield from _policy(policy, f"{path}.policies[{index}]")


def _policy(policy: Tree, path: str) -> Errors:
    way, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
    if way not in _WAYS:
        yield not_supported(f"{path}.type", GoNamedString(way), _WAYS)
    if value <= 0:
        yield invalid(f"{path}.value", value, "must be greater than zero")
    if period <= 0:
        yield invalid(f"{path}.periodSeconds", period, "must be greater than zero")
    if period > _LONGEST_PERIOD:
        yield invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}")


# --- versions --------------------------------------------------------------------------------------------------------


def _cpu_target(metric: Tree) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found = (resource.get("target") or {}).get("averageUtilization")
    return None if found is None else int(found)


def autoscaler_to_version(tree: Tree, version: str) -> Tree:
    """v1 knows one metric, the use of cpu; the others travel in an annotation."""
    if version != "v1":
        return {**tree, "apiVersion": f"autoscaling/{version}"}
    spec = {name: value for name, value in (tree.get("spec") or {}).items() if name not in ("metrics", "behavior")}
    others = []
    for metric in (tree.get("spec") or {}).get("metrics") or ():
        percent = _cpu_target(metric)
        if percent is not None and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = percent
        else:
            others.append(metric)
    metadata = tree.get("metadata") or {}
    if others:
        annotations = {**(metadata.get("annotations") or {}), _METRICS: json.dumps(others, separators=(",", ":"))}
        metadata = {**metadata, "annotations": annotations}
    status = {
        name: value
        for name, value in (tree.get("status") or {}).items()
        if name not in ("currentMetrics", "conditions")
    }
    return {**tree, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def autoscaler_from_version(tree: Tree, version: str) -> Tree:
    """Back to the stored shape."""
    if version != "v1":
        return {**tree, "apiVersion": "autoscaling/v2"}
    spec = dict(tree.get("spec") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics: list[Any] = []
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    metadata = dict(tree.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    others = _listed(annotations.get(_METRICS, ""))
    if others:
        metrics += others
        del annotations[_METRICS]
        metadata["annotations"] = annotations
    if metrics:
        spec["metrics"] = metrics
    return {**tree, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec}


def _listed(metrics: str) -> list[Any]:
    """The metrics in an annotation; what somebody else wrote there may be none, and stays where it is."""
    try:
        found = json.loads(metrics)
    except ValueError:
        return []
    return found if isinstance(found, list) and all(isinstance(metric, dict) for metric in found) else []


RULES: Final[Mapping[str, Rules]] = {
    "horizontalpodautoscalers.autoscaling": Rules(validate_create=_created, validate_update=_updated)
}
