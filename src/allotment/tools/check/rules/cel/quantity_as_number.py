"""C210: capacities compared with bare numbers or strings."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.ordering_operators import method_ordering
from allotment.cel.quantity_comparisons import EQUALITIES, LITERALS, METHODS, RELATIONS, literal_sentence
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, ListExpr
from allotment.model.written_amounts import QuantityGuess, intended_amount, quantity_of_number
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import receiver, replacement_fix, source_text
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.check.selectors.operands import operand_kind
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Comparisons of quantities with values that are not quantities."""
    for node in expr.nodes:
        if not isinstance(node, Call):
            continue
        if node.function in METHODS and node.target is not None and len(node.args) == 1:
            sides = [node.target, node.args[0]]
        elif node.function in RELATIONS:
            sides = node.args
        elif node.function == ast.IN and isinstance(node.args[1], ListExpr):
            yield from _check_list(bundle, view, expr, node, node.args[1])
            continue
        else:
            continue
        literal = next((side for side in sides if isinstance(side, Const) and side.kind in LITERALS), None)
        if literal is None or "quantity" not in [operand_kind(bundle, expr, side) for side in sides]:
            continue
        start, stop = expr.extent(node)
        name = next((a.name for a in expr.accesses if start <= a.extent[0] and a.extent[1] <= stop), "")
        guess = _guess(expr, literal, name)
        fix = None
        if guess is not None:
            quantity = f'quantity("{guess.text}")'
            texts = [quantity if side is literal else receiver(expr, side) for side in sides]
            if node.function in EQUALITIES:
                text = f" {EQUALITIES[node.function]} ".join(texts)
            elif node.function in METHODS:
                text = f"{texts[0]}.{node.function}({texts[1]})"
            else:
                text = method_ordering(texts[0], RELATIONS[node.function], texts[1])
            fix = _fix(view, expr, guess, expr.extent(node), text)
        message = literal_sentence(name, source_text(expr, literal), literal.kind)
        help_text = "" if fix else 'write the amount as a quantity, as in quantity("40Gi")'
        yield RuleMatch(view.document, view.path, message, help=help_text, fix=fix, span=expr.extent(node))


def _check_list(
    bundle: Bundle, view: SelectorView, expr: Expression, node: Call, list_expr: ListExpr
) -> Iterator[RuleMatch]:
    if operand_kind(bundle, expr, node.args[0]) != "quantity":
        return
    for element in list_expr.elements:
        if isinstance(element, Const) and element.kind in LITERALS:
            name = next((a.name for a in expr.accesses if a.node.id == node.args[0].id), "")
            guess = _guess(expr, element, name)
            extent = expr.extent(element)
            fix = None if guess is None else _fix(view, expr, guess, extent, f'quantity("{guess.text}")')
            message = f"{name or 'this'} is a quantity and never equals {source_text(expr, element)}"
            yield RuleMatch(view.document, view.path, message, fix=fix, span=extent)


def _guess(expr: Expression, literal: Const, name: str) -> QuantityGuess | None:
    if isinstance(literal.value, str):
        intended = intended_amount(literal.value)
        return QuantityGuess(intended, True) if intended else None
    return quantity_of_number(source_text(expr, literal).rstrip("uU"), name)


def _fix(view: SelectorView, expr: Expression, quantity: QuantityGuess, extent: tuple[int, int], text: str) -> Fix:
    assumption = "" if quantity.is_certain else ", which is probably the intended amount"
    return replacement_fix(
        view, f'compare with quantity("{quantity.text}"){assumption}', extent, text, safe=quantity.is_certain
    )


RULE = Rule(
    code="C210",
    name="quantity-as-number",
    family="cel",
    level="error",
    summary="a capacity is compared with a bare number or a string",
    why=(
        "A capacity is a quantity, which is a separate CEL type. CEL compares quantities only with each other: > and "
        "== have no overload for a quantity and a number or string, so the API server rejects the class or claim when "
        'it is created. Write quantity("40Gi"); for memory, a number without a unit means bytes.'
    ),
    bad=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory > "40Gi"'),
    good=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) > 0'),
    find=for_each_selector(of_selector),
    fixable="safe or unsafe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-quantity-library",
)
