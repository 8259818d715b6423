"""C203: versions compared with strings or numbers."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.ordering_operators import ORDERINGS, method_ordering
from allotment.cel.quantity_comparisons import EQUALITIES, METHODS, RELATIONS
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, ListExpr, Node
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import compare_by_method, receiver, replacement_fix, source_text
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.check.selectors.operands import normalized_version, operand_kind
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Comparisons of versions with values that are not versions."""
    for node in expr.nodes:
        if not isinstance(node, Call):
            continue
        if node.function in RELATIONS:
            yield from _check_relation(bundle, view, expr, node)
        elif node.function == ast.IN and isinstance(node.args[1], ListExpr):
            if operand_kind(bundle, expr, node.args[0]) == "version":
                yield from _check_literals(view, expr, node, [e for e in node.args[1].elements if isinstance(e, Const)])
        elif node.function in METHODS and node.target is not None and len(node.args) == 1:
            if operand_kind(bundle, expr, node.target) == "version" and isinstance(node.args[0], Const):
                yield from _check_literals(view, expr, node, [node.args[0]])


def _check_relation(bundle: Bundle, view: SelectorView, expr: Expression, node: Call) -> Iterator[RuleMatch]:
    left, right = node.args
    kinds = [operand_kind(bundle, expr, arg) for arg in node.args]
    operator = RELATIONS[node.function]
    if "version" not in kinds:
        return
    literal = next((arg for arg in node.args if isinstance(arg, Const)), None)
    if literal is None:
        if node.function in ORDERINGS and set(kinds) <= {"version", "value"}:
            message = f"versions cannot be compared with {operator}: evaluation fails"
            text = compare_by_method(expr, left, operator, right)
            ordered = replacement_fix(view, "compare with compareTo", expr.extent(node), text, safe=True)
            yield RuleMatch(view.document, view.path, message, fix=ordered, span=expr.extent(node))
        return
    if not {"string", "number"} & set(kinds):
        return
    version = _semver(expr, literal)
    fix: Fix | None = None
    if version:
        texts = [version if arg is literal else source_text(expr, arg) for arg in node.args]
        if node.function in EQUALITIES:
            text = f"{texts[0]} {operator} {texts[1]}"
        else:
            receiver_text = texts[0] if left is literal else receiver(expr, left)
            text = method_ordering(receiver_text, operator, texts[1])
        # Equality with 8 may mean any version from 8.0 up to 9.
        written = str(literal.value) if isinstance(literal.value, str) else source_text(expr, literal)
        is_exact = node.function in ORDERINGS or "." in written
        fix = replacement_fix(view, f"compare with {version}", expr.extent(node), text, safe=is_exact)
    yield RuleMatch(view.document, view.path, _message(bundle, expr, node, literal), help=_help(version), fix=fix,
                span=expr.extent(node))  # fmt: skip


def _check_literals(view: SelectorView, expr: Expression, node: Call, literals: list[Const]) -> Iterator[RuleMatch]:
    """Literals in place of versions; one edit corrects them all."""
    if not literals or any(literal.kind not in ("string", "int", "double") for literal in literals):
        return
    start, stop = expr.extent(literals[0])[0], expr.extent(literals[-1])[1]
    text, position = "", start
    for literal in literals:
        version = _semver(expr, literal)
        if not version:
            text = ""
            break
        extent = expr.extent(literal)
        text += expr.source[position : extent[0]] + version
        position = extent[1]
    fix: Fix | None = replacement_fix(view, "compare with versions", (start, stop), text, safe=True) if text else None
    name = next((a.name for a in expr.accesses if expr.extent(node)[0] <= a.extent[0] < start), "this")
    verb = "is" if len(literals) == 1 else "are"
    message = f"{name} is a version, but {expr.source[start:stop]} {verb} not: use semver()"
    yield RuleMatch(view.document, view.path, message, help=_help(text), fix=fix, span=expr.extent(node))


def _message(bundle: Bundle, expr: Expression, node: Call, literal: Node) -> str:
    value = next(arg for arg in node.args if arg is not literal)
    literal_type = "a string" if operand_kind(bundle, expr, literal) == "string" else "a number"
    name = next((a.name for a in expr.accesses if a.node.id == value.id), "this")
    return f"{name} is a version: comparing it with {literal_type} fails for every device that has it"


def _semver(expr: Expression, literal: Const) -> str:
    written = literal.value if isinstance(literal.value, str) else source_text(expr, literal)
    version = normalized_version(written)
    return f'semver("{version}")' if version else ""


def _help(version: str) -> str:
    return "" if version else 'write the version with three numbers, as in semver("8.0.0"), or test .major() == 8'


RULE = Rule(
    code="C203",
    name="version-as-text",
    family="cel",
    level="error",
    summary="a version is compared with a string or a number",
    why=(
        "In CEL, an attribute of type version is a semantic version, not a string. Comparing it with a string using "
        '== or >=, or passing a string to isGreaterThan, fails with "no such overload" at evaluation. Such an error '
        "aborts the attempt to schedule the pod, and the scheduler retries indefinitely. If versions were compared as "
        'strings, their order would also be wrong: "10.0" is less than "9.0".'
    ),
    bad=examples.claim("ampere", selector='device.attributes["gpu.nvidia.com"].cudaComputeCapability >= "8.0"'),
    good=examples.claim(
        "ampere", selector='device.attributes["gpu.nvidia.com"].cudaComputeCapability.compareTo(semver("8.0.0")) >= 0'
    ),
    find=for_each_selector(of_selector),
    fixable="safe or unsafe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-semver-library",
)
