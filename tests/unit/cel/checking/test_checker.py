"""Static types and overloads of valid expressions, and upstream's error texts for invalid ones."""

from __future__ import annotations

import pytest

from allotment.cel.checking import types
from allotment.cel.checking.environment import Environment, declare_environment
from allotment.cel.errors import CompileError
from allotment.cel.selector import require_bool
from allotment.cel.syntax.ast import Call, Ident, walk
from tests.unit.cel.compiling import DYNAMIC, STORED, compiled

D = 'device.attributes["d"]'


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("1 < 2.0", "bool"),
        (f"{D}.x", "google.protobuf.Any"),
        (f"{D}.x == 1", "bool"),
        (f"[{D}.x]", "list(google.protobuf.Any)"),
        ('device.capacity["d"].m', "kubernetes.Quantity"),
        ("device.?driver", "optional_type(string)"),
        ('device.attributes[?"d"]', "optional_type(map(string, google.protobuf.Any))"),
        ('device.attributes[?"d"].?x.orValue(1)', "google.protobuf.Any"),
        ("[]", "list(dyn)"),
        ("{}", "map(dyn, dyn)"),
        ("[[], [1]]", "list(list(int))"),
        ("optional.none()", "optional_type(dyn)"),
        ("[optional.none(), optional.of(1)]", "list(optional_type(int))"),
        ("type(1)", "type(int)"),
        ("int", "type(int)"),
        ("net.IP", "type(net.IP)"),
        ("google.protobuf.Timestamp", "type(google.protobuf.Timestamp)"),
        ("timestamp(0) - timestamp(1)", "google.protobuf.Duration"),
        ("dyn(1) + 1", "int"),
        ("dyn(1) + dyn(2)", "dyn"),
        ("true ? null : duration('1s')", "null_type"),
        ("null + timestamp(0)", "google.protobuf.Timestamp"),
        ("{'a': 1}.transformMap(k, v, v + 1)", "map(string, int)"),
        ("[1, 2].map(x, string(x))", "list(string)"),
        ("cel.bind(x, [1], x.sortBy(y, -y))", "list(int)"),
        ("google.protobuf.Int64Value{value: 1}", "wrapper(int)"),
        ("[1].first()", "optional_type(int)"),
        ("[device].map(device, 1)", "list(int)"),
    ],
)
def test_output_types(source: str, output: str) -> None:
    assert str(compiled(source).output_type) == output


def test_attribute_values_are_dynamic_with_list_attributes() -> None:
    assert compiled(f"{D}.x", DYNAMIC).output_type is types.DYN
    assert compiled(f"{D}.x.exists(y, y == 1)", DYNAMIC).output_type is types.BOOL


