"""What each release, environment and gate declares."""

from __future__ import annotations

import pytest

from allotment.cel.checking import types
from allotment.cel.checking.declarations import parse_type
from allotment.cel.checking.environment import declare_environment, environment
from allotment.cel.errors import CompileError
from allotment.cel.selector import require_bool
from allotment.model.features import RELEASES, Features
from tests.unit.cel.compiling import compiled


def test_environments_are_interned() -> None:
    one = environment(Features("1.36", {"DRADeviceTaints": False}), "new")
    assert one is environment(Features("1.36"), "new")
    assert one is not environment(Features("1.36"), "stored")


@pytest.mark.parametrize("kube", RELEASES)
@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("name", ["stored", "new"])
def test_includes(kube: str, gate: bool, name: str) -> None:
    env = declare_environment(kube, name, True, gate)
    declared = kube in ("1.36", "1.37") and (name == "stored" or gate)
    assert ("includes" in env.functions) is declared


@pytest.mark.parametrize(
    ("kube", "name", "gate", "dynamic"),
    [
        ("1.35", "stored", True, False),
        ("1.36", "stored", False, False),
        ("1.36", "stored", True, True),
        ("1.36", "new", True, True),
        ("1.37", "stored", False, True),
        ("1.37", "new", False, False),
        ("1.37", "new", True, True),
    ],
)
def test_attribute_types(kube: str, name: str, gate: bool, dynamic: bool) -> None:
    env = declare_environment(kube, name, True, gate)
    assert env.attribute_type is (types.DYN if dynamic else types.ANY)


@pytest.mark.parametrize(
    ("name", "gate", "known"), [("stored", False, True), ("new", True, True), ("new", False, False)]
)
def test_consumable_capacity_adds_a_field(name: str, gate: bool, known: bool) -> None:
    env = declare_environment("1.36", name, gate, False)
    if known:
        assert compiled("device.allowMultipleAllocations", env).output_type is types.BOOL
    else:
        with pytest.raises(CompileError, match="undefined field 'allowMultipleAllocations'"):
            compiled("device.allowMultipleAllocations", env)


@pytest.mark.parametrize(
    ("kube", "name", "known"), [("1.34", "new", False), ("1.34", "stored", True), ("1.35", "new", True)]
)
def test_lists_v3_reach_new_expressions_one_release_late(kube: str, name: str, known: bool) -> None:
    env = declare_environment(kube, name, True, False)
    assert ("lists.range" in env.functions) is known
    assert (("sortBy", 2, True) in env.macros) is known


def test_a_dynamic_result_needs_list_attributes() -> None:
    with pytest.raises(CompileError):
        require_bool(compiled("dyn(true)", declare_environment("1.36", "new", True, False)))
    require_bool(compiled("dyn(true)", declare_environment("1.36", "new", True, True)))


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("map(string, list(optional(K)))", "map(string, list(optional_type(<K>)))"),
        ("timestamp", "google.protobuf.Timestamp"),
        ("type(A)", "type(<A>)"),
    ],
)
def test_types_in_the_tables(text: str, spelled: str) -> None:
    assert str(parse_type(text)) == spelled


def test_overload_ids_are_unique_per_function_and_style() -> None:
    for function in declare_environment("1.36", "stored", True, True).functions.values():
        for overloads in (function.members, function.globals):
            ids = [o.id for o in overloads]
            assert len(ids) == len(set(ids)), function.name
