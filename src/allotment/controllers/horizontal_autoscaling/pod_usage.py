"""The replicas that a metric of pods recommends.

A pod without a metric counts as idle if the others are above the target, and as fully used if they are below it, so
that a missing metric never changes the direction. Amounts are thousandths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from allotment.cluster.clock import Clock, parse
from allotment.controllers.conditions import condition_of
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

#: Seconds of the flags --horizontal-pod-autoscaler-cpu-initialization-period and -initial-readiness-delay.
_CPU_INITIALIZATION: Final = 300.0
_INITIAL_READINESS: Final = 30.0
_MOST: Final = 2**31 - 1
_NO_PODS: Final = "no pods returned by selector while calculating replica count"
_NO_METRICS: Final = "did not receive metrics for targeted pods (pods might be unready)"


class NoRecommendation(Exception):
    """Raised if a metric recommends nothing; the text is Kubernetes' own."""


class Sample(NamedTuple):
    """The metric of one pod: its amount, when it was measured, and for how many seconds."""

    amount: int
    timestamp: str
    window: float


class Tolerances(NamedTuple):
    """The largest deviations of a ratio of usage from 1 at which the target is not scaled."""

    down: float = 0.1
    up: float = 0.1

    def contain(self, ratio: float) -> bool:
        """Whether a ratio is close enough to 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Recommendation(NamedTuple):
    """Replicas, and the current value: average amount of a pod, and its percentage of the request."""

    replicas: int
    average: int
    utilization: int = 0


class _Groups(NamedTuple):
    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def by_utilization(
    samples: Mapping[str, Sample], pods: Sequence[Tree], current: int, target: int, resource: str, container: str,
    tolerances: Tolerances, clock: Clock,
) -> Recommendation:  # fmt: skip
    """The recommendation for a target percentage of the requests. Raises NoRecommendation."""
    groups = _grouped(pods, samples, resource, clock)
    amounts = _kept(samples, groups)
    requests = {pod["metadata"]["name"]: request_of(pod, resource, container) for pod in pods}

    def ratio(amounts: Mapping[str, int]) -> tuple[float, int, int]:
        known = [name for name in amounts if name in requests]
        total = sum(requests[name] for name in known)
        if total == 0:
            raise NoRecommendation("no metrics returned matched known pods")
        used = sum(amounts[name] for name in known)
        percentage = used * 100 // total
        return percentage / target, percentage, used // len(known)

    usage, utilization, average = ratio(amounts)
    fallback = {name: requests[name] * max(100, target) // 100 for name in groups.missing}
    completed = _completed(amounts, groups, usage, fallback)
    if completed is None:
        replicas = current if tolerances.contain(usage) else math.ceil(usage * groups.ready)
    else:
        replicas = _careful(ratio(completed)[0], usage, len(completed), current, tolerances)
    return Recommendation(min(replicas, _MOST), average, utilization)


def by_average(
    samples: Mapping[str, Sample], pods: Sequence[Tree], current: int, target: int, resource: str,
    tolerances: Tolerances, clock: Clock,
) -> Recommendation:  # fmt: skip
    """The recommendation for a target amount of each pod. Raises NoRecommendation."""
    groups = _grouped(pods, samples, resource, clock)
    amounts = _kept(samples, groups)

    def average_of(amounts: Mapping[str, int]) -> int:
        return sum(amounts.values()) // len(amounts)

    average = average_of(amounts)
    usage = average / target
    completed = _completed(amounts, groups, usage, dict.fromkeys(groups.missing, target))
    if completed is None:
        replicas = current if tolerances.contain(usage) else math.ceil(usage * groups.ready)
    else:
        replicas = _careful(average_of(completed) / target, usage, len(completed), current, tolerances)
    return Recommendation(min(replicas, _MOST), average)


def by_value(value: int, pods: Sequence[Tree], current: int, target: int, tolerances: Tolerances) -> Recommendation:
    """The recommendation for a target value of one metric for all pods. Raises NoRecommendation."""
    ratio = value / target
    if current == 0:
        return Recommendation(min(math.ceil(ratio), _MOST), value)
    if tolerances.contain(ratio):
        return Recommendation(current, value)
    if not pods:
        raise NoRecommendation(f"unable to calculate ready pods: {_NO_PODS}")
    ready = sum(
        (pod.get("status") or {}).get("phase") == "Running" and _ready(pod).get("status") == "True" for pod in pods
    )
    return Recommendation(min(math.ceil(ratio * ready), _MOST), value)


def by_value_per_pod(value: int, replicas: int, target: int, tolerances: Tolerances) -> Recommendation:
    """The recommendation for a metric that is divided among the pods. ``replicas``: those of the target's status."""
    ratio = value / (target * replicas) if replicas else math.inf
    wanted = replicas if tolerances.contain(ratio) else min(math.ceil(value / target), _MOST)
    return Recommendation(wanted, math.ceil(value / replicas) if replicas else value)


