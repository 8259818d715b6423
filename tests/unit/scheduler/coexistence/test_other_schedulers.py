"""The settling period, estimated from the activity of other schedulers."""

from __future__ import annotations

from typing import Any

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import Clock
from allotment.model.resource import ResourceClaimSpec
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import CachedClaim
from allotment.scheduler.coexistence.other_schedulers import (
    ACTIVITY_WINDOW,
    MAX_SETTLING,
    MIN_SETTLING,
    OtherSchedulers,
)
from tests.unit.scheduler.world import claim, pod


class _Clock(Clock):
    def __init__(self) -> None:
        super().__init__()
        self.at = 1000.0

    def seconds(self) -> float:
        return self.at


def _pod(name: str, scheduler: str = "other", node: str = "", **more: Any) -> CachedItem[Tree]:
    spec = {"nodeName": node} if node else {}
    tree = pod(name, *more.pop("claims", ("c",)), schedulerName=scheduler, **spec, **more)[1]
    tree["metadata"] |= {"uid": name, "resourceVersion": "1"}
    return CachedItem(tree)


def _claim(user: str, **result: Any) -> CachedClaim:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": "x", **result}]
    users = [{"resource": "pods", "name": user, "uid": user}]
    tree = claim("c", status={"allocation": {"devices": {"results": results}}, "reservedFor": users})[1]
    return CachedClaim(tree, ResourceClaimSpec())


def _other_schedulers(fixed: float | None = None) -> tuple[OtherSchedulers, _Clock]:
    clock = _Clock()
    return OtherSchedulers(clock, "ours", fixed), clock


def test_no_settling_without_other_schedulers() -> None:
    others, _ = _other_schedulers()
    others.pod_changed(None, _pod("mine", "ours"))
    others.pod_changed(None, _pod("plain", claims=()))
    others.pod_changed(None, _pod("bound", node="n"))
    assert others.settling_seconds() == 0


def test_a_foreign_pod_that_wants_devices_counts_while_pending_and_for_a_while_after() -> None:
    others, clock = _other_schedulers()
    waiting = _pod("p")
    others.pod_changed(None, waiting)
    clock.at += ACTIVITY_WINDOW * 2
    assert others.settling_seconds() == MIN_SETTLING
    others.pod_changed(waiting, None)
    clock.at += ACTIVITY_WINDOW - 1
    assert others.settling_seconds() == MIN_SETTLING
    clock.at += 2
    assert others.settling_seconds() == 0


def test_an_extended_resource_may_be_a_device() -> None:
    others, _ = _other_schedulers()
    others.pod_changed(None, _pod("p", claims=(), requests={"nvidia.com/gpu": "1"}))
    assert others.settling_seconds() == MIN_SETTLING


def test_a_slow_scheduler_extends_the_settling_period() -> None:
    others, clock = _other_schedulers()
    others.pod_changed(None, _pod("p"))
    others.allocated(_claim("p"))
    clock.at += 2
    assert others.settling_seconds() == 8  # it has not bound yet
    others.pod_changed(_pod("p"), _pod("p", node="n"))
    clock.at += 100
    assert others.settling_seconds() == 8
    others.pod_changed(None, _pod("next"))
    clock.at += ACTIVITY_WINDOW - 100
    assert others.settling_seconds() == MIN_SETTLING


def test_the_settling_period_has_a_maximum() -> None:
    others, clock = _other_schedulers()
    others.pod_changed(None, _pod("p"))
    others.allocated(_claim("p"))
    clock.at += 1000
    assert others.settling_seconds() == MAX_SETTLING


def test_waiting_for_binding_conditions_does_not_count() -> None:
    others, clock = _other_schedulers()
    others.pod_changed(None, _pod("p"))
    others.allocated(_claim("p", bindingConditions=["ready"]))
    clock.at += 100
    assert others.settling_seconds() == MIN_SETTLING


def test_a_reverted_allocation_does_not_count() -> None:
    others, clock = _other_schedulers()
    others.pod_changed(None, _pod("p"))
    claimed = _claim("p")
    others.allocated(claimed)
    others.freed(claimed.users)
    clock.at += 100
    assert others.settling_seconds() == MIN_SETTLING


def test_an_old_allocation_does_not_count() -> None:
    others, _ = _other_schedulers()
    others.allocated(_claim("gone"), age=ACTIVITY_WINDOW)
    assert others.settling_seconds() == 0
    others.allocated(_claim("gone"), age=ACTIVITY_WINDOW - 1)
    assert others.settling_seconds() == MIN_SETTLING


def test_a_fixed_settling_period_is_constant() -> None:
    others, _ = _other_schedulers(0.0)
    others.pod_changed(None, _pod("p"))
    assert others.settling_seconds() == 0
