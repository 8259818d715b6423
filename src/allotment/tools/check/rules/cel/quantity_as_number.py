"""C210: capacities compared with bare numbers or strings."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.ordering_operators import by_method
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, ListExpr
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.check.selectors.edits import bare, mended, receiver
from allotment.tools.check.selectors.expressions import Expression, in_each
from allotment.tools.check.selectors.operands import (
    EQUALITIES,
    METHODS,
    RELATIONS,
    Amount,
    amount,
    amount_of_number,
    operand,
)
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, read: Expression) -> Iterator[Found]:
    """Comparisons of quantities with what is none."""
    for node in read.nodes:
        if not isinstance(node, Call):
            continue
        if node.function in METHODS and node.target is not None and len(node.args) == 1:
            sides = [node.target, node.args[0]]
        elif node.function in RELATIONS:
            sides = node.args
        elif node.function == ast.IN and isinstance(node.args[1], ListExpr):
            yield from _listed(bundle, view, read, node, node.args[1])
            continue
        else:
            continue
        literal = next((one for one in sides if isinstance(one, Const) and one.kind in _KINDS), None)
        if literal is None or "quantity" not in [operand(bundle, read, one) for one in sides]:
            continue
        start, stop = read.extent(node)
        name = next((a.name for a in read.accesses if start <= a.extent[0] and a.extent[1] <= stop), "")
        meant = _amount(read, literal, name)
        fix = None
        if meant is not None:
            quantity = f'quantity("{meant.text}")'
            texts = [quantity if one is literal else receiver(read, one) for one in sides]
            if node.function in EQUALITIES:
                text = f" {EQUALITIES[node.function]} ".join(texts)
            elif node.function in METHODS:
                text = f"{texts[0]}.{node.function}({texts[1]})"
            else:
                text = by_method(texts[0], RELATIONS[node.function], texts[1])
            fix = _fix(view, read, meant, read.extent(node), text)
        written = bare(read, literal)
        what = "text" if literal.kind == "string" else "a number"
        message = f"{name or 'this'} is a quantity, and {written} is {what}: CEL does not compare them"
        help_text = "" if fix else 'write the amount as quantity("40Gi")'
        yield Found(view.document, view.path, message, help=help_text, fix=fix, part=read.extent(node))


_KINDS = ("string", "int", "uint", "double")


def _listed(bundle: Bundle, view: SelectorView, read: Expression, node: Call, listed: ListExpr) -> Iterator[Found]:
    if operand(bundle, read, node.args[0]) != "quantity":
        return
    for one in listed.elements:
        if isinstance(one, Const) and one.kind in _KINDS:
            name = next((a.name for a in read.accesses if a.node.id == node.args[0].id), "")
            meant = _amount(read, one, name)
            extent = read.extent(one)
            fix = None if meant is None else _fix(view, read, meant, extent, f'quantity("{meant.text}")')
            message = f"{name or 'this'} is a quantity, which {bare(read, one)} never is"
            yield Found(view.document, view.path, message, fix=fix, part=extent)


def _amount(read: Expression, literal: Const, name: str) -> Amount | None:
    if isinstance(literal.value, str):
        return amount(literal.value)
    return amount_of_number(bare(read, literal).rstrip("uU"), name)


def _fix(view: SelectorView, read: Expression, meant: Amount, extent: tuple[int, int], text: str) -> Fix:
    guess = "" if meant.certain else ", taking it for that"
    return mended(view, f'compare with quantity("{meant.text}"){guess}', extent, text, safe=meant.certain)


RULE = Rule(
    code="C210",
    name="quantity-as-number",
    family="cel",
    level="error",
    summary="a capacity compared with a bare number or a string",
    why=(
        "Capacities are quantities, a type of their own with a unit. CEL compares a quantity with quantities only: with"
        " a number or a string there is no overload of > or ==, so the API server refuses the class or claim at"
        ' creation. A number is made one by quantity("40Gi"); a bare number of memory is one of bytes.'
    ),
    bad=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory > "40Gi"'),
    good=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) > 0'),
    find=in_each(of_selector),
    fixable="safe or unsafe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-quantity-library",
)