@pytest.mark.parametrize(
    ("source", "column", "message"),
    [
        ("nope", 1, "undeclared reference to 'nope' (in container '')"),
        ("nope(1)", 5, "undeclared reference to 'nope' (in container '')"),
        ("a.b.c", 1, "undeclared reference to 'a' (in container '')"),
        ("device.nope", 7, "undefined field 'nope'"),
        ("has(device.nope)", 4, "undefined field 'nope'"),
        ("1.b", 2, "type 'int' does not support field selection"),
        ('quantity("1").b', 14, "unexpected failed resolution of 'kubernetes.Quantity'"),
        ('device["driver"]', 7, "found no matching overload for '_[_]' applied to '(kubernetes.DRADevice, string)'"),
        ('1 == "1"', 3, "found no matching overload for '_==_' applied to '(int, string)'"),
        ('"a".size(1)', 9, "found no matching overload for 'size' applied to 'string.(int)'"),
        (f"{D}.x < quantity('1')", 26, "found no matching overload for '_<_' applied to '(any, kubernetes.Quantity)'"),
        ("null + 1", 6, "found no matching overload for '_+_' applied to '(null, int)'"),
        ("timestamp(0) + 1", 14, "found no matching overload for '_+_' applied to '(timestamp, int)'"),
        ('quantity("1").sign()', 19, "found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'"),
        ("1 && true", 1, "expected type 'bool' but found 'int'"),
        ("!1", 1, "found no matching overload for '!_' applied to '(int)'"),
        (
            "1.all(x, true)", 1,
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            f"{D}.x.all(y, true)", 23,
            "expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("true ? 1 : 'a'", 6, "found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("[?1]", 3, "expected type 'optional_type(int)' but found 'int'"),
        ("int{}", 4, "'int' is not a message type"),
        ("device{}", 7, "'kubernetes.DRADevice' is not a type"),
        (
            'google.protobuf.Int64Value{value: "a"}', 33,
            "expected type of field 'value' is 'int' but provided type is 'string'",
        ),
        ("has(net.IP)", 5, "undeclared reference to 'net' (in container '')"),
        ("[1].sum(2)", 8, "found no matching overload for 'sum' applied to 'list(int).(int)'"),
        ("sets.contains([1], ['a'])", 14,
         "found no matching overload for 'sets.contains' applied to '(list(int), list(string))'"),
        ("optional.of(1).orValue('a')", 23,
         "found no matching overload for 'orValue' applied to 'optional_type(int).(string)'"),
    ],
)  # fmt: skip
def test_first_error(source: str, column: int, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(source)
    first = str(caught.value).split("\n")[0].removeprefix("compilation failed: ")
    assert first == f"ERROR: <input>:1:{column}: {message}"


def test_all_errors_are_ordered_by_position() -> None:
    with pytest.raises(CompileError) as caught:
        compiled("a == b && 1 + 'c'")
    assert str(caught.value) == (
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'a' (in container '')\n"
        " | a == b && 1 + 'c'\n"
        " | ^\n"
        "ERROR: <input>:1:6: undeclared reference to 'b' (in container '')\n"
        " | a == b && 1 + 'c'\n"
        " | .....^\n"
        "ERROR: <input>:1:13: found no matching overload for '_+_' applied to '(int, string)'\n"
        " | a == b && 1 + 'c'\n"
        " | ............^"
    )


@pytest.mark.parametrize(
    ("source", "overloads"),
    [
        ("1 + 2", ("add_int64",)),
        ("dyn(1) + 2", ("add_int64",)),
        ("dyn(1) < dyn(2)", 14),
        ("size([1])", ("size_list",)),
        ("[1].size()", ("list_size",)),
        (f"{D}.v.isGreaterThan({D}.w)", ("quantity_is_greater_than", "semver_is_greater_than")),
        ("device.?driver", ("select_optional_field",)),
        ("true && false", ("logical_and",)),
        ("ip('::1')", ("string_to_ip",)),
        ("cidr('::/0').ip()", ("cidr_ip",)),
        ("ip.isCanonical('::1')", ("ip_is_canonical",)),
    ],
)
def test_matching_overloads(source: str, overloads: tuple[str, ...] | int) -> None:
    checked = compiled(source)
    found = checked.overloads[checked.expr.id]
    assert found == overloads if isinstance(overloads, tuple) else len(found) == overloads


def test_resolved_names_replace_nodes_of_the_tree() -> None:
    checked = compiled(".device.driver == 'x' && type(ip('::1')) == net.IP && sets.contains([1], [1])")
    nodes = list(walk(checked.expr))
    assert "device" in {n.name for n in nodes if isinstance(n, Ident)}
    assert checked.type_names == {n.id: "net.IP" for n in nodes if isinstance(n, Ident) and n.name == "net.IP"}
    assert ("sets.contains", None) in {(n.function, n.target) for n in nodes if isinstance(n, Call)}
    assert {n.id for n in nodes} <= checked.types.keys()


def test_every_call_of_a_checked_tree_has_overloads() -> None:
    checked = compiled("[1, 2].map(x, x + 1).exists(y, y in {1: 2} && -y < 2) && has(device.driver)")
    assert {n.id for n in walk(checked.expr) if isinstance(n, Call)} == checked.overloads.keys()


def test_cached_call_results_are_separate_for_each_environment() -> None:
    old, new = declare_environment("1.34", "new", True, False), STORED
    assert str(compiled("[1].slice(0, 1)", new).output_type) == "list(int)"
    with pytest.raises(CompileError, match="undeclared reference to 'slice'"):
        compiled("[1].slice(0, 1)", old)
    assert str(compiled("[1].slice(0, 1)", new).output_type) == "list(int)"


def test_fresh_parameters_are_numbered_as_upstream_numbers_them() -> None:
    """Error texts contain them; the number must not depend on expressions compiled before."""
    for _ in range(3):
        with pytest.raises(CompileError, match=r"expected type 'bool' but found 'list\(_var5\)'"):
            compiled("size([]) == 0 && []")


def test_exponentially_growing_types_are_rejected() -> None:
    doubling = "cel.bind(a0, {}, " + "".join(f"cel.bind(a{i}, {{a{i - 1}: a{i - 1}}}, " for i in range(1, 60))
    with pytest.raises(CompileError, match="expression has a type that is too large"):
        compiled(doubling + "true" + ")" * 60)


@pytest.mark.parametrize(
    ("source", "environment", "text"),
    [
        ("device.driver", STORED, "must evaluate to bool or the unknown type, not string"),
        ("dyn(true)", STORED, "must evaluate to bool or the unknown type, not dyn"),
        ("[1]", DYNAMIC, "must evaluate to bool or the unknown type, not list(int)"),
        ("type(true)", STORED, "must evaluate to bool or the unknown type, not type(bool)"),
        ("duration('1s')", STORED, "must evaluate to bool or the unknown type, not google.protobuf.Duration"),
    ],
)
def test_selectors_reject_non_bool_expressions(source: str, environment: Environment, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        require_bool(compiled(source, environment))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("source", "environment"), [("true", STORED), (f"{D}.x", STORED), (f"{D}.x", DYNAMIC), ("dyn(true)", DYNAMIC)]
)
def test_selectors_accept_bool_and_unknown_types(source: str, environment: Environment) -> None:
    require_bool(compiled(source, environment))


def test_names_are_resolved_in_the_namespace_first() -> None:
    environment = STORED.extended({"com.example.y": types.INT, "y": types.STRING}, container="com.example")
    assert compiled("y", environment).output_type is types.INT
    assert compiled(".y", environment).output_type is types.STRING
    with pytest.raises(CompileError, match=r"undeclared reference to 'z' \(in container 'com.example'\)"):
        compiled("z", environment)
