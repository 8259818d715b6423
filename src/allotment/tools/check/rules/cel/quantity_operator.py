"""C202: quantities compared or added with operators, which CEL does not define for them."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.ordering_operators import ORDERINGS
from allotment.cel.quantity_comparisons import ordering_sentence
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.check.selectors.edits import compare_by_method, receiver, replacement_fix, source_text
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.check.selectors.operands import operand_kind
from allotment.tools.views import SelectorView

_SUM_METHODS = {ast.ADD: ("+", "add"), ast.SUBTRACT: ("-", "sub")}


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Comparisons and sums of quantities that use operators."""
    for node in expr.nodes:
        if not isinstance(node, Call) or node.function not in (*ORDERINGS, *_SUM_METHODS):
            continue
        kinds = [operand_kind(bundle, expr, arg) for arg in node.args]
        extent = expr.extent(node)
        if node.function in _SUM_METHODS:
            operator, method = _SUM_METHODS[node.function]
            if kinds[0] != "quantity" or kinds[1] not in ("quantity", "number"):
                continue
            text = f"{receiver(expr, node.args[0])}.{method}({source_text(expr, node.args[1])})"
            message = f"quantities do not support the operator {operator}: use the method {method}"
            fix = replacement_fix(view, f"use {method}", expr.outer(node), text, safe=True)
            yield RuleMatch(view.document, view.path, message, fix=fix, span=extent)
        elif "quantity" in kinds and set(kinds) <= {"quantity", "value"}:
            operator = ORDERINGS[node.function]
            text = compare_by_method(expr, node.args[0], operator, node.args[1])
            message = f"{ordering_sentence(operator)}: the API server rejects the expression"
            fix = replacement_fix(view, "compare with compareTo", extent, text, safe=True)
            yield RuleMatch(view.document, view.path, message, fix=fix, span=extent)


RULE = Rule(
    code="C202",
    name="quantity-operator",
    family="cel",
    level="error",
    summary="quantities are compared with <, <=, > or >=, or added with +",
    why=(
        "Kubernetes' CEL library defines == and != for quantities, but no ordering operators: there is no matching "
        "overload for >=, so the API server rejects the class or claim when it is created. compareTo returns -1, 0 "
        "or 1, which covers every comparison; isGreaterThan and isLessThan exclude equality. To add and subtract, "
        "use add and sub. An attribute, whose type is known only at evaluation, cannot be ordered relative to a "
        "quantity either."
    ),
    bad=examples.claim("high-memory", selector='device.capacity["gpu.nvidia.com"].memory >= quantity("40Gi")'),
    good=examples.claim(
        "high-memory", selector='device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
    ),
    find=for_each_selector(of_selector),
    fixable="safe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-quantity-library",
)
