"""Device taint eviction: deletes pods whose devices have a NoExecute taint, by driver or DeviceTaintRule (KEP-5055).

The allocation decides: the tolerations in its results and the names of its devices, so that a rule also evicts from
devices that are no longer published. A pod is deleted when its first taint is due, without regard to disruption
budgets. The status of a rule reports how many pods are still to be evicted; for a rule with effect None, how many would
be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.resources import CLAIMS, PODS, SLICES, TAINT_RULES
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.conditions import condition_of, with_condition
from allotment.controllers.taint_rules import Device, effect_of, selects
from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.phrases import counted

_COMPONENT: Final = "device-taint-eviction-controller"
_CONDITION: Final = "EvictionInProgress"
_RULE_SECONDS: Final = 10.0
#: Seconds after which an eviction time is recomputed: clocks are adjusted, and machines sleep.
_LOOK_SECONDS: Final = 60.0


class _Pod(NamedTuple):
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Eviction(NamedTuple):
    """The seconds until a pod is evicted, and the rules among the reasons."""

    left: float
    rules: frozenset[str]


def device_taints(features: Features) -> Program:
    """Create the device taint eviction controller."""

    async def run(context: ProgramContext) -> None:
        await _DeviceTaints(context, features).run()

    return run


class _DeviceTaints:
    def __init__(self, context: ProgramContext, features: Features) -> None:
        self._grouped = features.enabled(pod_groups.GATE)
        self._client = context.client_for(_COMPONENT)
        self._rule_client = context.client_for(_COMPONENT, _COMPONENT)
        self._recorder = context.recorder(_COMPONENT)
        self._clock = context.clock
        self._observing, self._stopping = context.observing, context.stopping
        self._pods = context.caches.trees(PODS)
        self._claims = context.caches.trees(CLAIMS)
        self._slices = context.caches.trees(SLICES)
        self._rules = context.caches.trees(TAINT_RULES)
        self._allocated = self._claims.index("device", _allocated_devices)
        self._used_by = self._claims.index("user", _users)
        self._members = self._pods.index("group", _group_key)
        self._tainted = self._slices.index("tainted device", _tainted_devices)
        self._pool = self._slices.index("pool", _pool_of)
        self._marked: set[_Pod] = set()
        self._evicted: dict[str, int] = {}
        # When taints without a timeAdded were first seen.
        self._first_seen: dict[tuple[Device, str, str], str] = {}
        options: dict[str, Any] = {"clock": context.clock, "random": context.random}
        self._queue: WorkQueue[_Pod] = WorkQueue("device_taint_eviction", self._sync_pod, **options)
        self._statuses: WorkQueue[str] = WorkQueue("device_taint_rules", self._sync_rule, workers=1, **options)
        for queue in (self._queue, self._statuses):
            context.observing.gauge("queue", queue.name, queue.__len__)

    async def run(self) -> None:
        await run_queues(
            [self._queue, self._statuses],
            [(self._slices, self._slice_changed), (self._rules, self._rule_changed),
             (self._claims, self._claim_changed), (self._pods, self._pod_changed)],
            self._stopping,
        )  # fmt: skip

    # --- events --------------------------------------------------------------------------------------

    def _has_no_taints(self) -> bool:
        """Whether nothing is tainted, the usual case, in which pods need no check."""
        return not (len(self._tainted) or self._marked or len(self._rules))

    def _slice_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for device in {device for slice in (old, new) if slice for device in _tainted_devices(slice)}:
            self._enqueue_users_of_device(device)
        for rule in self._rules.items():
            if effect_of(rule) == "None":
                self._statuses.add(rule.name)

    def _rule_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            if old is not None and old.spec == new.spec:
                return
            self._statuses.add(new.name)
        elif old is not None:
            self._evicted.pop(old.uid, None)
        for device in tuple(self._allocated):
            if any(rule is not None and selects(rule, device) for rule in (old, new)):
                self._enqueue_users_of_device(device)

    def _claim_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if self._has_no_taints():
            return
        for claim in (old, new):
            if claim is not None:
                self._enqueue_users(claim)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        pod = new or old
        if pod is None or self._has_no_taints() or not any(True for _ in self._claims_of(pod)):
            return
        if new is None or old is None or old.deleting != new.deleting or old.spec is not new.spec:
            self._queue.add(_Pod(pod.namespace, pod.name, pod.uid))

    def _enqueue_users_of_device(self, device: Device) -> None:
        for claim in self._allocated[device]:
            self._enqueue_users(claim)

    def _enqueue_users(self, claim: CachedItem[Any]) -> None:
        if not claim.status.get("allocation"):
            return
        for user in claim.status.get("reservedFor") or ():
            if user["resource"] == "pods":
                self._queue.add(_Pod(claim.namespace, user["name"], user["uid"]))
            elif self._grouped and pod_groups.is_group(user):
                for pod in self._members[claim.namespace, user["name"]]:
                    self._queue.add(_Pod(pod.namespace, pod.name, pod.uid))

    def _claims_of(self, pod: CachedItem[Any]) -> Iterator[CachedItem[Any]]:
        """The allocated claims that are reserved for a pod, or for its group where the pod names them."""
        yield from self._used_by[pod.uid]
        if self._grouped and (group := pod_groups.group_name(pod.spec)):
            own = set(_claim_names(pod))
            for claim in self._used_by[pod.namespace, group]:
                if claim.name in own and all(user["uid"] != pod.uid for user in claim.status["reservedFor"]):
                    yield claim

    def _pods_with(self, claim: CachedItem[Any]) -> Iterator[CachedItem[Any]]:
        for user in claim.status.get("reservedFor") or ():
            if self._grouped and pod_groups.is_group(user):
                yield from self._members[claim.namespace, user["name"]]
                continue
            pod = self._pods.item(claim.namespace, user["name"])
            if pod is not None and pod.uid == user["uid"]:
                yield pod

    # --- pods -----------------------------------------------------------------------------------------------------

    def _eviction(self, pod: CachedItem[Any], also: CachedItem[Any] | None = None) -> _Eviction | None:
        """When a pod must be evicted, or None; the rule ``also`` is treated as if it evicted."""
        if not pod.spec.get("nodeName"):
            return None
        left: float | None = None
        rules: set[str] = set()
        for claim in self._claims_of(pod):
            for result in claim.status["allocation"]["devices"].get("results") or ():
                device = result["driver"], result["pool"], result["device"]
                for taint, rule in self._taints(device, also):
                    due = self._due(device, taint, result.get("tolerations") or ())
                    if due is None:
                        continue
                    left = due if left is None else min(left, due)
                    if rule is not None:
                        rules.add(rule.uid)
        return None if left is None else _Eviction(left, frozenset(rules))

    def _taints(self, device: Device, also: CachedItem[Any] | None) -> Iterator[tuple[Tree, CachedItem[Any] | None]]:
        for slice in self._tainted[device]:
            pool = slice.spec["pool"]
            newest = max(other.spec["pool"].get("generation", 0) for other in self._pool[device[:2]])
            if pool.get("generation", 0) == newest:
                for found in slice.spec.get("devices") or ():
                    if found["name"] == device[2]:
                        yield from ((taint, None) for taint in _no_execute(found))
        for rule in self._rules.items():
            if (effect_of(rule) == "NoExecute" or rule is also) and selects(rule, device):
                yield {**rule.spec["taint"], "effect": "NoExecute"}, rule

    def _due(self, device: Device, taint: Tree, tolerations: Iterable[Tree]) -> float | None:
        """Seconds until a taint evicts; None if it is tolerated indefinitely."""
        added = taint.get("timeAdded")
        if not added:
            key = device, taint["key"], taint.get("value", "")
            added = self._first_seen.setdefault(key, self._clock.now())
        # In 1.36 only a toleration that names the effect matches here, though an empty one matches in scheduling.
        matching = [t for t in tolerations if t.get("effect") == "NoExecute" and _tolerates(t, taint)]
        if any(t.get("tolerationSeconds") is None for t in matching):
            return None
        seconds = min((max(0, t["tolerationSeconds"]) for t in matching), default=0)
        return min(self._clock.left(added, seconds), seconds)  # the clock of the writer may be ahead

    async def _sync_pod(self, key: _Pod) -> float | None:
        pod = self._pods.item(key.namespace, key.name)
        if pod is None or pod.uid != key.uid or pod.deleting:
            self._marked.discard(key)
            return None
        eviction = self._eviction(pod)
        if eviction is None:
            if key in self._marked:
                self._marked.discard(key)
                self._queue.cancel(key)
                self._recorder.event(_pod_reference(key), "Normal", "DeviceTaintManagerEviction", "Cancelling deletion")
            return None
        self._marked.add(key)
        for rule in self._rules.items():
            if rule.uid in eviction.rules:
                self._statuses.add(rule.name)
        if eviction.left > 0:
            return min(eviction.left, _LOOK_SECONDS)
        with self._observing.work("evict", key.uid) as work:
            work.attributes["pod"] = str(key)
            await self._evict(pod, key)
            work.result = "evicted"
        self._marked.discard(key)
        for uid in eviction.rules:
            self._evicted[uid] = self._evicted.get(uid, 0) + 1
        return None

    async def _evict(self, pod: CachedItem[Any], key: _Pod) -> None:
        self._recorder.event(_pod_reference(key), "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
        conditions = with_condition(
            pod.status.get("conditions"), "DisruptionTarget", "True", "DeletionByDeviceTaintManager",
            "Device Taint manager: deleting due to NoExecute taint", now=self._clock.now(), lastProbeTime=None,
        )  # fmt: skip
        try:
            status = {**pod.status, "conditions": conditions}
            self._pods.record_write(
                await self._client.update(PODS, {**pod.tree, "status": status}, subresource="status")
            )
            await self._client.delete(PODS, key.name, key.namespace, uid=key.uid)
        except StatusError as error:
            if error.code != 404:
                raise

    # --- rules ----------------------------------------------------------------------------------------------------

    async def _sync_rule(self, name: str) -> float | None:
        rule = self._rules.item("", name)
        if rule is None:
            return None
        old = condition_of(rule.status.get("conditions"), _CONDITION)
        generation = rule.metadata.get("generation", 0)
        if old is not None and old.get("observedGeneration") == generation:
            if effect_of(rule) == "None":
                return None  # reported once
            left = self._clock.left(old["lastTransitionTime"], _RULE_SECONDS)
            if 0 < left <= _RULE_SECONDS:  # greater: the clock was ahead when it was written
                return left
        status, reason, message = self._rule_condition(rule)
        new = {
            "type": _CONDITION,
            "status": status,
            "observedGeneration": generation,
            "reason": reason,
            "message": message,
        }
        if old is None or any(old.get(field, "") != value for field, value in new.items()):
            patch = {
                "kind": "DeviceTaintRule",
                "apiVersion": TAINT_RULES.api_version,
                "metadata": {"name": name, "uid": rule.uid},
                "status": {"conditions": [{**new, "lastTransitionTime": self._clock.now()}]},
            }
            answer = await self._rule_client.patch(
                TAINT_RULES, name, patch, kind="apply", subresource="status", force=True
            )
            self._rules.record_write(answer)
        return _RULE_SECONDS if status == "True" else None

    def _rule_condition(self, rule: CachedItem[Any]) -> tuple[str, str, str]:
        """Status, reason and message of a rule's condition."""
        effect = effect_of(rule)
        status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
        evicted = self._evicted.get(rule.uid, 0)
        if effect in ("NoExecute", "None"):
            pods = self._pods_to_go(rule)
            spaces = len({pod.namespace for pod in pods})
            where = counted(spaces, "namespace", "different namespaces")
            if effect == "None":
                published = sum(
                    selects(rule, (slice.spec["driver"], slice.spec["pool"]["name"], device["name"]))
                    for slice in self._slices.items()
                    for device in slice.spec.get("devices") or ()
                )
                allocated = sum(self._allocated.count(d) for d in self._allocated if selects(rule, d))
                reason = "NoEffect"
                message = (
                    f"{counted(published, 'published device')} selected. "
                    f"{counted(allocated, 'allocated device')} selected. "
                    f"{counted(len(pods), 'pod')} would be evicted in {where} if the effect was NoExecute. "
                    "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
                )
            elif pods:
                status, reason = "True", "PodsPendingEviction"
                message = (
                    f"{counted(len(pods), 'pod')} {'needs' if len(pods) == 1 else 'need'} to be evicted in {where}."
                )
            else:
                reason, message = ("Completed" if evicted else "NotStarted"), ""
        if evicted:
            message = f"{message} {counted(evicted, 'pod')} evicted since starting the controller.".lstrip()
        return status, reason, message

    def _pods_to_go(self, rule: CachedItem[Any]) -> set[_Pod]:
        found = set()
        for device in self._allocated:
            if not selects(rule, device):
                continue
            for claim in self._allocated[device]:
                for pod in self._pods_with(claim):
                    if pod.deleting:
                        continue
                    eviction = self._eviction(pod, also=rule)
                    if eviction is not None and rule.uid in eviction.rules:
                        found.add(_Pod(pod.namespace, pod.name, pod.uid))
        return found


