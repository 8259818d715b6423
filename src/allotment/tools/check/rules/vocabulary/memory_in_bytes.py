"""V316: an amount of memory without a unit, such as quantity("81920")."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import SetValue
from allotment.model.loading.marks import Path
from allotment.model.quantity import Quantity
from allotment.model.written_amounts import quantity_of_number
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import parsed_selectors
from allotment.tools.views import ClaimView, RequestView, SelectorView


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for view, expr in parsed_selectors(bundle):
        for comparison in expr.comparisons:
            if comparison.access.kind != "capacity":
                continue
            for literal in comparison.literals:
                written = view.expression[slice(*literal.text_extent)].strip("\"'")
                intended = _intended(written, comparison.access.name)
                if isinstance(literal.value, Quantity) and intended:
                    yield _of_selector(view, literal.text_extent, written, intended)
    for claim in bundle.claims:
        for request in claim.requests:
            yield from _of_shares(claim, request)


def _of_selector(view: SelectorView, extent: tuple[int, int], written: str, intended: str) -> RuleMatch:
    edit = replace_extent(view, extent, f'"{intended}"')
    fix = Fix(_fix_text(intended), ((view.document, edit),), safe=False)
    return RuleMatch(view.document, view.path, _message(written, intended), fix=fix, span=extent)


def _of_shares(claim: ClaimView, request: RequestView) -> Iterator[RuleMatch]:
    """The amounts of a shared device that a request consumes."""
    path: Path = (*request.body, "capacity", "requests")
    for name, amount in request.capacity.items():
        written = str(amount)
        intended = _intended(written, str(name))
        if intended:
            edit = SetValue((*path, name), intended)
            fix = Fix(_fix_text(intended), ((claim.document, edit),), safe=False)
            yield RuleMatch(claim.document, (*path, name), _message(written, intended), fix=fix)


def _intended(written: str, name: str) -> str:
    """The amount of memory that a small number probably means; empty if it is clear, or no memory."""
    guess = quantity_of_number(written, name) if written.isdecimal() else None
    return guess.text if guess is not None and not guess.is_certain else ""


def _message(written: str, intended: str) -> str:
    return f"{written} without a unit is {written} bytes: did you mean {intended}?"


def _fix_text(intended: str) -> str:
    return f"write {intended}"


_EXPRESSION = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'

RULE = Rule(
    code="V316",
    name="memory-in-bytes",
    family="vocabulary",
    level="warning",
    summary="an amount of memory has no unit, and is so small that bytes cannot be meant",
    why=(
        "A quantity without a unit is a number of bytes. nvidia-smi and the label nvidia.com/gpu.memory state the "
        'memory of a GPU in MiB, so the number is often copied from there: quantity("81920") is 80 KiB, which every '
        "device has, so the condition excludes nothing."
    ),
    bad=examples.template("large-gpu", selector=_EXPRESSION.format("81920")),
    good=examples.template("large-gpu", selector=_EXPRESSION.format("81920Mi")),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/",
)
