"""C206: expressions whose estimated cost exceeds the API server's limit."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.checking.estimate import estimate
from allotment.cel.selector import COST_LIMIT
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.check.selectors.expressions import Expression, parsed_selectors

#: Estimates above this number are unbounded.
_UNBOUNDED = 1 << 53


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Selectors whose estimated cost is over the limit."""
    for view, expr in parsed_selectors(bundle):
        if expr.selector is None or expr.selector.estimated_cost <= COST_LIMIT:
            continue
        total = expr.selector.estimated_cost
        message = (
            f"the API server rejects the expression as too complex: its estimated cost is {_format_cost(total)}, and "
            f"the limit is {_format_cost(COST_LIMIT)}"
        )
        part, part_cost = _most_expensive(expr)
        help_text = (
            "type(), joined lists and loops over whole maps are the most expensive: compare a single attribute instead"
        )
        if part is not None and part_cost < total:
            help_text = f"the estimated cost of this part alone is {_format_cost(part_cost)}; {help_text}"
        yield RuleMatch(view.document, view.path, message, help=help_text, span=part)


def _most_expensive(expr: Expression) -> tuple[tuple[int, int] | None, int]:
    """The most expensive operand of the outermost ``&&``, and its estimated cost."""
    assert expr.selector is not None
    checked = expr.selector.checked
    costs = [(estimate(checked, term.node)[1], (term.start, term.stop)) for term in checked.parsed.conjuncts()]
    cost, extent = max(costs, key=lambda item: item[0])
    return (extent if len(costs) > 1 else None), cost


def _format_cost(cost: int) -> str:
    return "unbounded" if cost > _UNBOUNDED else f"{cost:,}"


RULE = Rule(
    code="C206",
    name="too-costly",
    family="cel",
    level="error",
    summary="the estimated cost of the expression exceeds the API server's limit",
    why=(
        "Before the API server stores a class or claim, it estimates the cost of evaluating each selector, based on "
        "types and maximum sizes, and rejects estimates above one million units. The type of a value has no maximum "
        "size, and neither does a list of strings that is joined or searched, so estimates for them are unbounded. "
        "Evaluation stops at the same limit."
    ),
    bad=examples.claim("gpu", selector='type(device.attributes["gpu.nvidia.com"].architecture) == string'),
    good=examples.claim("gpu", selector='device.attributes["gpu.nvidia.com"].architecture != ""'),
    find=_find,
    see="https://kubernetes.io/docs/reference/using-api/cel/#resource-constraints",
)
