"""C211: ``quantity("40GB")``: a text that is no quantity, which nobody notices before a device is looked at."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.syntax.ast import Call, Const
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.selectors.edits import mended
from allotment.tools.check.selectors.expressions import Expression, in_each
from allotment.tools.check.selectors.operands import amount, is_quantity
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, read: Expression) -> Iterator[Found]:
    """Literals in ``quantity`` that are no quantities."""
    for node in read.nodes:
        if not isinstance(node, Call) or node.function != "quantity" or node.target is not None or len(node.args) != 1:
            continue
        literal = node.args[0]
        if not isinstance(literal, Const) or literal.kind not in ("string", "int", "double"):
            continue
        extent = read.extent(literal)
        written = literal.value if isinstance(literal.value, str) else read.source[slice(*extent)]
        if isinstance(literal.value, str) and is_quantity(written):
            continue
        meant = amount(written)
        if literal.kind == "string":
            message = f"{read.source[slice(*extent)]} is no quantity: quantity fails for every device"
        else:
            message = f"quantity takes a text, and {written} is a number: the API server refuses the expression"
        fix = None if meant is None else mended(view, f'write "{meant.text}"', extent, f'"{meant.text}"',
                                                safe=meant.certain)  # fmt: skip
        help_text = "" if fix else "units are Ki, Mi, Gi, Ti (powers of 1024) and k, M, G, T (of 1000)"
        yield Found(view.document, view.path, message, help=help_text, fix=fix, part=extent)


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
    find=in_each(of_selector),
    fixable="safe or unsafe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-quantity-library",
)
