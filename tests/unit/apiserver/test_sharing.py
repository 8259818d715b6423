"""Copies that share unchanged parts with the stored object."""

from __future__ import annotations

from typing import Any

from allotment.apiserver.local_client import copy_unshared

STORED: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"x": "y"}, "finalizers": ["f"]},
    "spec": {"list": [{"a": 1}]},
}


def test_unchanged_parts_are_shared() -> None:
    tree = {**STORED, "metadata": {**STORED["metadata"], "finalizers": []}}
    copy = copy_unshared(tree, STORED)
    assert copy == tree
    assert copy["spec"] is STORED["spec"]
    assert copy["metadata"]["labels"] is STORED["metadata"]["labels"]


def test_the_writers_own_parts_are_copied() -> None:
    tree: dict[str, Any] = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"list": [{"a": 1}]}}
    copy = copy_unshared(tree, STORED)
    assert copy == tree
    tree["spec"]["list"][0]["a"] = 2
    tree["metadata"]["labels"]["x"] = "z"
    assert copy["spec"]["list"] == [{"a": 1}]
    assert copy["metadata"]["labels"] == {"x": "y"}


def test_without_a_stored_object_everything_is_copied() -> None:
    tree = {"a": ("x", "y"), "b": {"c": None}}
    copy = copy_unshared(tree, None)
    assert copy == {"a": ["x", "y"], "b": {"c": None}}
    assert copy["b"] is not tree["b"]
