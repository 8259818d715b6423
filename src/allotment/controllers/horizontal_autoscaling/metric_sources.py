"""The metrics of autoscalers: usage from the resource metrics API, others from annotations.

A lab has no adapter of custom or external metrics. ``allotment.dev/metric.NAME`` is the metric NAME of the object with
the annotation: of a pod, of the object that a metric of type Object describes, or of the namespace for external ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import NAMESPACES
from allotment.controllers.horizontal_autoscaling.pod_usage import NoRecommendation, Sample, milli
from allotment.model.quantity import QuantityError
from allotment.model.trees import Tree

POD_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True)
METRIC: Final = "allotment.dev/metric."
#: The window of custom metrics without one.
_WINDOW_SECONDS: Final = 60.0
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


async def resource_samples(
    client: Client, namespace: str, selector: str, resource: str, container: str = ""
) -> dict[str, Sample]:
    """The usage of pods, or of one container of each. Raises NoRecommendation."""
    try:
        items = (await client.list(POD_METRICS, namespace, labels=selector)).items
    except StatusError as error:
        raise NoRecommendation(f"unable to fetch metrics from resource metrics API: {error}") from None
    if not items:
        raise NoRecommendation("no metrics returned from resource metrics API")
    found: dict[str, Sample] = {}
    for item in items:
        containers = [each for each in item.get("containers") or () if container in ("", each["name"])]
        usages = [each["usage"].get(resource) for each in containers]
        if usages and None not in usages:
            amount = sum(milli(usage) for usage in usages)
            found[item["metadata"]["name"]] = Sample(amount, item["timestamp"], _seconds(item["window"]))
    return found


def pod_samples(pods: Sequence[Tree], name: str, now: str) -> dict[str, Sample]:
    """A custom metric of pods. Raises NoRecommendation."""
    found = {
        pod["metadata"]["name"]: Sample(amount, now, _WINDOW_SECONDS)
        for pod in pods
        if (amount := annotated(pod, name)) is not None
    }
    if not found:
        raise NoRecommendation(
            f"unable to fetch metrics from custom metrics API: the server could not find the metric {name} for pods"
        )
    return found


async def object_value(client: Client, resource: Resource | None, reference: Tree, namespace: str, name: str) -> int:
    """A custom metric of the object that a metric describes. Raises NoRecommendation."""
    missing = NoRecommendation(
        "unable to fetch metrics from custom metrics API: the server could not find the metric"
        f" {name} for {resource.plural if resource else reference['kind']} {reference['name']}"
    )
    if resource is None:
        raise missing
    try:
        tree = await client.get(resource, reference["name"], namespace if resource.namespaced else "")
    except StatusError:
        raise missing from None
    amount = annotated(tree, name)
    if amount is None:
        raise missing
    return amount


async def external_value(client: Client, namespace: str, name: str) -> int:
    """An external metric. Raises NoRecommendation."""
    tree = await client.get(NAMESPACES, namespace)
    amount = annotated(tree, name)
    if amount is None:
        raise NoRecommendation("no metrics returned from external metrics API")
    return amount


def annotated(tree: Tree, name: str) -> int | None:
    """The metric of an object in thousandths; None if it has none that is valid."""
    text = (tree["metadata"].get("annotations") or {}).get(f"{METRIC}{name}")
    try:
        return None if text is None else milli(text)
    except QuantityError:
        return None


def _seconds(window: str) -> float:
    """A duration as Go prints it, in seconds.

    >>> _seconds("1m15s"), _seconds("10.5s")
    (75.0, 10.5)
    """
    found = _DURATION.fullmatch(window)
    hours, minutes, seconds = found.groups() if found else (None, None, None)
    return float(hours or 0) * 3600 + float(minutes or 0) * 60 + float(seconds or 0)
