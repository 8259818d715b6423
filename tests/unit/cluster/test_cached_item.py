"""An object as caches have it."""

from __future__ import annotations

from allotment.cluster.cached_item import CachedItem
from allotment.model.core import Pod


def test_lists_that_kubernetes_prints_as_null_are_read_as_empty() -> None:
    item = CachedItem({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"containers": None}}, Pod)
    assert item.value.spec.containers == ()
