"""C206: expressions that the API server expects to cost more than it allows."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.checking.estimate import estimate
from allotment.cel.selector import COST_LIMIT
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.check.selectors.expressions import Expression, parsed_selectors

#: Where the estimate has no bound it is some number beyond this.
_UNBOUNDED = 1 << 53


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Selectors whose estimate is over the limit."""
    for view, expr in parsed_selectors(bundle):
        if expr.selector is None or expr.selector.estimated_cost <= COST_LIMIT:
            continue
        total = expr.selector.estimated_cost
        message = (
            f"the API server refuses this as too complex: it may cost {_format_cost(total)}, {_format_cost(COST_LIMIT)} allowed"
        )
        part, part_cost = _most_expensive(expr)
        help_text = "types, joined lists and loops over whole maps cost most: compare the one name that is meant"
        if part is not None and part_cost < total:
            help_text = f"this part alone may cost {_format_cost(part_cost)}; {help_text}"
        yield RuleMatch(view.document, view.path, message, help=help_text, span=part)


def _most_expensive(expr: Expression) -> tuple[tuple[int, int] | None, int]:
    """The operand of the outermost ``&&`` that may cost most, and what."""
    assert expr.selector is not None
    checked = expr.selector.checked
    costs = [(estimate(checked, term.node)[1], (term.start, term.stop)) for term in checked.parsed.conjuncts()]
    cost, extent = max(costs, key=lambda one: one[0])
    return (extent if len(costs) > 1 else None), cost


def _format_cost(cost: int) -> str:
    return "without bound" if cost > _UNBOUNDED else f"{cost:,}"


RULE = Rule(
    code="C206",
    name="too-costly",
    family="cel",
    level="error",
    summary="an expression that may cost more than the API server allows",
    why=(
        "Before it stores a class or claim, the API server estimates from types and largest sizes what evaluating a"
        " selector may cost, and refuses more than a million units. The type of a value, or a list of texts that is"
        " joined or searched, has no largest size, so the estimate has no bound. Evaluation is stopped at the same"
        " limit."
    ),
    bad=examples.claim("gpu", selector='type(device.attributes["gpu.nvidia.com"].architecture) == string'),
    good=examples.claim("gpu", selector='device.attributes["gpu.nvidia.com"].architecture != ""'),
    find=_find,
    see="https://kubernetes.io/docs/reference/using-api/cel/#resource-constraints",
)
