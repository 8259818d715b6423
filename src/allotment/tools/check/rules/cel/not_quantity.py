"""C211: ``quantity("40GB")``: a text that is no quantity, which nobody notices before a device is looked at."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.syntax.ast import Call, Const
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.check.selectors.edits import replacement_fix
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.check.selectors.operands import guess_quantity, is_quantity
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Literals in ``quantity`` that are no quantities."""
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
        guess = guess_quantity(written)
        if literal.kind == "string":
            message = f"{expr.source[slice(*extent)]} is no quantity: quantity fails for every device"
        else:
            message = f"quantity takes a text, and {written} is a number: the API server refuses the expression"
        fix = None if guess is None else replacement_fix(view, f'write "{guess.text}"', extent, f'"{guess.text}"',
                                                safe=guess.is_certain)  # fmt: skip
        help_text = "" if fix else "units are Ki, Mi, Gi, Ti (powers of 1024) and k, M, G, T (of 1000)"
        yield RuleMatch(view.document, view.path, message, help=help_text, fix=fix, span=extent)


RULE = Rule(
    code="C211",
    name="not-quantity",
    family="cel",
    level="error",
    summary='a text in quantity() that is no quantity: "40GB"',
    why=(
        "A quantity is a number and one of Kubernetes' suffixes, Mi or Gi, without a B and without a space. The"
        " compiler does not look into the text; quantity fails when a device is looked at, and such an error ends the"
        " scheduling of the pod: it is tried again for ever."
    ),
    bad=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40GB"))'),
    good=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))'),
    find=for_each_selector(of_selector),
    fixable="safe or unsafe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-quantity-library",
)
