"""Strategic merge patches: lists by key, sets, directives, order, refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.writes.strategic_merge_patch import apply_strategic_merge_patch
from allotment.cluster.errors import StatusError
from allotment.model.fields import TypeShape, shape_of
from allotment.model.trees import Tree


def pod_shape() -> TypeShape:
    shape = shape_of("v1", "Pod")
    assert shape is not None
    return shape


def pod(*names: str) -> Tree:
    return {"spec": {"containers": [{"name": name, "image": f"i-{name}"} for name in names]}}


def patched(tree: Tree, spec: Tree) -> Tree:
    result: Tree = apply_strategic_merge_patch(tree, {"spec": spec}, pod_shape())["spec"]
    return result


def names_of(spec: Tree) -> list[str]:
    return [container["name"] for container in spec["containers"]]


def test_lists_of_maps_merge_by_their_key() -> None:
    spec = patched(pod("a", "b"), {"containers": [{"name": "b", "image": "new"}, {"name": "c", "image": "third"}]})
    assert spec["containers"] == [
        {"name": "a", "image": "i-a"},
        {"name": "b", "image": "new"},
        {"name": "c", "image": "third"},
    ]


def test_patched_items_are_in_the_order_of_the_patch() -> None:
    assert names_of(patched(pod("a", "b", "c"), {"containers": [{"name": "c"}, {"name": "a"}]})) == ["b", "c", "a"]


def test_set_element_order_is_applied() -> None:
    spec = patched(
        pod("a", "b"), {"$setElementOrder/containers": [{"name": "n"}, {"name": "a"}], "containers": [{"name": "n"}]}
    )
    assert names_of(spec) == ["n", "a", "b"]


def test_directives_delete_and_replace() -> None:
    assert names_of(patched(pod("a", "b"), {"containers": [{"name": "b", "$patch": "delete"}]})) == ["a"]
    assert names_of(patched(pod("a", "b"), {"containers": [{"name": "z"}, {"$patch": "replace"}]})) == ["z"]
    labelled = {"metadata": {"labels": {"a": "1"}}}
    patch = {"metadata": {"labels": {"$patch": "replace", "only": "me"}}}
    assert apply_strategic_merge_patch(labelled, patch, pod_shape()) == {"metadata": {"labels": {"only": "me"}}}


def test_members_of_scalar_sets_are_added_and_deleted() -> None:
    tree = {"metadata": {"finalizers": ["f/1"]}}
    tree = apply_strategic_merge_patch(tree, {"metadata": {"finalizers": ["f/2", "f/1"]}}, pod_shape())
    assert tree == {"metadata": {"finalizers": ["f/2", "f/1"]}}
    tree = apply_strategic_merge_patch(
        tree, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["f/1"]}}, pod_shape()
    )
    assert tree == {"metadata": {"finalizers": ["f/2"]}}


def test_retain_keys_removes_other_keys() -> None:
    shape = shape_of("apps/v1", "Deployment")
    tree = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert apply_strategic_merge_patch(tree, patch, shape) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_lists_without_a_strategy_are_replaced() -> None:
    tree = {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}
    assert patched(tree, {"tolerations": [{"key": "z"}]}) == {"tolerations": [{"key": "z"}]}


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"containers": [{"image": "x"}]}, 500, "map: map[image:x] does not contain declared merge key: name"),
        (
            {"containers": [{"name": "a", "$patch": "blend"}]},
            500,
            "unknown patch type: blend in map: map[$patch:blend name:a]",
        ),
        ({"$setElementOrder/containers": "a"}, 500, "expected a []interface {}, but received a string"),
        ({"$retainKeys": "a"}, 400, "invalid patch format of retainKeys"),
        ({"$retainKeys": ["a"], "nodeName": "n"}, 400, "invalid patch format of retainKeys"),
        ({"$deleteFromPrimitiveList": ["a"]}, 400, "invalid patch format of primitive list"),
        ({"containers": [{"name": "a"}, 1]}, 500, "list element types are not identical"),
        ({"containers": [["a"]]}, 500, "list element types are not identical"),
    ],
)
def test_errors_have_upstream_messages(patch: Tree, code: int, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        patched(pod("a"), patch)
    assert refused.value.code == code
    assert refused.value.status["message"].startswith(message)


def test_kinds_without_a_compiled_type_do_not_support_it() -> None:
    with pytest.raises(StatusError) as refused:
        apply_strategic_merge_patch({}, {}, None)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


NAMES = st.lists(st.sampled_from("abcdef"), unique=True)


@given(NAMES, NAMES)
def test_a_merge_has_every_item_exactly_once(live: list[str], wanted: list[str]) -> None:
    tree = pod(*live)
    before = repr(tree)
    spec = patched(tree, {"containers": [{"name": name, "image": "new"} for name in wanted]})
    merged = names_of(spec)
    assert sorted(merged) == sorted({*live, *wanted})
    assert [name for name in merged if name in wanted] == wanted
    assert [name for name in merged if name not in wanted] == [name for name in live if name not in wanted]
    assert all(container["image"] == "new" for container in spec["containers"] if container["name"] in wanted)
    assert repr(tree) == before
