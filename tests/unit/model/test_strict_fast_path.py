"""What fits is what strict decoding leaves alone, whatever stands where in a tree."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allotment.model import strict_decoding
from allotment.model.fields import shape_of
from allotment.model.strict_fast_path import fits

POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "web", "labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1,
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "containers": [
            {
                "name": "c", "command": ["sleep", "1"], "tty": True, "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "livenessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 3},
            }
        ],
        "tolerations": [{"key": "a", "tolerationSeconds": 300}],
        "terminationGracePeriodSeconds": 30,
    },
    "status": {},
}  # fmt: skip
SECRET: dict[str, Any] = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"a": "YQ=="}}

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.just({}), st.just([]),
    st.sampled_from(["", "x", "1Gi", " 1Gi", "1Q", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "YQ==", "YQ=="]),
    st.just({"name": "x"}), st.just(["x"]), st.just({"unheardOf": 1}),
)  # fmt: skip


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, dict | list):
            yield from places(value)


def judged(tree: dict[str, Any]) -> bool:
    """By the long way."""
    shape = shape_of(tree["apiVersion"], tree["kind"])
    assert shape is not None
    walk = strict_decoding._Walk(tree["apiVersion"], tree["kind"], shape, True)
    return walk.struct(shape, tree) is tree and not walk.misfits


def test_a_right_tree_fits() -> None:
    for tree in (POD, SECRET):
        shape = shape_of(tree["apiVersion"], tree["kind"])
        assert shape is not None
        assert fits(tree, shape)
        assert judged(tree)


@given(st.data())
def test_what_fits_is_what_strict_decoding_leaves_alone(data: st.DataObject) -> None:
    tree = copy.deepcopy(data.draw(st.sampled_from([POD, SECRET])))
    spots = [spot for spot in places(tree) if spot[1] not in ("kind", "apiVersion")]
    inside, key = data.draw(st.sampled_from(spots))
    inside[key] = data.draw(VALUES)
    shape = shape_of(tree["apiVersion"], tree["kind"])
    assert shape is not None
    if fits(tree, shape):
        assert judged(tree)
    elif judged(tree):
        # Only a time may be judged right and not be the text that it was: the same in Go's form.
        assert strict_decoding.strict_decode(tree, tree["apiVersion"], tree["kind"], shape).tree == tree


@given(st.data())
def test_parts_that_are_known_need_no_second_look(data: st.DataObject) -> None:
    shape = shape_of("v1", "Pod")
    assert shape is not None
    tree: dict[str, Any] = {**POD, "metadata": {**POD["metadata"], "name": data.draw(VALUES)}}
    part = data.draw(st.sampled_from(["spec", "status", "metadata"]))
    if data.draw(st.booleans()):
        tree[part] = data.draw(VALUES)
    assert fits(tree, shape, POD) == fits(tree, shape)


def test_what_is_absent_in_the_known_tree_is_looked_at() -> None:
    shape = shape_of("v1", "Pod")
    assert shape is not None
    assert not fits({**POD, "unheardOf": None}, shape, POD)
    assert not fits({**POD, "metadata": {**POD["metadata"], "annotations": None}}, shape, POD)
