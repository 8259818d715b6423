"""Accesses, comparisons and drivers of parsed expressions, with their extents."""

from __future__ import annotations

from allotment.cel.checking.environment import environment
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver
from allotment.tools.check.selectors.edits import rename_step
from allotment.tools.check.selectors.expressions import DeviceAccess, Expression, parse_selector
from tests.unit.tools.check.bundles import bundle_of


def _parse(source: str) -> Expression:
    return Expression(source, environment(Features(kube="1.36"), "new"))


def _describe(expr: Expression, access: DeviceAccess) -> tuple[str, str, str, str]:
    def text(extent: tuple[int, int]) -> str:
        return expr.source[slice(*extent)]

    return access.kind, ".".join(s.key for s in access.steps), text(access.extent), text(access.name_extent)


def test_accesses_in_every_notation() -> None:
    expr = _parse(
        'device.attributes["d.io"].model == "x" && device.capacity.dom["memory"] == quantity("1Gi")'
        ' && has(device.attributes["d.io"] . uuid) && "id" in device.attributes["d.io"]'
        ' && device.attributes["d.io"].?a.orValue(1) == 2 && device.attributes["model"].string == "x"'
        ' && device.attributes["e"][?"x"].hasValue() && device.attributes["f"].g.string == ""'
    )
    assert [_describe(expr, access) for access in expr.accesses] == [
        ("attributes", "d.io.model", 'device.attributes["d.io"].model', "model"),
        ("capacity", "dom.memory", 'device.capacity.dom["memory"]', '"memory"'),
        ("attributes", "d.io.uuid", 'has(device.attributes["d.io"] . uuid)', "uuid"),
        ("attributes", "d.io.id", '"id" in device.attributes["d.io"]', '"id"'),
        ("attributes", "d.io.a", 'device.attributes["d.io"].?a', "a"),
        ("attributes", "model.string", 'device.attributes["model"].string', "string"),
        ("attributes", "e.x", 'device.attributes["e"][?"x"]', '"x"'),
        ("attributes", "f.g.string", 'device.attributes["f"].g.string', "g"),
    ]  # fmt: skip
    assert [access.is_optional for access in expr.accesses] == [False, False, True, True, True, False, True, False]
    step = expr.accesses[0].steps[0]
    assert (expr.source[slice(*step.extent)], expr.source[slice(*step.key_extent)]) == ('["d.io"]', '"d.io"')


def test_accesses_without_type_check() -> None:
    expr = _parse('device.capacity["d"].memory >= quantity("40Gi") && nonsense')
    assert expr.error is not None
    assert expr.selector is None
    assert [access.name for access in expr.accesses] == ["memory"]
    assert [expr.source[expr.offset(issue)] for issue in expr.error.issues] == [">", "n"]


def test_unparsable_expression_has_no_accesses() -> None:
    expr = _parse('device.driver = "x"')
    assert expr.error is not None
    assert (expr.located, expr.accesses, expr.comparisons, expr.conjuncts, expr.compared_drivers) == (
        None,
        (),
        (),
        (),
        (),
    )


def test_computed_key_ends_an_access() -> None:
    expr = _parse('device.attributes[device.attributes["d"].name].x == device.driver')
    assert [_describe(expr, access)[1:3] for access in expr.accesses] == [
        ("", "device.attributes"), ("d.name", 'device.attributes["d"].name')
    ]  # fmt: skip


def test_loop_variable_shadows_device() -> None:
    assert [a.extent for a in _parse('device.attributes.exists(device, device == "x")').accesses] == [(0, 17)]
    assert _parse("[1].all(k, true)").accesses == ()


def test_comparisons_in_every_notation() -> None:
    expr = _parse(
        'device.capacity["d"].memory.compareTo(quantity("40Gi")) >= 0 || "x" == device.attributes["d"].a'
        ' || device.attributes["d"].v.isGreaterThan(semver("1.2.3")) || device.attributes["d"].m in ["p", "q"]'
        ' || device.capacity["d"].memory > quantity("1Gi") || !(device.attributes["d"].a != "y")'
    )
    comparisons = [
        (
            c.access.name,
            c.operator,
            *((literal.value, expr.source[slice(*literal.text_extent)]) for literal in c.literals),
        )
        for c in expr.comparisons
    ]
    assert comparisons == [
        ("memory", ">=", (Quantity.parse("40Gi"), '"40Gi"')),
        ("a", "==", ("x", '"x"')),
        ("v", ">", (Semver.parse("1.2.3"), '"1.2.3"')),
        ("m", "in", ("p", '"p"'), ("q", '"q"')),
        ("memory", ">", (Quantity.parse("1Gi"), '"1Gi"')),
        ("a", "!=", ("y", '"y"')),
    ]
    assert expr.source[slice(*expr.comparisons[0].literals[0].extent)] == 'quantity("40Gi")'


def test_compared_drivers() -> None:
    expr = _parse('device.driver == "a" || "b" == device.driver || device.driver in ["c", "d"] || device.driver != "e"')
    assert [name for name, _ in expr.compared_drivers] == ["a", "b", "c", "d", "e"]
    assert [expr.source[slice(*extent)] for _, extent in expr.compared_drivers] == ['"a"', '"b"', '"c"', '"d"', '"e"']


def test_renamed_step_keeps_its_notation() -> None:
    bundle = bundle_of(
        "selectors:\n- cel:\n    expression: device.attributes['d'].model == device.attributes.d[\"model\"]\n"
    )
    (view,) = bundle.selectors
    expr = parse_selector(bundle, view)
    assert parse_selector(bundle, view) is expr
    first, second = expr.accesses

    def edited(access: DeviceAccess, number: int, name: str) -> str:
        edit = rename_step(view, access.steps[number], name)
        return expr.source[: edit.start] + edit.text + expr.source[edit.stop :]

    assert edited(first, 1, "productName") == "device.attributes['d'].productName == device.attributes.d[\"model\"]"
    assert edited(first, 0, "e.io") == "device.attributes['e.io'].model == device.attributes.d[\"model\"]"
    assert edited(second, 0, "e.io") == 'device.attributes[\'d\'].model == device.attributes["e.io"]["model"]'
    assert edited(second, 1, "x") == "device.attributes['d'].model == device.attributes.d[\"x\"]"
