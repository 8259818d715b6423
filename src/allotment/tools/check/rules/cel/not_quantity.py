"""C211: ``quantity("40GB")``: the string is not a quantity, which only fails at evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.syntax.ast import Call, Const
from allotment.model.written_amounts import intended_amount, is_quantity
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.check.selectors.edits import replacement_fix
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Literals in ``quantity`` that are not quantities."""
    for node in expr.nodes:
        if not isinstance(node, Call) or node.function != "quantity" or node.target is not None or len(node.args) != 1:
            continue
        literal = node.args[0]
        if not isinstance(literal, Const) or literal.kind not in ("string", "int", "double"):
            continue
        extent = expr.extent(literal)
        written = literal.value if isinstance(literal.value, str) else expr.source[slice(*extent)]
        if isinstance(literal.value, str) and is_quantity(written):
            continue
        intended = intended_amount(written)
        if literal.kind == "string":
            message = f"{expr.source[slice(*extent)]} is not a quantity: quantity() fails for every device"
        else:
            message = f"quantity() takes a string, but {written} is a number: the API server rejects the expression"
        fix = replacement_fix(view, f'write "{intended}"', extent, f'"{intended}"', safe=True) if intended else None
        help_text = "" if fix else "units are Ki, Mi, Gi, Ti (powers of 1024) and k, M, G, T (powers of 1000)"
        yield RuleMatch(view.document, view.path, message, help=help_text, fix=fix, span=extent)


RULE = Rule(
    code="C211",
    name="not-quantity",
    family="cel",
    level="error",
    summary='the string in quantity() is not a quantity, as in quantity("40GB")',
    why=(
        "A quantity is a number followed by one of Kubernetes' suffixes, such as Mi or Gi, without a B and without a "
        "space: 40GB is 40G, and 40GiB is 40Gi. The compiler does not check the string, so quantity() fails only at "
        "evaluation. Such an error aborts the attempt to schedule the pod, and the scheduler retries indefinitely."
    ),
    bad=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40GB"))'),
    good=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40G"))'),
    find=for_each_selector(of_selector),
    fixable="safe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-quantity-library",
)
