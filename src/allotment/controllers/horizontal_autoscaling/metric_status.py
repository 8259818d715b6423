"""The recommendation of each metric of an autoscaler, its current value, and the texts about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from allotment.cluster.client import Client, Resource
from allotment.cluster.clock import Clock
from allotment.controllers.horizontal_autoscaling.metric_sources import (
    external_value,
    object_value,
    pod_samples,
    resource_samples,
)
from allotment.controllers.horizontal_autoscaling.pod_usage import (
    NoRecommendation,
    Recommendation,
    Tolerances,
    by_average,
    by_utilization,
    by_value,
    by_value_per_pod,
    milli,
)
from allotment.model.quantity import Format, Quantity
from allotment.model.trees import Tree


class Target(NamedTuple):
    """The scaled object: its replicas by spec and by status, the selector of its pods, and the pods."""

    replicas: int
    status_replicas: int
    selector: str
    pods: Sequence[Tree]


class MetricReader(NamedTuple):
    """Access to the metrics of a namespace. ``resource_of``: the resource of an object reference."""

    client: Client
    clock: Clock
    namespace: str
    resource_of: Callable[[Tree], Resource | None]


class Proposal(NamedTuple):
    """The replicas that a metric proposes, its name in events, and its status."""

    replicas: int
    name: str
    status: Tree


class MetricFailed(Exception):
    """Raised if a metric proposes nothing. ``reason``: of the condition and event, whose text is ``message``."""

    def __init__(self, reason: str, message: str, context: str) -> None:
        super().__init__(f"{context}: {message}")
        self.reason = reason
        self.message = message


_Read = Callable[[MetricReader, Tree, Target, Tolerances], Awaitable[Proposal]]


async def proposal(reader: MetricReader, metric: Tree, target: Target, tolerances: Tolerances) -> Proposal:
    """The proposal of one metric of ``spec.metrics``. Raises MetricFailed."""
    kind = metric["type"]
    read, context = _READERS[kind]
    spec = metric[_FIELDS[kind]]
    name = {"Resource": spec.get("name"), "ContainerResource": spec.get("container")}.get(kind)
    name = name or (spec.get("metric") or {}).get("name", "")
    try:
        return await read(reader, spec, target, tolerances)
    except NoRecommendation as error:
        raise MetricFailed(f"FailedGet{kind}Metric", str(error), context.format(name)) from None


async def _resource(reader: MetricReader, spec: Tree, target: Target, tolerances: Tolerances) -> Proposal:
    found, name = await _usage(reader, spec, target, tolerances, "")
    return Proposal(found.replicas, name, _status("Resource", {"name": spec["name"]}, spec, found))


async def _container(reader: MetricReader, spec: Tree, target: Target, tolerances: Tolerances) -> Proposal:
    found, name = await _usage(reader, spec, target, tolerances, spec["container"])
    about = {"name": spec["name"], "container": spec["container"]}
    return Proposal(found.replicas, name, _status("ContainerResource", about, spec, found))


async def _usage(
    reader: MetricReader, spec: Tree, target: Target, tolerances: Tolerances, container: str
) -> tuple[Recommendation, str]:
    resource, wanted = spec["name"], spec["target"]
    average = wanted.get("averageValue")
    what = "usage" if average is not None else "utilization"
    try:
        try:
            samples = await resource_samples(reader.client, reader.namespace, target.selector, resource, container)
        except NoRecommendation as error:
            raise NoRecommendation(f"unable to get metrics for resource {resource}: {error}") from None
        if average is not None:
            found = by_average(
                samples, target.pods, target.replicas, milli(average), resource, tolerances, reader.clock
            )
            return found, f"{resource} resource"
        found = by_utilization(
            samples, target.pods, target.replicas, wanted["averageUtilization"], resource, container, tolerances,
            reader.clock,
        )  # fmt: skip
    except NoRecommendation as error:
        raise NoRecommendation(f"failed to get {resource} {what}: {error}") from None
    container_word = " container" if container else ""
    return found, f"{resource}{container_word} resource utilization (percentage of request)"


def _status(kind: str, about: Tree, spec: Tree, found: Recommendation) -> Tree:
    form: Format = "BinarySI" if spec["name"] == "memory" else "DecimalSI"
    current: Tree = {"averageValue": str(Quantity(found.average, -3, True, form))}
    if spec["target"].get("averageValue") is None:
        current = {"averageUtilization": found.utilization, **current}
    return {"type": kind, _FIELDS[kind]: {**about, "current": current}}


async def _pods(reader: MetricReader, spec: Tree, target: Target, tolerances: Tolerances) -> Proposal:
    name = spec["metric"]["name"]
    try:
        samples = pod_samples(target.pods, name, reader.clock.now())
    except NoRecommendation as error:
        raise NoRecommendation(f"unable to get metric {name}: {error}") from None
    wanted = milli(spec["target"]["averageValue"])
    found = by_average(samples, target.pods, target.replicas, wanted, "", tolerances, reader.clock)
    current = {"averageValue": _milli_text(found.average)}
    status = {"type": "Pods", "pods": {"metric": spec["metric"], "current": current}}
    return Proposal(found.replicas, f"pods metric {name}", status)


async def _object(reader: MetricReader, spec: Tree, target: Target, tolerances: Tolerances) -> Proposal:
    name, described, wanted = spec["metric"]["name"], spec["describedObject"], spec["target"]
    per_pod = wanted["type"] == "AverageValue"
    try:
        resource = reader.resource_of(described)
        value = await object_value(reader.client, resource, described, reader.namespace, name)
    except NoRecommendation as error:
        where = f"{described['kind']} {reader.namespace}/{described['name']}"
        text = f"unable to get metric {name} on {where}: {error}"
        raise NoRecommendation(f"failed to get {name} object metric: {text}" if per_pod else text) from None
    if per_pod:
        found = by_value_per_pod(value, target.status_replicas, milli(wanted["averageValue"]), tolerances)
        shown = f"external metric {name}({_selector(spec)})"
    else:
        found = by_value(value, target.pods, target.replicas, milli(wanted["value"]), tolerances)
        shown = f"{described['kind']} metric {name}"
    current = {"averageValue" if per_pod else "value": _milli_text(found.average)}
    status = {"metric": spec["metric"], "current": current, "describedObject": described}
    return Proposal(found.replicas, shown, {"type": "Object", "object": status})


async def _external(reader: MetricReader, spec: Tree, target: Target, tolerances: Tolerances) -> Proposal:
    name, wanted = spec["metric"]["name"], spec["target"]
    per_pod = wanted.get("averageValue") is not None
    try:
        value = await external_value(reader.client, reader.namespace, name)
    except NoRecommendation as error:
        text = f"unable to get external metric {reader.namespace}/{name}/{_selector(spec)}: {error}"
        what = f"{name} external metric" if per_pod else f"external metric {name}"
        raise NoRecommendation(f"failed to get {what}: {text}") from None
    if per_pod:
        found = by_value_per_pod(value, target.status_replicas, milli(wanted["averageValue"]), tolerances)
    else:
        found = by_value(value, target.pods, target.replicas, milli(wanted["value"]), tolerances)
    current = {"averageValue" if per_pod else "value": _milli_text(found.average)}
    status = {"type": "External", "external": {"metric": spec["metric"], "current": current}}
    return Proposal(found.replicas, f"external metric {name}({_selector(spec)})", status)


def _selector(spec: Tree) -> str:
    """The selector of a metric as Go prints it in messages."""
    selector = spec["metric"].get("selector")
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each['key']},Operator:{each['operator']},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _milli_text(amount: int) -> str:
    return str(Quantity(amount, -3, True, "DecimalSI"))


_FIELDS = {
    "Resource": "resource", "ContainerResource": "containerResource", "Pods": "pods", "Object": "object",
    "External": "external",
}  # fmt: skip
_READERS: dict[str, tuple[_Read, str]] = {
    "Resource": (_resource, "failed to get {} resource metric value"),
    "ContainerResource": (_container, "failed to get {} container metric value"),
    "Pods": (_pods, "failed to get pods metric value"),
    "Object": (_object, "failed to get object metric value"),
    "External": (_external, "failed to get {} external metric value"),
}
