"""Declarations that depend on release, environment and feature gates."""

from __future__ import annotations

import pytest

from allotment.cel.checking import types
from allotment.cel.checking.declarations import parse_type
from allotment.cel.checking.environment import declare_environment, environment
from allotment.cel.errors import CompileError
from allotment.cel.selector import require_bool
from allotment.model.features import Features
from allotment.model.releases import RELEASES
from tests.unit.cel.compiling import compiled


def test_environments_are_interned() -> None:
    interned = environment(Features("1.36", {"DRADeviceTaints": False}), "new")
    assert interned is environment(Features("1.36"), "new")
    assert interned is not environment(Features("1.36"), "stored")


@pytest.mark.parametrize("kube", RELEASES)
@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("name", ["stored", "new"])
def test_includes_by_release_environment_and_gate(kube: str, gate: bool, name: str) -> None:
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
def test_attribute_types_by_release_environment_and_gate(kube: str, name: str, gate: bool, dynamic: bool) -> None:
    env = declare_environment(kube, name, True, gate)
    assert env.attribute_type is (types.DYN if dynamic else types.ANY)


@pytest.mark.parametrize(
    ("name", "gate", "is_declared"), [("stored", False, True), ("new", True, True), ("new", False, False)]
)
def test_consumable_capacity_adds_a_field(name: str, gate: bool, is_declared: bool) -> None:
    env = declare_environment("1.36", name, gate, False)
    if is_declared:
        assert compiled("device.allowMultipleAllocations", env).output_type is types.BOOL
    else:
        with pytest.raises(CompileError, match="undefined field 'allowMultipleAllocations'"):
            compiled("device.allowMultipleAllocations", env)


@pytest.mark.parametrize(
    ("kube", "name", "is_declared"), [("1.34", "new", False), ("1.34", "stored", True), ("1.35", "new", True)]
)
def test_lists_v3_are_available_to_new_expressions_one_release_later(kube: str, name: str, is_declared: bool) -> None:
    env = declare_environment(kube, name, True, False)
    assert ("lists.range" in env.functions) is is_declared
    assert (("sortBy", 2, True) in env.macros) is is_declared


def test_dynamic_results_require_list_attributes() -> None:
    with pytest.raises(CompileError):
        require_bool(compiled("dyn(true)", declare_environment("1.36", "new", True, False)))
    require_bool(compiled("dyn(true)", declare_environment("1.36", "new", True, True)))


def test_the_unknown_type_is_that_of_attributes_since_1_37() -> None:
    for gate in (False, True):
        attribute = compiled('device.attributes["d"].x', declare_environment("1.37", "new", True, gate))
        require_bool(attribute)
    require_bool(compiled("dyn(true)", declare_environment("1.37", "new", True, True)))
    with pytest.raises(CompileError, match="must evaluate to bool or the unknown type, not dyn"):
        require_bool(compiled("dyn(true)", declare_environment("1.37", "new", True, False)))


def test_a_number_is_no_duration_since_1_37() -> None:
    compiled("duration(size('a')) > duration('1s')", declare_environment("1.36", "stored", True, False))
    with pytest.raises(CompileError, match="found no matching overload for 'duration'"):
        compiled("duration(size('a')) > duration('1s')", declare_environment("1.37", "stored", True, False))


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("map(string, list(optional(K)))", "map(string, list(optional_type(<K>)))"),
        ("timestamp", "google.protobuf.Timestamp"),
        ("type(A)", "type(<A>)"),
    ],
)
def test_types_in_declaration_tables_are_parsed(text: str, spelled: str) -> None:
    assert str(parse_type(text)) == spelled


def test_overload_ids_are_unique_per_function_and_style() -> None:
    for function in declare_environment("1.36", "stored", True, True).functions.values():
        for overloads in (function.members, function.globals):
            ids = [o.id for o in overloads]
            assert len(ids) == len(set(ids)), function.name