def _pod_reference(pod: _Pod) -> Tree:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": pod._asdict()}


def _tolerates(toleration: Tree, taint: Tree) -> bool:
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (operator == "Equal" and toleration.get("value", "") == taint.get("value", ""))


def _no_execute(device: Tree) -> Iterator[Tree]:
    return (taint for taint in device.get("taints") or () if taint.get("effect") == "NoExecute")


def _pool_of(slice: CachedItem[Any]) -> tuple[tuple[str, str], ...]:
    return ((slice.spec["driver"], slice.spec["pool"]["name"]),)


def _tainted_devices(slice: CachedItem[Any]) -> Iterator[Device]:
    for device in slice.spec.get("devices") or ():
        if device.get("taints") and any(True for _ in _no_execute(device)):
            yield slice.spec["driver"], slice.spec["pool"]["name"], device["name"]


def _allocated_devices(claim: CachedItem[Any]) -> Iterator[Device]:
    allocation = claim.status.get("allocation")
    if allocation:
        for result in allocation["devices"].get("results") or ():
            yield result["driver"], result["pool"], result["device"]


def _users(claim: CachedItem[Any]) -> Iterator[str | tuple[str, str]]:
    """Index keys of a claim's consumers: the uid of a pod, the namespace and name of a group."""
    if claim.status.get("allocation"):
        for user in claim.status.get("reservedFor") or ():
            yield (claim.namespace, user["name"]) if pod_groups.is_group(user) else user["uid"]


def _group_key(pod: CachedItem[Any]) -> Iterator[tuple[str, str]]:
    if pod.spec.get("resourceClaims") and (name := pod_groups.group_name(pod.spec)):
        yield pod.namespace, name


def _claim_names(pod: CachedItem[Any]) -> Iterator[str]:
    """The names of the claims that a pod references or that were generated for it."""
    for entry in (*(pod.spec.get("resourceClaims") or ()), *(pod.status.get("resourceClaimStatuses") or ())):
        if name := entry.get("resourceClaimName"):
            yield name
