"""C202: quantities compared by an operator, which CEL does not have for them."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.ordering_operators import ORDERINGS
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.selectors.edits import bare, compared_by_method, mended, receiver
from allotment.tools.check.selectors.expressions import Expression, in_each
from allotment.tools.check.selectors.operands import operand
from allotment.tools.views import SelectorView

_SUMS = {ast.ADD: ("+", "add"), ast.SUBTRACT: ("-", "sub")}


def of_selector(bundle: Bundle, view: SelectorView, read: Expression) -> Iterator[Found]:
    """Comparisons and sums of quantities that are written with operators."""
    for node in read.nodes:
        if not isinstance(node, Call) or node.function not in (*ORDERINGS, *_SUMS):
            continue
        kinds = [operand(bundle, read, one) for one in node.args]
        extent = read.extent(node)
        if node.function in _SUMS:
            sign, method = _SUMS[node.function]
            if kinds[0] != "quantity" or kinds[1] not in ("quantity", "number"):
                continue
            text = f"{receiver(read, node.args[0])}.{method}({bare(read, node.args[1])})"
            message = f"quantities have no {sign}: they are added up by methods"
            fix = mended(view, f"use {method}", read.outer(node), text, safe=True)
            yield Found(view.document, view.path, message, fix=fix, part=extent)
        elif "quantity" in kinds and set(kinds) <= {"quantity", "value"}:
            sign = ORDERINGS[node.function]
            text = compared_by_method(read, node.args[0], sign, node.args[1])
            message = f"quantities cannot be compared by {sign}: the API server refuses the expression"
            fix = mended(view, "compare with compareTo", extent, text, safe=True)
            yield Found(view.document, view.path, message, fix=fix, part=extent)


RULE = Rule(
    code="C202",
    name="quantity-operator",
    family="cel",
    level="error",
    summary="quantities compared by < <= > >= or added by +",
    why=(
        "The quantity library of Kubernetes' CEL declares == and != for quantities, and no order: >= finds no matching"
        " overload, so the API server refuses the class or claim at creation. compareTo gives -1, 0 or 1, of which each"
        " order can be made; isGreaterThan and isLessThan are strict. Sums are add and sub. A value of an attribute,"
        " whose type is known only when a device is looked at, has no order with a quantity either."
    ),
    bad=examples.claim("high-memory", selector='device.capacity["gpu.nvidia.com"].memory >= quantity("40Gi")'),
    good=examples.claim(
        "high-memory", selector='device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
    ),
    find=in_each(of_selector),
    fixable="safe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-quantity-library",
)
