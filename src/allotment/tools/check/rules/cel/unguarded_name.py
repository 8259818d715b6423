"""C207: attributes or capacities read on devices that may not have them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Final

from allotment.cel.device import DeviceInput
from allotment.cel.evaluation.values import EvaluationError
from allotment.cel.selector import Selector
from allotment.cel.source_spans import TextSpan
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Node
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import STANDARD_DOMAIN
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.check.selectors.device_types import presence
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import DeviceAccess, Expression, parse_selector, parsed_selectors
from allotment.tools.check.selectors.reachability import (
    MissingAccess,
    categories_reaching,
    preceding_selectors,
    unguarded_accesses,
)
from allotment.tools.views import SelectorView

#: Fixes break longer lines.
_MAX_LINE_LENGTH: Final = 100
_AND: Final = " && "


def break_line(view: SelectorView, extent: TextSpan, text: str) -> str:
    """``text`` with a line break at its last ``&&`` if the line would become too long by inserting it at ``extent``."""
    document = view.document
    head, operator, tail = text.rpartition(_AND)
    if not operator:
        return text
    lines = document.origin.source.removeprefix("\ufeff").split("\n")
    opening = document.extent(view.path)[0]
    start, end = document.extent(view.path, part=extent)
    if max(start.line, end.line) > len(lines) or lines[opening.line - 1][opening.column - 1 : opening.column] != "|":
        return text
    remaining = len(lines[end.line - 1].rstrip()) - (end.column - 1)
    if start.column - 1 + len(text) + remaining <= _MAX_LINE_LENGTH:
        return text
    line = view.expression[view.expression.rfind("\n", 0, extent[0]) + 1 :]
    indentation = "\n" + line[: len(line) - len(line.lstrip(" "))]
    if "\n&&" in view.expression.replace(" ", ""):  # lines begin with the operator
        return f"{head}{indentation}{_AND.lstrip()}{tail}"
    return f"{head}{_AND.rstrip()}{indentation}{tail}"


def must_read(expr: Expression, node: Node, is_relevant: Callable[[DeviceAccess], bool], result: bool | None) -> bool:
    """Whether a node can only evaluate to ``result`` (None: to any value) by reading a relevant name."""
    names = {a.steps[1].node.id for a in expr.accesses if a.name and not a.is_optional and is_relevant(a)}
    return _must_read(node, names, result)


def _must_read(node: Node, names: Container[int], result: bool | None) -> bool:
    if node.id in names:
        return True
    if isinstance(node, Comprehension):
        return _must_read(node.iter_range, names, None)
    if not isinstance(node, Call):
        return any(_must_read(child, names, None) for child in ast.children(node))
    match node.function:
        case ast.AND | ast.OR if result is None:
            return _must_read(node, names, True) and _must_read(node, names, False)
        case ast.AND | ast.OR:
            operand_results = [_must_read(child, names, result) for child in node.args]
            # A single operand decides && or ||; the opposite result needs all operands.
            return all(operand_results) if result is (node.function == ast.OR) else any(operand_results)
        case ast.NOT:
            return _must_read(node.args[0], names, None if result is None else not result)
        case ast.CONDITIONAL:
            condition, *branches = node.args
            return all(
                _must_read(condition, names, value) or _must_read(branch, names, result)
                for value, branch in zip((True, False), branches, strict=True)
            )
        case "orValue" | "or" if node.target is not None:
            return _must_read(node.target, names, None)
    return any(_must_read(child, names, None) for child in ast.children(node))


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """The accesses that fail for a device that reaches them."""
    for view, expr in parsed_selectors(bundle):
        reported: set[tuple[str, str, str]] = set()
        for missing in unguarded_accesses(bundle, view):
            access = missing.access
            is_foreign = any(not category.driver for category in missing.categories)
            # For devices of other drivers, one report per domain is enough.
            key = (access.kind, access.domain, "" if is_foreign else access.name)
            if key in reported or not _is_on_some_device(bundle, view, access):
                continue
            reported.add(key)
            example = _example_device(bundle, view, access.name)
            level: Level | None = "error" if example else None
            message = f"{_subject(missing)}: one such device is enough to keep the pod pending"
            fix = _guard(view, expr, access, is_foreign)
            yield RuleMatch(view.document, view.path, message, help=example, fix=fix, level=level, span=access.extent)


def _subject(missing: MissingAccess) -> str:
    access = missing.access
    category = next((candidate for candidate in missing.categories if not candidate.driver), missing.categories[0])
    name = access.name if category.driver in ("", access.domain) else f"{access.domain}/{access.name}"
    noun = f"{'capacity' if access.kind == 'capacity' else 'attribute'} {name}"
    if not category.driver:
        return f"a device of another driver may be evaluated here and has no {noun}"
    if missing.is_sometimes:
        return f"not every {str(category).removeprefix('a ')} has {noun}"
    return f"{category} may be evaluated here and has no {noun}"


def _is_on_some_device(bundle: Bundle, view: SelectorView, access: DeviceAccess) -> bool:
    """Whether a device that reaches the access may have the name; otherwise another rule reports it."""
    return any(presence(access, category) != "never" for category in categories_reaching(bundle, view, access) or ())


# --- against slices ----------------------------------------------------------------------------------------------


def _example_device(bundle: Bundle, view: SelectorView, name: str) -> str:
    """A device of the given cluster that lacks the name, so that the expression fails for it, as a sentence; empty if
    there is none."""
    expr = parse_selector(bundle, view)
    preceding = preceding_selectors(bundle, view)
    if bundle.slices is None or expr.selector is None or preceding is None:
        return ""
    earlier = [resource_slice.selector for resource_slice in preceding if resource_slice.selector is not None]
    if len(earlier) < len(preceding):
        return ""
    for resource_slice in bundle.slices:
        for device in resource_slice.spec.devices or ():
            cel_input = DeviceInput(resource_slice.spec.driver, device)
            if _all_match(earlier, cel_input) and _is_missing(name, expr.selector, cel_input):
                pool = f"{resource_slice.spec.driver}/{resource_slice.spec.pool.name}"
                return f"an example in the cluster is device {pool}/{device.name}"
    return ""


def _all_match(earlier: list[Selector], cel_input: DeviceInput) -> bool:
    try:
        return all(selector.matches(cel_input) for selector in earlier)
    except EvaluationError:
        return False


def _is_missing(name: str, selector: Selector, cel_input: DeviceInput) -> bool:
    try:
        selector.matches(cel_input)
    except EvaluationError as error:
        return str(error).startswith(f"no such key: {name}")
    return False


# --- guards --------------------------------------------------------------------------------------------------------


def _guard(view: SelectorView, expr: Expression, access: DeviceAccess, is_foreign: bool) -> Fix | None:
    """The fix that inserts a condition to exclude devices without the name."""
    operand = _operand(expr, access)
    if operand is None or expr.located is None:
        return None
    root = expr.located.parsed.expr
    is_driver = access.domain != STANDARD_DOMAIN and must_read(
        expr, root, lambda access_in_expr: access_in_expr.domain == access.domain, True
    )
    if is_foreign and view.where == "class" and not expr.compared_drivers and is_driver:
        test = f'device.driver == "{access.domain}" && '
        start, stop = expr.outer(root)
        needs_parentheses = (
            isinstance(root, Call) and root.function in (ast.OR, ast.CONDITIONAL) and expr.extent(root)[0] == start
        )
        return _prepend(view, "first test the driver", test, start, stop if needs_parentheses else None)
    domain = expr.source[access.extent[0] : access.steps[0].extent[1]]
    start = expr.extent(operand)[0]
    return _prepend(view, f"first test whether the device has {access.name}", f'"{access.name}" in {domain} && ', start)


def _prepend(view: SelectorView, description: str, condition: str, start: int, stop: int | None = None) -> Fix:
    """The fix that inserts a condition at ``start`` and, if ``stop`` is given, parentheses up to there."""
    text = break_line(view, (start, start), condition if stop is None else f"{condition}(")
    edits = [replace_extent(view, (start, start), text)]
    if stop is not None:
        edits.append(replace_extent(view, (stop, stop), ")"))
    return Fix(description, tuple((view.document, edit) for edit in edits), safe=True)


def _operand(expr: Expression, access: DeviceAccess) -> Node | None:
    """The smallest condition around an access that a guard can precede: an operand of logic, or the whole expression.

    A negation counts as such a condition if it cannot be true without the name: then a device without the name is not
    selected in any case.
    """

    def reads_same_name(other: DeviceAccess) -> bool:
        return (other.kind, other.domain, other.name) == (access.kind, access.domain, access.name)

    node: Node | None = None if expr.located is None else expr.located.parsed.expr
    while isinstance(node, Call) and node.function in (ast.AND, ast.OR, ast.CONDITIONAL, ast.NOT):
        if node.function == ast.NOT and must_read(expr, node, reads_same_name, True):
            return node
        inside = next((arg for arg in node.args if _contains(expr, arg, access)), None)
        if inside is None:
            return None
        node = inside
    return node


def _contains(expr: Expression, node: Node, access: DeviceAccess) -> bool:
    start, stop = expr.outer(node)
    return start <= access.extent[0] < access.extent[1] <= stop


RULE = Rule(
    code="C207",
    name="unguarded-name",
    family="cel",
    level="warning",
    summary="an attribute or capacity is read from devices that may not have it",
    why=(
        "Reading a name that a device does not have is an error, not false. The scheduler aborts the attempt to "
        "schedule the pod and retries indefinitely, although other devices would fit. A single device of another "
        "driver or type, on any node that the scheduler examines, is enough. A guard excludes such devices: either "
        "device.driver == ..., or a test whether the domain contains the name. In CEL, false && error is false, in "
        "either order."
    ),
    bad=examples.device_class("ampere", 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    good=examples.device_class(
        "ampere", 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].architecture == "Ampere"'
    ),
    find=_find,
    fixable="safe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
