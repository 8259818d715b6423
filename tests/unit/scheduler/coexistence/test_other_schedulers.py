"""How long a decision settles, by what other schedulers are seen to do."""

from __future__ import annotations

from typing import Any

from allotment.cluster.cached_item import Item
from allotment.cluster.clock import Clock
from allotment.model.resource import ResourceClaimSpec
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import KnownClaim
from allotment.scheduler.coexistence.other_schedulers import LATELY, LONGEST, SHORTEST, Rivals
from tests.unit.scheduler.world import claim, pod


class _Clock(Clock):
    def __init__(self) -> None:
        super().__init__()
        self.at = 1000.0

    def seconds(self) -> float:
        return self.at


def _pod(name: str, scheduler: str = "other", node: str = "", **more: Any) -> Item[Tree]:
    spec = {"nodeName": node} if node else {}
    tree = pod(name, *more.pop("claims", ("c",)), schedulerName=scheduler, **spec, **more)[1]
    tree["metadata"] |= {"uid": name, "resourceVersion": "1"}
    return Item(tree)


def _claim(user: str, **result: Any) -> KnownClaim:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": "x", **result}]
    users = [{"resource": "pods", "name": user, "uid": user}]
    tree = claim("c", status={"allocation": {"devices": {"results": results}}, "reservedFor": users})[1]
    return KnownClaim(tree, ResourceClaimSpec())


def _rivals(fixed: float | None = None) -> tuple[Rivals, _Clock]:
    clock = _Clock()
    return Rivals(clock, "ours", fixed), clock


def test_nobody_waits_where_nobody_else_is() -> None:
    rivals, _ = _rivals()
    rivals.pod_changed(None, _pod("mine", "ours"))
    rivals.pod_changed(None, _pod("plain", claims=()))
    rivals.pod_changed(None, _pod("bound", node="n"))
    assert rivals.seconds() == 0


def test_a_pod_of_another_scheduler_that_wants_devices_is_a_rival_while_it_waits_and_a_while_after() -> None:
    rivals, clock = _rivals()
    waiting = _pod("p")
    rivals.pod_changed(None, waiting)
    clock.at += LATELY * 2
    assert rivals.seconds() == SHORTEST
    rivals.pod_changed(waiting, None)
    clock.at += LATELY - 1
    assert rivals.seconds() == SHORTEST
    clock.at += 2
    assert rivals.seconds() == 0


def test_an_extended_resource_may_be_a_device() -> None:
    rivals, _ = _rivals()
    rivals.pod_changed(None, _pod("p", claims=(), requests={"nvidia.com/gpu": "1"}))
    assert rivals.seconds() == SHORTEST


def test_a_rival_that_is_slowed_down_is_given_more_time() -> None:
    rivals, clock = _rivals()
    rivals.pod_changed(None, _pod("p"))
    rivals.allocated(_claim("p"))
    clock.at += 2
    assert rivals.seconds() == 8  # it has not bound yet
    rivals.pod_changed(_pod("p"), _pod("p", node="n"))
    clock.at += 100
    assert rivals.seconds() == 8
    rivals.pod_changed(None, _pod("next"))
    clock.at += LATELY - 100
    assert rivals.seconds() == SHORTEST


def test_no_rival_is_waited_for_longer_than_the_longest() -> None:
    rivals, clock = _rivals()
    rivals.pod_changed(None, _pod("p"))
    rivals.allocated(_claim("p"))
    clock.at += 1000
    assert rivals.seconds() == LONGEST


def test_a_pod_that_waits_for_its_device_to_get_ready_says_nothing_of_its_scheduler() -> None:
    rivals, clock = _rivals()
    rivals.pod_changed(None, _pod("p"))
    rivals.allocated(_claim("p", bindingConditions=["ready"]))
    clock.at += 100
    assert rivals.seconds() == SHORTEST


def test_an_allocation_that_was_taken_back_says_nothing_either() -> None:
    rivals, clock = _rivals()
    rivals.pod_changed(None, _pod("p"))
    claimed = _claim("p")
    rivals.allocated(claimed)
    rivals.freed(claimed.users)
    clock.at += 100
    assert rivals.seconds() == SHORTEST


def test_an_allocation_of_long_ago_makes_no_rival() -> None:
    rivals, _ = _rivals()
    rivals.allocated(_claim("gone"), age=LATELY)
    assert rivals.seconds() == 0
    rivals.allocated(_claim("gone"), age=LATELY - 1)
    assert rivals.seconds() == SHORTEST


def test_a_fixed_time_holds_whatever_others_do() -> None:
    rivals, _ = _rivals(0.0)
    rivals.pod_changed(None, _pod("p"))
    assert rivals.seconds() == 0
