"""Sets of fields against plain sets of paths."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.writes import field_sets
from allotment.apiserver.writes.field_sets import MEMBER, Fields

Path = tuple[str, ...]
Paths = frozenset[Path]

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
PATHS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=8)


def field_set(paths: Paths) -> Fields:
    """The set by its definition, one path after the other."""
    root: dict[str, Any] = {}
    for path in paths:
        here = root
        for element in path:
            here = here.setdefault(element, {})
        here["."] = MEMBER

    def plain(fields: Fields) -> Fields:
        if fields == {".": MEMBER}:
            return MEMBER
        return {element: MEMBER if element == "." else plain(below) for element, below in fields.items()}

    return plain(root)


def listed(fields: Fields | None) -> Paths:
    return frozenset(field_sets.paths(fields)) if fields else frozenset()


@given(PATHS)
def test_paths_lists_the_elements_of_a_set(paths: Paths) -> None:
    assert listed(field_set(paths)) == paths
    assert all(field_sets.contains(field_set(paths), path) for path in paths)


@given(PATHS, PATHS)
def test_set_algebra(first: Paths, second: Paths) -> None:
    left, right = field_set(first), field_set(second)
    before = repr((left, right))
    if first and second:
        assert listed(field_sets.union(left, right)) == first | second
    if first:
        assert listed(field_sets.difference(left, right)) == first - second
        assert listed(field_sets.intersection(left, right)) == first & second
        below = {path for path in first if any(path[: len(root)] == root for root in second)}
        assert listed(field_sets.recursive_difference(left, right) if second else left) == first - below
    assert repr((left, right)) == before


@given(PATHS, PATHS)
def test_every_set_has_one_spelling(first: Paths, second: Paths) -> None:
    if first:
        assert field_sets.difference(field_set(first), field_set(second)) == (field_set(first - second) or None)
        assert field_sets.intersection(field_set(first), field_set(second)) == (field_set(first & second) or None)
        assert field_sets.union(field_set(first), field_set(second or first)) == field_set(first | second)


def test_path_text_is_as_in_error_messages() -> None:
    path = ("f:spec", "f:ports", 'k:{"containerPort":80,"protocol":"TCP"}', "f:name")
    assert field_sets.path_text(path) == '.spec.ports[containerPort=80,protocol="TCP"].name'
    assert field_sets.path_text(("f:metadata", "f:finalizers", 'v:"a/b"')) == '.metadata.finalizers[="a/b"]'


def test_elements_are_sorted_by_value_and_not_as_text() -> None:
    fields = {'k:{"port":80}': MEMBER, ".": MEMBER, 'k:{"port":8}': MEMBER, 'k:{"port":443}': MEMBER}
    assert list(field_sets.sort_fields(fields)) == [".", 'k:{"port":8}', 'k:{"port":80}', 'k:{"port":443}']
