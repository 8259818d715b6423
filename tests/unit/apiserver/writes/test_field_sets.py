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


def made(paths: Paths) -> Fields:
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
def test_a_set_lists_what_it_was_made_of(paths: Paths) -> None:
    assert listed(made(paths)) == paths
    assert all(field_sets.has(made(paths), path) for path in paths)


@given(PATHS, PATHS)
def test_set_algebra(one: Paths, other: Paths) -> None:
    left, right = made(one), made(other)
    before = repr((left, right))
    if one and other:
        assert listed(field_sets.union(left, right)) == one | other
    if one:
        assert listed(field_sets.difference(left, right)) == one - other
        assert listed(field_sets.intersection(left, right)) == one & other
        below = {path for path in one if any(path[: len(root)] == root for root in other)}
        assert listed(field_sets.without_below(left, right) if other else left) == one - below
    assert repr((left, right)) == before


@given(PATHS, PATHS)
def test_every_set_has_one_spelling(one: Paths, other: Paths) -> None:
    if one:
        assert field_sets.difference(made(one), made(other)) == (made(one - other) or None)
        assert field_sets.intersection(made(one), made(other)) == (made(one & other) or None)
        assert field_sets.union(made(one), made(other or one)) == made(one | other)


def test_paths_read_as_refusals_print_them() -> None:
    path = ("f:spec", "f:ports", 'k:{"containerPort":80,"protocol":"TCP"}', "f:name")
    assert field_sets.path_text(path) == '.spec.ports[containerPort=80,protocol="TCP"].name'
    assert field_sets.path_text(("f:metadata", "f:finalizers", 'v:"a/b"')) == '.metadata.finalizers[="a/b"]'


def test_elements_are_ordered_by_value_not_by_spelling() -> None:
    fields = {'k:{"port":80}': MEMBER, ".": MEMBER, 'k:{"port":8}': MEMBER, 'k:{"port":443}': MEMBER}
    assert list(field_sets.in_order(fields)) == [".", 'k:{"port":8}', 'k:{"port":80}', 'k:{"port":443}']
