"""Slices and their pools."""

from __future__ import annotations

from allotment.tools.check.rules.shape import refused, slice_without_pool
from tests.unit.tools.check.rules.shape.finding import matches_of, fixed_documents, levels_and_messages

RULE = slice_without_pool.RULE


def a_slice(name: str, spec: str) -> str:
    return f"---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


BARE = "driver: gpu.example.com, nodeName: worker-1, devices: [{name: gpu-0}]"


def test_the_pool_of_a_node_is_called_like_the_node() -> None:
    text = a_slice("a", BARE)
    (tree,) = fixed_documents(RULE, text)
    assert tree["spec"]["pool"] == {"name": "worker-1", "generation": 1, "resourceSliceCount": 1}
    assert levels_and_messages(refused.RULE, text) == []


def test_the_slices_of_a_node_make_one_pool() -> None:
    trees = fixed_documents(RULE, a_slice("a", BARE) + a_slice("b", BARE) + a_slice("c", BARE.replace("worker-1", "worker-2")))
    assert [tree["spec"]["pool"]["resourceSliceCount"] for tree in trees] == [2, 2, 1]


def test_what_a_pool_lacks_is_added() -> None:
    text = a_slice("a", f"{BARE}, pool: {{name: mine}}")
    assert fixed_documents(RULE, text)[0]["spec"]["pool"] == {"name": "mine", "resourceSliceCount": 1}
    assert levels_and_messages(RULE, text) == [("error", "a ResourceSlice is part of a pool, and pool.resourceSliceCount is missing")]
    assert levels_and_messages(refused.RULE, text) == []


def test_devices_of_no_single_node_have_no_pool_to_guess() -> None:
    (found,) = matches_of(RULE, a_slice("a", "driver: gpu.example.com, allNodes: true, devices: []"))
    assert found.fix is None
    assert found.help


def test_a_count_of_zero_is_the_api_servers_to_refuse() -> None:
    text = a_slice("a", f"{BARE}, pool: {{name: mine, resourceSliceCount: 0}}")
    assert levels_and_messages(RULE, text) == []
    assert len(levels_and_messages(refused.RULE, text)) == 1