def _completed(
    amounts: Mapping[str, int], groups: _Groups, usage: float, fallback: Mapping[str, int]
) -> dict[str, int] | None:
    """The amounts with those of pods without a metric; None if these do not matter."""
    up = bool(groups.unready) and usage > 1.0
    if not up and not groups.missing:
        return None
    found = dict(amounts)
    if usage < 1.0:
        found |= fallback
    elif usage > 1.0:
        found |= dict.fromkeys(groups.missing, 0)
    if up:
        found |= dict.fromkeys(groups.unready, 0)
    return found


def _careful(ratio: float, usage: float, pods: int, current: int, tolerances: Tolerances) -> int:
    """The replicas for a ratio that contains assumptions: they may not change the direction."""
    if tolerances.contain(ratio) or (usage < 1.0 < ratio) or (ratio < 1.0 < usage):
        return current
    replicas = math.ceil(ratio * pods)
    return current if (ratio < 1.0 and replicas > current) or (ratio > 1.0 and replicas < current) else replicas


def _kept(samples: Mapping[str, Sample], groups: _Groups) -> dict[str, int]:
    left_out = groups.ignored | groups.unready
    amounts = {name: sample.amount for name, sample in samples.items() if name not in left_out}
    if not amounts:
        raise NoRecommendation(_NO_METRICS)
    return amounts


def _ready(pod: Tree) -> Tree:
    return condition_of((pod.get("status") or {}).get("conditions"), "Ready") or {}


def _grouped(pods: Sequence[Tree], samples: Mapping[str, Sample], resource: str, clock: Clock) -> _Groups:
    if not pods:
        raise NoRecommendation(_NO_PODS)
    unready, missing, ignored, ready = set[str](), set[str](), set[str](), 0
    for pod in pods:
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        if "deletionTimestamp" in pod["metadata"] or phase == "Failed":
            ignored.add(name)
        elif phase == "Pending":
            unready.add(name)
        elif name not in samples:
            missing.add(name)
        elif resource == "cpu" and _is_starting(pod, samples[name], clock):
            unready.add(name)
        else:
            ready += 1
    return _Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_starting(pod: Tree, sample: Sample, clock: Clock) -> bool:
    """Whether the CPU usage of a pod is still that of its start."""
    condition, start = _ready(pod), (pod.get("status") or {}).get("startTime")
    if not condition or not start:
        return True
    changed = parse(condition["lastTransitionTime"])
    if clock.left(start, _CPU_INITIALIZATION) > 0:
        measured = (parse(sample.timestamp) - changed).total_seconds() * clock.speed
        return condition["status"] == "False" or measured < sample.window
    started = (changed - parse(start)).total_seconds() * clock.speed
    return condition["status"] == "False" and started < _INITIAL_READINESS


def request_of(pod: Tree, resource: str, container: str = "") -> int:
    """The request of a pod, or of one of its containers. Raises NoRecommendation if one has none."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    whole = (spec.get("resources") or {}).get("requests") or {}
    if whole and not container:
        if resource not in whole:
            raise NoRecommendation(f"missing pod-level request for {resource} in Pod {name}")
        return milli(whole[resource])
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    total = 0
    for each in (*spec["containers"], *sidecars):
        if container in ("", each["name"]):
            requests = (each.get("resources") or {}).get("requests") or {}
            if resource not in requests:
                raise NoRecommendation(f"missing request for {resource} in container {each['name']} of Pod {name}")
            total += milli(requests[resource])
        if container == each["name"]:
            return total
    if container:
        raise NoRecommendation(f"container {container} not found in Pod {name}")
    return total


def milli(quantity: object) -> int:
    """A quantity in thousandths, rounded up."""
    return -(-Quantity.parse(str(quantity)).nano // 10**6)
