"""Objects of a cluster as values: each is decoded once, and an undecodable one is omitted."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from allotment.cluster import typed_objects
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.typed_objects import Values, value_of
from allotment.model import trees
from allotment.model.core import Node, Pod
from allotment.model.meta import Object
from allotment.model.trees import Tree


def item(kind: str, name: str, revision: int = 1, **spec: Any) -> CachedItem[Any]:
    """A cached object."""
    metadata = {"name": name, "namespace": "ns", "uid": f"{kind}-{name}", "resourceVersion": str(revision)}
    return CachedItem({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec})


def names(values: list[Object]) -> list[str]:
    return [value.metadata.name for value in values]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the decoded objects, in order."""
    names: list[str] = []
    real = trees.read_value

    def noting(tree: Tree, type: type[Object]) -> Object:
        names.append(tree["metadata"]["name"])
        return real(tree, type)

    monkeypatch.setattr(typed_objects, "read_value", noting)
    return names


def test_unchanged_objects_are_not_decoded_again(read: list[str]) -> None:
    values = Values()
    first: list[tuple[CachedItem[Any], type[Object]]] = [(item("Pod", "a"), Pod), (item("Node", "n"), Node)]
    assert names(values.of(first)) == ["a", "n"]
    assert names(values.of(first)) == ["a", "n"]
    assert read == ["a", "n"]
    values.of([(item("Pod", "a", 2), Pod), first[1]])
    assert read == ["a", "n", "a"]


def test_unused_objects_are_forgotten(read: list[str]) -> None:
    values = Values()
    values.of([(item("Pod", "a"), Pod)])
    assert values.of([]) == []
    values.of([(item("Pod", "a"), Pod)])
    assert read == ["a", "a"]


def test_an_undecodable_object_is_omitted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    values = Values()
    seen = [(item("Pod", "odd", containers="none"), Pod), (item("Pod", "even"), Pod)]
    with caplog.at_level(logging.WARNING):
        assert names(values.of(seen)) == ["even"]
        assert names(values.of(seen)) == ["even"]
    (message,) = caplog.messages
    assert message.startswith("Pod ns/odd cannot be decoded and is ignored: ")
    assert value_of(item("Pod", "odd", containers="none"), Pod) is None


def test_trees_can_be_preprocessed() -> None:
    def elsewhere(tree: Tree) -> Tree:
        return {**tree, "spec": {"nodeName": "n"}}

    (pod,) = Values(elsewhere).of([(item("Pod", "a"), Pod)])
    assert isinstance(pod, Pod)
    assert pod.spec.node_name == "n"
