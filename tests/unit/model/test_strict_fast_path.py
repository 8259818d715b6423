"""The fast path accepts exactly the trees that strict decoding returns unchanged."""

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
    st.just({"name": "x"}), st.just(["x"]), st.just({"unknownField": 1}),
)  # fmt: skip


def positions_of(tree: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, dict | list):
            yield from positions_of(value)


def passes_strict_decoding(tree: dict[str, Any]) -> bool:
    """Whether strict decoding returns the tree unchanged and without violations."""
    shape = shape_of(tree["apiVersion"], tree["kind"])
    assert shape is not None
    decoder = strict_decoding._Decoder(tree["apiVersion"], tree["kind"], shape, True, "")
    return decoder.struct(shape, tree) is tree and not decoder.violations


def test_valid_tree_fits() -> None:
    for tree in (POD, SECRET):
        shape = shape_of(tree["apiVersion"], tree["kind"])
        assert shape is not None
        assert fits(tree, shape)
        assert passes_strict_decoding(tree)


@given(st.data())
def test_tree_fits_if_strict_decoding_returns_it_unchanged(data: st.DataObject) -> None:
    tree = copy.deepcopy(data.draw(st.sampled_from([POD, SECRET])))
    positions = [position for position in positions_of(tree) if position[1] not in ("kind", "apiVersion")]
    parent, key = data.draw(st.sampled_from(positions))
    parent[key] = data.draw(VALUES)
    shape = shape_of(tree["apiVersion"], tree["kind"])
    assert shape is not None
    if fits(tree, shape):
        assert passes_strict_decoding(tree)
    elif passes_strict_decoding(tree):
        # Only times can pass strict decoding and fail the fast path, if they are not in Go's canonical form.
        assert strict_decoding.strict_decode(tree, tree["apiVersion"], tree["kind"], shape).tree == tree


@given(st.data())
def test_result_is_the_same_with_a_previous_tree(data: st.DataObject) -> None:
    shape = shape_of("v1", "Pod")
    assert shape is not None
    tree: dict[str, Any] = {**POD, "metadata": {**POD["metadata"], "name": data.draw(VALUES)}}
    part = data.draw(st.sampled_from(["spec", "status", "metadata"]))
    if data.draw(st.booleans()):
        tree[part] = data.draw(VALUES)
    assert fits(tree, shape, POD) == fits(tree, shape)


def test_fields_missing_from_the_previous_tree_are_checked() -> None:
    shape = shape_of("v1", "Pod")
    assert shape is not None
    assert not fits({**POD, "unknownField": None}, shape, POD)
    assert not fits({**POD, "metadata": {**POD["metadata"], "annotations": None}}, shape, POD)
