"""S111: slices without a pool."""

from __future__ import annotations

from allotment.tools.check.rules.shape import refused, slice_without_pool
from tests.unit.tools.check.rules.shape.rule_results import fixed_documents, levels_and_messages, matches_of

RULE = slice_without_pool.RULE


def a_slice(name: str, spec: str) -> str:
    return f"---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


BARE = "driver: gpu.example.com, nodeName: worker-1, devices: [{name: gpu-0}]"


def test_pool_is_named_after_the_node() -> None:
    text = a_slice("a", BARE)
    (tree,) = fixed_documents(RULE, text)
    assert tree["spec"]["pool"] == {"name": "worker-1", "generation": 1, "resourceSliceCount": 1}
    assert levels_and_messages(refused.RULE, text) == []


def test_slices_of_a_node_are_one_pool() -> None:
    trees = fixed_documents(
        RULE, a_slice("a", BARE) + a_slice("b", BARE) + a_slice("c", BARE.replace("worker-1", "worker-2"))
    )
    assert [tree["spec"]["pool"]["resourceSliceCount"] for tree in trees] == [2, 2, 1]


def test_missing_pool_fields_are_added() -> None:
    text = a_slice("a", f"{BARE}, pool: {{name: mine}}")
    assert fixed_documents(RULE, text)[0]["spec"]["pool"] == {"name": "mine", "resourceSliceCount": 1}
    assert levels_and_messages(RULE, text) == [
        ("error", "a ResourceSlice belongs to a pool, but this one has no pool.resourceSliceCount")
    ]
    assert levels_and_messages(refused.RULE, text) == []


def test_no_fix_without_a_node() -> None:
    (match,) = matches_of(RULE, a_slice("a", "driver: gpu.example.com, allNodes: true, devices: []"))
    assert match.fix is None
    assert match.help


def test_zero_count_is_left_to_the_api_server() -> None:
    text = a_slice("a", f"{BARE}, pool: {{name: mine, resourceSliceCount: 0}}")
    assert levels_and_messages(RULE, text) == []
    assert len(levels_and_messages(refused.RULE, text)) == 1
