"""HorizontalPodAutoscalers: validation, and conversion between autoscaling/v1 and v2."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.releases import release_key
from allotment.model.trees import Tree
from allotment.model.validation import container_resources, names
from allotment.model.validation.errors import forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString

Check = Callable[[Tree, str], Errors]

_METRICS_ANNOTATION: Final = "autoscaling.alpha.kubernetes.io/metrics"
_SELECT_POLICIES: Final = ("Disabled", "Max", "Min")
_POLICY_TYPES: Final = ("Percent", "Pods")
_TARGET_TYPES: Final = ("Utilization", "Value", "AverageValue")
_MAX_WINDOW_SECONDS: Final = 3600
_MAX_PERIOD_SECONDS: Final = 1800


def _validate_create(tree: Tree, write: Write) -> Errors:
    return _validate_spec(tree.get("spec") or {}, {}, least=_least_replicas(write, {}))


def _validate_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource:
        return ()
    before = old.get("spec") or {}
    return _validate_spec(new.get("spec") or {}, before, least=_least_replicas(write, before))


def _least_replicas(write: Write, old: Tree) -> int:
    """The lowest ``minReplicas``: 0 from the release on in which autoscalers can scale to zero."""
    return 0 if is_since_1_37(write.features) or old.get("minReplicas") == 0 else 1


def is_since_1_37(features: Features) -> bool:
    """Whether autoscalers have a generation and can scale to zero, as from 1.37 on."""
    return release_key(features.kube) >= release_key("1.37")


def _validate_spec(spec: Tree, old: Tree, *, least: int) -> Errors:
    minimum, maximum = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if minimum is not None and minimum < least:
        yield invalid("spec.minReplicas", minimum, f"must be greater than or equal to {least}")
    if maximum == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif maximum < 0:
        yield invalid("spec.maxReplicas", maximum, "must be greater than or equal to 1")
    if minimum is not None and maximum < minimum:
        yield invalid("spec.maxReplicas", maximum, "must be greater than or equal to `minReplicas`")
    reference, old_reference = spec.get("scaleTargetRef") or {}, old.get("scaleTargetRef") or {}
    unchanged = bool(old) and all(reference.get(part) == old_reference.get(part) for part in ("apiVersion", "kind"))
    needs_group = None if unchanged else reference.get("kind") != "ReplicationController"
    yield from _reference(reference, "spec.scaleTargetRef", needs_group)
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(metric, f"spec.metrics[{index}]")
    if minimum == 0 and not any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ()):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden("spec.metrics", text)
    for direction in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(direction)
        if rules is not None:
            yield from _scaling_rules(rules, f"spec.behavior.{direction}")


def _reference(reference: Tree, path: str, needs_group: bool | None) -> Errors:
    """``needs_group``: whether apiVersion must contain a group; None if it is not checked."""
    for part in ("kind", "name"):
        yield from field_validation.path_segment(reference.get(part) or "", f"{path}.{part}")
    version, version_path = reference.get("apiVersion") or "", f"{path}.apiVersion"
    if needs_group is None:
        return
    if version.count("/") > 1:
        yield invalid(version_path, version, f"unexpected GroupVersion string: {version}")
    elif needs_group and "/" not in version:
        yield invalid(version_path, version, "apiVersion must specify API group")


# --- metrics ---------------------------------------------------------------------------------------------------------


def _metric(metric: Tree, path: str) -> Errors:
    metric_type = metric.get("type") or ""
    if not metric_type:
        yield required(f"{path}.type", "must specify a metric source type")
    if metric_type not in _SOURCE_FIELDS:
        yield not_supported(f"{path}.type", GoNamedString(metric_type), sorted(_SOURCE_FIELDS))
    present = [field for field in ("object", "external", "pods", "resource", "containerResource") if metric.get(field)]
    if present:
        yield from _SOURCE_CHECKS[present[0]](metric[present[0]], f"{path}.{present[0]}")
    expected = _SOURCE_FIELDS.get(metric_type)
    if expected is None:
        yield not_supported(f"{path}.type", GoNamedString(metric_type), sorted(_SOURCE_FIELDS))
    elif not metric.get(expected):
        yield required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(present) != 1:
        for field in present:
            if field != expected:
                yield forbidden(f"{path}.{field}", "must populate the given metric source only")


def _metric_name(source: Tree, path: str) -> Errors:
    name = (source.get("metric") or {}).get("name") or ""
    yield from field_validation.path_segment(name, f"{path}.metric.name", "must specify a metric name")


def _target(target: Tree, path: str) -> Errors:
    target_type = target.get("type") or ""
    if not target_type:
        yield required(f"{path}.type", "must specify a metric target type")
    if target_type not in _TARGET_TYPES:
        yield invalid(f"{path}.type", GoNamedString(target_type), "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if target.get(field) is not None and (amount := Quantity.parse(str(target[field]))).nano <= 0:
            yield invalid(f"{path}.{field}", str(amount), "must be positive")
    percent = target.get("averageUtilization")
    if percent is not None and percent < 1:
        yield invalid(f"{path}.averageUtilization", percent, "must be greater than 0")


def _object(source: Tree, path: str) -> Errors:
    yield from _reference(source.get("describedObject") or {}, f"{path}.describedObject", needs_group=False)
    yield from _metric_name(source, path)
    target = source.get("target") or {}
    yield from _target(target, f"{path}.target")
    if target.get("value") is None and target.get("averageValue") is None:
        yield required(f"{path}.target.averageValue", "must set either a target value or averageValue")


def _external(source: Tree, path: str) -> Errors:
    yield from _metric_name(source, path)
    target = source.get("target") or {}
    yield from _target(target, f"{path}.target")
    value, average = target.get("value"), target.get("averageValue")
    if value is None and average is None:
        yield required(f"{path}.target.averageValue", "must set either a target value for metric or a per-pod target")
    if value is not None and average is not None:
        yield forbidden(f"{path}.target.value", "may not set both a target value for metric and a per-pod target")


def _pods(source: Tree, path: str) -> Errors:
    yield from _metric_name(source, path)
    target = source.get("target") or {}
    yield from _target(target, f"{path}.target")
    if target.get("averageValue") is None:
        yield required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _resource(source: Tree, path: str) -> Errors:
    if not source.get("name"):
        yield required(f"{path}.name", "must specify a resource name")
    yield from _utilization_target(source.get("target") or {}, f"{path}.target")


def _utilization_target(target: Tree, path: str) -> Errors:
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
            invalid(f"{path}.name", name, problem) for problem in container_resources.container_resource_problems(name)
        )
    if not container:
        yield required(f"{path}.container", "must specify a container")
    else:
        yield from names.label(container, f"{path}.container")
    yield from _utilization_target(source.get("target") or {}, f"{path}.target")


_SOURCE_FIELDS: Final = {
    "Object": "object", "Pods": "pods", "Resource": "resource", "External": "external",
    "ContainerResource": "containerResource",
}  # fmt: skip
_SOURCE_CHECKS: Final[Mapping[str, Check]] = {
    "object": _object, "pods": _pods, "resource": _resource, "external": _external,
    "containerResource": _container_resource,
}  # fmt: skip


# --- behaviour -------------------------------------------------------------------------------------------------------


def _scaling_rules(rules: Tree, path: str) -> Errors:
    window, window_path = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        yield invalid(window_path, window, "must be greater than or equal to zero")
    if window is not None and window > _MAX_WINDOW_SECONDS:
        yield invalid(window_path, window, f"must be less than or equal to {_MAX_WINDOW_SECONDS}")
    select_policy = rules.get("selectPolicy")
    if select_policy is not None and select_policy not in _SELECT_POLICIES:
        yield not_supported(f"{path}.selectPolicy", GoNamedString(select_policy), _SELECT_POLICIES)
    policies: Sequence[Tree] = rules.get("policies") or ()
    if not policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        yield from _scaling_policy(policy, f"{path}.policies[{index}]")


def _scaling_policy(policy: Tree, path: str) -> Errors:
    policy_type, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
    if policy_type not in _POLICY_TYPES:
        yield not_supported(f"{path}.type", GoNamedString(policy_type), _POLICY_TYPES)
    if value <= 0:
        yield invalid(f"{path}.value", value, "must be greater than zero")
    if period <= 0:
        yield invalid(f"{path}.periodSeconds", period, "must be greater than zero")
    if period > _MAX_PERIOD_SECONDS:
        yield invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_MAX_PERIOD_SECONDS}")


# --- versions --------------------------------------------------------------------------------------------------------


def _cpu_target(metric: Tree) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    utilization = (resource.get("target") or {}).get("averageUtilization")
    return None if utilization is None else int(utilization)


def autoscaler_to_version(tree: Tree, version: str) -> Tree:
    """Convert to a version. v1 has only the CPU utilization; other metrics go into an annotation."""
    if version != "v1":
        return {**tree, "apiVersion": f"autoscaling/{version}"}
    spec = {name: value for name, value in (tree.get("spec") or {}).items() if name not in ("metrics", "behavior")}
    other_metrics = []
    for metric in (tree.get("spec") or {}).get("metrics") or ():
        utilization = _cpu_target(metric)
        if utilization is not None and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = utilization
        else:
            other_metrics.append(metric)
    metadata = tree.get("metadata") or {}
    if other_metrics:
        annotations = {
            **(metadata.get("annotations") or {}),
            _METRICS_ANNOTATION: json.dumps(other_metrics, separators=(",", ":")),
        }
        metadata = {**metadata, "annotations": annotations}
    status = {
        name: value
        for name, value in (tree.get("status") or {}).items()
        if name not in ("currentMetrics", "conditions")
    }
    return {**tree, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def autoscaler_from_version(tree: Tree, version: str) -> Tree:
    """Convert to the stored version, v2."""
    if version != "v1":
        return {**tree, "apiVersion": "autoscaling/v2"}
    spec = dict(tree.get("spec") or {})
    utilization = spec.pop("targetCPUUtilizationPercentage", None)
    metrics: list[Any] = []
    if utilization is not None:
        target = {"type": "Utilization", "averageUtilization": utilization}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    metadata = dict(tree.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    other_metrics = _decode_metrics(annotations.get(_METRICS_ANNOTATION, ""))
    if other_metrics:
        metrics += other_metrics
        del annotations[_METRICS_ANNOTATION]
        metadata["annotations"] = annotations
    if metrics:
        spec["metrics"] = metrics
    return {**tree, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec}


def _decode_metrics(annotation: str) -> list[Any]:
    """The metrics in an annotation; empty if it is not a list of metrics, and then the annotation stays."""
    try:
        decoded = json.loads(annotation)
    except ValueError:
        return []
    return decoded if isinstance(decoded, list) and all(isinstance(metric, dict) for metric in decoded) else []


RULES: Final[Mapping[str, KindRules]] = {
    "horizontalpodautoscalers.autoscaling": KindRules(
        validate_create=_validate_create, validate_update=_validate_update
    )
}
