"""Autoscalers with their targets, for Kubernetes' controller and for that of a lab."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from allotment.cluster.client import Client
from allotment.cluster.resources import EVENTS, HORIZONTAL_AUTOSCALERS, PODS, REPLICATION_CONTROLLERS
from allotment.model.trees import Tree
from tests.polling import until

NAMESPACE: Final = "default"
_LONG_AGO: Final = "2001-01-01T00:00:00Z"


class Case(NamedTuple):
    """An autoscaler of a ReplicationController with pods, whose usage is given by pod (None: no metric)."""

    metrics: tuple[Tree, ...]
    usage: tuple[Mapping[str, str] | None, ...] = ()
    replicas: int = 2
    spec: Tree = {}
    requests: Tree = {"cpu": "100m", "memory": "64Mi"}
    phases: tuple[str, ...] = ()
    target: Tree = {}


def _resource(name: str, target: Tree, container: str = "") -> Tree:
    if container:
        about = {"name": name, "container": container, "target": target}
        return {"type": "ContainerResource", "containerResource": about}
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def _cpu(percentage: int, container: str = "") -> Tree:
    return _resource("cpu", {"type": "Utilization", "averageUtilization": percentage}, container)


def _used(*amounts: str | None) -> tuple[Mapping[str, str] | None, ...]:
    return tuple(None if amount is None else {"cpu": amount, "memory": "64Mi"} for amount in amounts)


_MEMORY: Final = _resource("memory", {"type": "AverageValue", "averageValue": "16Mi"})
_ONE_AT_A_TIME: Final = [{"type": "Pods", "value": 1, "periodSeconds": 60}]

CASES: Final[Mapping[str, Case]] = {
    "unknown-usage": Case((_cpu(50),), _used(None, None)),
    "busy": Case((_cpu(50),), _used("150m", "50m")),
    "balanced": Case((_cpu(50),), _used("54m", "54m")),
    "idle": Case((_cpu(50),), _used("5m", "5m")),
    "one-unknown": Case((_cpu(50),), _used("150m", None)),
    "one-pending": Case((_cpu(50),), _used("150m", "0m"), phases=("Running", "Pending")),
    "one-failed": Case((_cpu(50),), _used("100m", "0m"), phases=("Running", "Failed")),
    "many": Case((_cpu(10),), _used("100m", "100m"), spec={"maxReplicas": 15}),
    "above": Case((_cpu(50),), _used("50m", "50m"), spec={"maxReplicas": 1}),
    "below": Case((_cpu(50),), _used("50m", "50m"), spec={"minReplicas": 4}),
    "disabled": Case((_cpu(50),), replicas=0),
    "memory": Case((_MEMORY,), _used("1m", "1m")),
    "no-request": Case((_cpu(50),), _used("50m", "50m"), requests={"memory": "1Mi"}),
    "container": Case((_cpu(50, "main"),), _used("75m", "75m")),
    "no-container": Case((_cpu(50, "other"),), _used("75m", "75m")),
    "no-pods": Case((_cpu(50),), ()),
    "one-invalid-up": Case((_cpu(50, "other"), _cpu(50)), _used("100m", "100m")),
    "one-invalid-down": Case((_cpu(50), _cpu(50, "other")), _used("1m", "1m")),
    "slow-up": Case((_cpu(10),), _used("100m", "100m"), spec={"behavior": {"scaleUp": {"policies": _ONE_AT_A_TIME}}}),
    "never-down": Case(
        (_cpu(50),), _used("1m", "1m"),
        spec={"behavior": {"scaleDown": {"selectPolicy": "Disabled", "stabilizationWindowSeconds": 0}}},
    ),
    "slow-down": Case(
        (_cpu(50),), _used("1m", "1m"), replicas=2,
        spec={"behavior": {"scaleDown": {"policies": _ONE_AT_A_TIME, "stabilizationWindowSeconds": 0}}},
    ),
    "tolerant": Case((_cpu(50),), _used("70m", "70m"), spec={"behavior": {"scaleUp": {"tolerance": "0.5"}}}),
    "no-target": Case((_cpu(50),), target={"name": "none"}),
    "no-kind": Case((_cpu(50),), target={"apiVersion": "example.com/v1", "kind": "Nothing", "name": "none"}),
}  # fmt: skip


async def create(client: Client, name: str, case: Case, measure: Callable[[str, Tree], Awaitable[None]]) -> None:
    """Create the objects of a case. ``measure``: sets the usage of the container of a pod."""
    labels = {"case": name}
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": case.requests}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    controller = {"metadata": {"name": name}, "spec": {"replicas": case.replicas, "selector": labels,
                                                       "template": template}}  # fmt: skip
    await client.create(REPLICATION_CONTROLLERS, controller, NAMESPACE)
    for number, usage in enumerate(case.usage):
        pod = f"{name}-{number}"
        phase = case.phases[number] if case.phases else "Running"
        await client.create(PODS, {"metadata": {"name": pod, "labels": labels}, "spec": template["spec"]}, NAMESPACE)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": _LONG_AGO}
        status = {"phase": phase, "startTime": _LONG_AGO, "conditions": [ready]}
        await client.patch(PODS, pod, {"status": status}, NAMESPACE, subresource="status")
        if usage is not None:
            await measure(pod, {**usage})
    reference = {"apiVersion": "v1", "kind": "ReplicationController", "name": name, **case.target}
    spec = {"maxReplicas": 9, **case.spec, "metrics": list(case.metrics), "scaleTargetRef": reference}
    await client.create(HORIZONTAL_AUTOSCALERS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)


class Outcome(NamedTuple):
    """The first decision about an autoscaler, without times: status, events, and the replicas of its target."""

    status: Any
    events: frozenset[tuple[str, str, str]]
    replicas: int


async def outcome(client: Client, name: str) -> Outcome:
    """Wait for the first decision about an autoscaler."""
    found: dict[str, Any] = {}

    async def is_decided() -> bool:
        tree = await client.get(HORIZONTAL_AUTOSCALERS, name, NAMESPACE)
        found["status"] = tree.get("status") or {}
        items = (await client.list(EVENTS, NAMESPACE, fields=f"involvedObject.name={name}")).items
        found["events"] = frozenset((each["type"], each["reason"], _any_pod(each["message"])) for each in items)
        reasons = {condition["reason"] for condition in found["status"].get("conditions") or ()}
        expected = {"SucceededRescale": "SuccessfulRescale", "FailedGetScale": "FailedGetScale"}
        failed = {reason for reason in reasons if reason.startswith("FailedGet")}
        wanted = {expected.get(reason, "") for reason in reasons} | {"FailedComputeMetricsReplicas" if failed else ""}
        if "FailedGetScale" in reasons:
            wanted = {"FailedGetScale"}
        return bool(reasons) and wanted - {""} <= {event[1] for event in found["events"]}

    await until(is_decided)
    controller = await client.get(REPLICATION_CONTROLLERS, name, NAMESPACE)
    return Outcome(_timeless(found["status"]), found["events"], controller["spec"]["replicas"])


def _any_pod(text: str) -> str:
    """A message that names one of several equal pods, of which kube-controller-manager names any."""
    return re.sub(r"(Pod [a-z-]+-)\d+", r"\1N", text)


def _timeless(status: Tree) -> Tree:
    """The status without its times."""
    conditions = sorted(
        ({key: _any_pod(value) for key, value in each.items() if key != "lastTransitionTime"}
         for each in status.get("conditions") or ()),
        key=lambda each: str(each["type"]),
    )  # fmt: skip
    return {**status, "conditions": conditions, "lastScaleTime": "lastScaleTime" in status}
