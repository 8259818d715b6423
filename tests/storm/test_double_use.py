"""The detector of devices that are used twice distinguishes what the scheduler could have prevented."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.model.trees import Tree
from tests.storm.double_use import DoubleUseDetector

_Item = CachedItem[Tree]


class _Watched:
    """The part of a cache that the detector uses."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], _Item] = {}
        self.callback: Callable[[_Item | None, _Item | None], None]

    def on_change(self, callback: Callable[[_Item | None, _Item | None], None]) -> None:
        self.callback = callback

    def item(self, namespace: str, name: str) -> _Item | None:
        return self.items.get((namespace, name))

    def put(self, tree: Tree) -> None:
        new: _Item = CachedItem(tree)
        old = self.items.get(new.key)
        self.items[new.key] = new
        self.callback(old, new)


class _Events:
    """The events in a cluster, in this order."""

    def __init__(self) -> None:
        self._pods, self._claims = _Watched(), _Watched()
        self._revision = 0
        pods, claims = cast("Cache[Any]", self._pods), cast("Cache[Any]", self._claims)
        self.detector = DoubleUseDetector(pods, claims, "allotment-scheduler")

    def allocated(self, name: str) -> None:
        device = {"driver": "gpu.example.com", "pool": "n0", "device": "gpu-0"}
        users = [{"resource": "pods", "name": name, "uid": name}]
        status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": users}
        self._claims.put({"metadata": self._metadata(name), "status": status})

    def bound(self, name: str) -> None:
        spec = {"schedulerName": f"{name}-scheduler", "nodeName": "n0"}
        self._pods.put({"metadata": self._metadata(name), "spec": spec})

    def _metadata(self, name: str) -> Tree:
        self._revision += 1
        return {"namespace": "ml", "name": name, "uid": name, "resourceVersion": str(self._revision)}


def test_a_device_that_was_allocated_to_another_claim_before_the_binding_could_have_been_seen() -> None:
    events = _Events()
    events.allocated("allotment")
    events.allocated("default")
    assert events.detector.double_allocations
    events.bound("default")
    assert events.detector.preventable == []
    events.bound("allotment")
    assert len(events.detector.preventable) == 1
    assert events.detector.too_late == []


def test_a_device_that_is_allocated_to_another_claim_after_the_binding_is_too_late_to_prevent() -> None:
    events = _Events()
    events.allocated("allotment")
    events.bound("allotment")
    events.allocated("default")
    events.bound("default")
    assert events.detector.preventable == []
    assert len(events.detector.too_late) == 1


def test_a_device_of_a_bound_pod_that_allotments_scheduler_allocates_again_could_have_been_seen() -> None:
    events = _Events()
    events.allocated("default")
    events.bound("default")
    events.allocated("allotment")
    events.bound("allotment")
    assert len(events.detector.preventable) == 1
    assert events.detector.too_late == []
