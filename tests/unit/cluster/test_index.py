"""An index follows what it is told."""

from __future__ import annotations

from typing import Any

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.index import Index


def item(name: str, *labels: str, revision: int = 1) -> CachedItem[Any]:
    metadata = {"name": name, "labels": dict.fromkeys(labels, ""), "resourceVersion": str(revision)}
    return CachedItem({"metadata": metadata})


def test_an_index_takes_a_key_that_is_named_twice_and_lets_it_go() -> None:
    items: dict[tuple[str, str], CachedItem[Any]] = {}
    index = Index[Any](lambda item: (*item.labels, *item.labels), items)

    def change(name: str, new: CachedItem[Any] | None) -> None:
        old = items.pop(("", name), None)
        if new is not None:
            items[new.key] = new
        index.change(old, new)

    change("a", item("a", "x", "y"))
    change("b", item("b", "y"))
    assert sorted(found.name for found in index["y"]) == ["a", "b"]
    change("a", item("a", "y", revision=2))
    assert "x" not in index
    assert (index.count("x"), index.count("y")) == (0, 2)
    assert {found.revision for found in index["y"]} == {1, 2}  # what is there now, not what was
    change("a", item("a", revision=3))
    change("b", None)
    assert len(index) == 0
