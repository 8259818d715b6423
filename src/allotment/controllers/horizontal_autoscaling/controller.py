"""The HorizontalPodAutoscaler controller."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem, by_namespace
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.recorder import EventType
from allotment.cluster.resources import CUSTOM_KINDS, HORIZONTAL_AUTOSCALERS, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers import kinds
from allotment.controllers.conditions import condition_of, with_condition, without_condition
from allotment.controllers.horizontal_autoscaling.metric_status import (
    MetricFailed,
    MetricReader,
    Proposal,
    Target,
    proposal,
)
from allotment.controllers.horizontal_autoscaling.pod_usage import Tolerances
from allotment.controllers.horizontal_autoscaling.recommendations import History, Limits
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.releases import release_key
from allotment.model.trees import Tree

#: Seconds of the flag --horizontal-pod-autoscaler-sync-period.
_SYNC_SECONDS: Final = 15.0
_WRITE_ATTEMPTS: Final = 5
_FOUND: Final = "the HPA controller was able to get the target's current scale"
_TO_ZERO: Final = "ScaledToZero"

Key = tuple[str, str]


def horizontal_autoscaling(features: Features) -> Program:
    """The controller as a release has it."""
    scales_to_zero = release_key(features.kube) >= release_key("1.37")

    async def run(context: ProgramContext) -> None:
        await _HorizontalAutoscaling(context, scales_to_zero=scales_to_zero).run()

    return run


class _NotScaled(Exception):
    """Raised to end a reconciliation after its condition and event are known."""


class _Outcome(NamedTuple):
    replicas: int
    reason: str
    rescales: bool


class _HorizontalAutoscaling:
    def __init__(self, context: ProgramContext, *, scales_to_zero: bool) -> None:
        self._client = context.client_for("horizontal-pod-autoscaler")
        self._clock = context.clock
        self._recorder = context.recorder("horizontal-pod-autoscaler")
        self._scales_to_zero = scales_to_zero
        self._autoscalers = context.caches.trees(HORIZONTAL_AUTOSCALERS)
        self._in_namespace = self._autoscalers.index("namespace", by_namespace)
        self._definitions = context.caches.trees(CUSTOM_KINDS)
        self._histories: dict[Key, History] = {}
        self._selectors: dict[Key, str] = {}
        self._queue: WorkQueue[Key] = WorkQueue(
            "horizontal-pod-autoscaling", self._sync, clock=context.clock, random=context.random
        )

    async def run(self) -> None:
        await self._definitions.synced.wait()
        await run_queues([self._queue], [(self._autoscalers, self._changed)])

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None:
            if old is not None:
                self._histories.pop((old.namespace, old.name), None)
                self._selectors.pop((old.namespace, old.name), None)
        elif old is None or old.spec != new.spec or old.uid != new.uid:
            self._queue.add((new.namespace, new.name))

    async def _sync(self, key: Key) -> float | None:
        item = self._autoscalers.item(*key)
        if item is None or item.deleting:
            return None
        run = _Reconciliation(self, key, item)
        try:
            await run.reconcile()
        except _NotScaled:
            pass
        except Unreachable:
            return _SYNC_SECONDS
        await run.write_status()
        return _SYNC_SECONDS

    def resource_of(self, reference: Tree) -> Resource | None:
        """The resource of an object reference; None for an unknown kind."""
        group = str(reference.get("apiVersion") or "").rpartition("/")[0]
        custom = (resource for definition in self._definitions.items() for resource in kinds.defined(definition))
        for resource in (*kinds.BUILT_IN, *custom):
            if (resource.group, resource.kind) == (group, reference["kind"]):
                return resource
        return None


class _Reconciliation:
    """One reconciliation of an autoscaler, and the status that results."""

    def __init__(self, controller: _HorizontalAutoscaling, key: Key, item: CachedItem[Any]) -> None:
        self._controller = controller
        self._key = key
        self._tree = item.tree
        self._spec = item.spec
        self._conditions = list(item.status.get("conditions") or ())
        self._status: Tree = dict(item.status)
        self._client = controller._client

    # --- the status -----------------------------------------------------------------------------------------------

    def _event(self, type: EventType, reason: str, message: str) -> None:
        self._controller._recorder.event(self._tree, type, reason, message)

    def _condition(self, type: str, true: bool, reason: str, message: str) -> None:
        # Newer conditions are first where the type is new, as in Kubernetes.
        now = self._controller._clock.now()
        status: Any = "True" if true else "False"
        self._conditions = with_condition(self._conditions, type, status, reason, message, now=now)

    def _set_counts(self, current: int, desired: int | None, metrics: list[Tree] | None) -> None:
        self._status = {key: self._status[key] for key in ("desiredReplicas", "lastScaleTime") if key in self._status}
        self._status["currentMetrics"] = metrics
        self._status["currentReplicas"] = current or None
        if desired is not None:
            self._status["desiredReplicas"] = desired
        self._status.setdefault("desiredReplicas", 0)
        generation = self._tree["metadata"].get("generation")
        self._status["observedGeneration"] = generation or None

    async def write_status(self) -> None:
        """Write the status if it has changed."""
        status = {key: value for key, value in self._status.items() if value is not None}
        status |= {"conditions": self._conditions, "desiredReplicas": status.get("desiredReplicas", 0)}
        before = self._tree.get("status") or {}
        if {"desiredReplicas": 0, **before} == status:
            return
        try:
            answer = await self._client.update(
                HORIZONTAL_AUTOSCALERS, {**self._tree, "status": status}, subresource="status"
            )
        except StatusError as error:
            if error.code != 404:
                self._event("Warning", "FailedUpdateStatus", str(error))
            return
        self._controller._autoscalers.record_write(answer)

    # --- reconciliation -------------------------------------------------------------------------------------------

    async def reconcile(self) -> None:
        """Scale the target. Raises _NotScaled."""
        reference = self._spec["scaleTargetRef"]
        resource = self._controller.resource_of(reference)
        if resource is None:
            group = str(reference.get("apiVersion") or "").rpartition("/")[0]
            self._no_scale(f'no matches for kind "{reference["kind"]}" in group "{group}"')
        assert resource is not None
        try:
            scale = await self._client.get(resource, reference["name"], self._key[0], subresource="scale")
        except StatusError as error:
            self._no_scale(str(error))
        self._condition("AbleToScale", True, "SucceededGetScale", _FOUND)
        current = (scale.get("spec") or {}).get("replicas") or 0
        clock = self._controller._clock
        history = self._controller._histories.setdefault(self._key, History(current, clock.seconds()))
        outcome, metrics = await self._outcome(scale, current, history)
        if outcome.rescales:
            await self._rescale(resource, scale, current, outcome, metrics)
            history.scaled(current, outcome.replicas, self._spec.get("behavior"), clock.seconds())
        self._set_counts(current, outcome.replicas if outcome.rescales else current, metrics)
        if outcome.rescales:
            self._status["lastScaleTime"] = clock.now()

    def _no_scale(self, error: str) -> None:
        self._event("Warning", "FailedGetScale", error)
        message = f"the HPA controller was unable to get the target's current scale: {error}"
        self._condition("AbleToScale", False, "FailedGetScale", message)
        raise _NotScaled

    async def _outcome(self, scale: Tree, current: int, history: History) -> tuple[_Outcome, list[Tree] | None]:
        spec = self._spec
        minimum = spec["minReplicas"] if spec.get("minReplicas") is not None else 1
        to_zero = self._controller._scales_to_zero and self._is_scaled_to_zero
        if current == 0 and not (to_zero and (minimum != 0 or self._has_outer_metrics)):
            message = "scaling is disabled since the replica count of the target is zero"
            self._condition("ScalingActive", False, "ScalingDisabled", message)
            return _Outcome(0, "", False), None
        if current > spec["maxReplicas"]:
            return _Outcome(spec["maxReplicas"], "Current number of replicas above Spec.MaxReplicas", True), None
        if 0 < current < minimum:
            return _Outcome(minimum, "Current number of replicas below Spec.MinReplicas", True), None
        wanted, name, metrics = await self._from_metrics(scale, current)
        reason = f"{name} above target" if wanted > current else "All metrics below target" if wanted < current else ""
        now = self._controller._clock.seconds()
        limits = Limits(current, minimum, spec["maxReplicas"])
        decision = history.decide(wanted, limits, spec.get("behavior"), now)
        self._condition("AbleToScale", True, *decision.able)
        self._condition("ScalingLimited", decision.limited, *decision.limit)
        replicas = decision.replicas
        if current == 0 and to_zero and replicas < minimum:
            replicas, reason = minimum, reason or "Current number of replicas below Spec.MinReplicas"
        return _Outcome(replicas, reason, replicas != current), metrics

    @property
    def _is_scaled_to_zero(self) -> bool:
        return (condition_of(self._conditions, _TO_ZERO) or {}).get("status") == "True"

    @property
    def _has_outer_metrics(self) -> bool:
        return any(metric["type"] in ("Object", "External") for metric in self._spec.get("metrics") or ())

    async def _from_metrics(self, scale: Tree, current: int) -> tuple[int, str, list[Tree]]:
        """The replicas that the metrics propose, the metric that decides, and the status of all."""
        try:
            target = await self._target(scale, current)
        except MetricFailed as error:
            self._condition("ScalingActive", False, error.reason, error.message)
            self._failed(current, None, str(error))
            raise _NotScaled from None
        behavior, metrics = self._spec.get("behavior") or {}, self._spec.get("metrics") or []
        tolerances = Tolerances(_tolerance(behavior.get("scaleDown")), _tolerance(behavior.get("scaleUp")))
        reader = MetricReader(
            self._client, self._controller._clock, self._key[0], self._controller.resource_of
        )  # fmt: skip
        best: Proposal | None = None
        failures: list[MetricFailed] = []
        statuses: list[Tree] = []
        for metric in metrics:
            try:
                found = await proposal(reader, metric, target, tolerances)
            except MetricFailed as error:
                self._event("Warning", error.reason, error.message)
                failures.append(error)
                statuses.append({"type": ""})
                continue
            statuses.append(found.status)
            if best is None or found.replicas > best.replicas:
                best = found
        if best is None or (failures and best.replicas < current):
            first = failures[0] if failures else MetricFailed("", "", "")
            message = f"the HPA was unable to compute the replica count: {first.message}"
            self._condition("ScalingActive", False, first.reason, message)
            text = f"invalid metrics ({len(failures)} invalid out of {len(metrics)}), first error is: {first}"
            self._failed(current, statuses, text)
            raise _NotScaled
        message = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._condition("ScalingActive", True, "ValidMetricFound", message)
        return best.replicas, best.name, statuses

    def _failed(self, current: int, metrics: list[Tree] | None, error: str) -> None:
        self._set_counts(current, None, metrics)
        self._event("Warning", "FailedComputeMetricsReplicas", error)

    async def _target(self, scale: Tree, current: int) -> Target:
        """The pods of the target. Raises MetricFailed if no selector tells them."""
        status = scale.get("status") or {}
        selector = status.get("selector") or ""
        if not selector:
            self._event("Warning", "SelectorRequired", "selector is required")
            raise _no_target("InvalidSelector", "the HPA target's scale is missing a selector", "selector is required")
        namespace = self._key[0]
        pods = (await self._client.list(PODS, namespace, labels=selector)).items
        self._controller._selectors[self._key] = selector
        names = {pod["metadata"]["name"] for pod in pods}
        others = [self._key]
        for item in self._controller._in_namespace[namespace]:
            other = self._controller._selectors.get((namespace, item.name))
            if other is None or item.name == self._key[1] or not names:
                continue
            selected = pods if other == selector else (await self._client.list(PODS, namespace, labels=other)).items
            if any(pod["metadata"]["name"] in names for pod in selected):
                others.append((namespace, item.name))
                break
        if len(others) > 1:
            shown = " ".join(f"{{{name} {where}}}" for where, name in others)
            message = f"pods by selector {selector} are controlled by more than one HPA (e.g. [{shown}])"
            self._event("Warning", "AmbiguousSelector", message)
            raise _no_target("AmbiguousSelector", message, message)
        return Target(current, status.get("replicas") or 0, selector, pods)

    async def _rescale(
        self, resource: Resource, scale: Tree, current: int, outcome: _Outcome, metrics: list[Tree] | None
    ) -> None:
        namespace, name = self._key[0], self._spec["scaleTargetRef"]["name"]
        for attempt in range(_WRITE_ATTEMPTS):
            try:
                wanted = {**scale, "spec": {"replicas": outcome.replicas}}
                await self._client.update(resource, wanted, subresource="scale")
                break
            except StatusError as error:
                if error.code == 409 and attempt < _WRITE_ATTEMPTS - 1:
                    scale = await self._client.get(resource, name, namespace, subresource="scale")
                    continue
                text = f"New size: {outcome.replicas}; reason: {outcome.reason}; error: {error}"
                self._event("Warning", "FailedRescale", text)
                message = f"the HPA controller was unable to update the target scale: {error}"
                self._condition("AbleToScale", False, "FailedUpdateScale", message)
                self._set_counts(current, None, metrics)
                raise _NotScaled from None
        message = f"the HPA controller was able to update the target scale to {outcome.replicas}"
        self._condition("AbleToScale", True, "SucceededRescale", message)
        self._event("Normal", "SuccessfulRescale", f"New size: {outcome.replicas}; reason: {outcome.reason}")
        if not self._controller._scales_to_zero:
            self._conditions = without_condition(self._conditions, _TO_ZERO)
        elif current > 0 and outcome.replicas == 0 and self._spec.get("minReplicas") == 0 and self._has_outer_metrics:
            self._condition(_TO_ZERO, True, _TO_ZERO, "the HPA controller scaled the workload to zero")
        else:
            self._condition(_TO_ZERO, False, "NotScaledToZero", "the HPA controller did not scale the workload to zero")


def _no_target(reason: str, condition: str, error: str) -> MetricFailed:
    failed = MetricFailed(reason, condition, "")
    failed.args = (error,)
    return failed


def _tolerance(rules: Tree | None) -> float:
    tolerance = (rules or {}).get("tolerance")
    return 0.1 if tolerance is None else Quantity.parse(str(tolerance)).nano / 10**9
