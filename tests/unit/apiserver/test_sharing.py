"""Copies that share what is the stored state's own."""

from __future__ import annotations

from typing import Any

from allotment.apiserver.local_client import copied

STORED: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"x": "y"}, "finalizers": ["f"]},
    "spec": {"list": [{"a": 1}]},
}


def test_untouched_parts_are_the_stored_ones() -> None:
    tree = {**STORED, "metadata": {**STORED["metadata"], "finalizers": []}}
    copy = copied(tree, STORED)
    assert copy == tree
    assert copy["spec"] is STORED["spec"]
    assert copy["metadata"]["labels"] is STORED["metadata"]["labels"]


def test_what_is_the_writers_own_is_copied() -> None:
    tree: dict[str, Any] = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"list": [{"a": 1}]}}
    copy = copied(tree, STORED)
    assert copy == tree
    tree["spec"]["list"][0]["a"] = 2
    tree["metadata"]["labels"]["x"] = "z"
    assert copy["spec"]["list"] == [{"a": 1}]
    assert copy["metadata"]["labels"] == {"x": "y"}


def test_without_a_stored_state_all_is_copied_as_json_would() -> None:
    tree = {"a": ("x", "y"), "b": {"c": None}}
    copy = copied(tree, None)
    assert copy == {"a": ["x", "y"], "b": {"c": None}}
    assert copy["b"] is not tree["b"]
