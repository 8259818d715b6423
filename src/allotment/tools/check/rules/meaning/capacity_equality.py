"""M402: a capacity compared with ``==``, which requires an exact match."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from allotment.cel.ordering_operators import method_ordering
from allotment.cel.syntax.ast import Call
from allotment.fleet.profiles import MIB, accelerators
from allotment.model.quantity import Quantity
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import replace_extent
from allotment.tools.check.selectors.expressions import parse_selector
from allotment.tools.views import SelectorView

#: Smaller amounts are counts (of engines, shares, partitions), for which equality is fine.
_MIN_AMOUNT = Quantity.parse("1Mi")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for selector in bundle.selectors:
        if "==" in selector.expression:
            yield from _check_selector(bundle, selector)


def _check_selector(bundle: Bundle, selector: SelectorView) -> Iterator[RuleMatch]:
    expr = parse_selector(bundle, selector)
    for comparison in expr.comparisons:
        node, document = comparison.node, selector.document
        if comparison.operator != "==" or comparison.access.kind != "capacity" or not isinstance(node, Call):
            continue
        # x.compareTo(y) == 0 is an intentional equality.
        if node.target is not None or any(isinstance(arg, Call) and arg.function == "compareTo" for arg in node.args):
            continue
        amount = comparison.literals[0]
        if not isinstance(amount.value, Quantity) or amount.value < _MIN_AMOUNT:
            continue
        value, literal = (expr.source[slice(*extent)] for extent in (comparison.access.extent, amount.extent))
        is_published = amount.value in _known_memory_amounts()
        publishers = "only some devices have" if is_published else "no known device has"
        yield RuleMatch(
            document,
            selector.path,
            f"== requires {comparison.access.name} of exactly {amount.value}, which {publishers}",
            help="drivers publish what the hardware reports, which is rarely the nominal size",
            fix=Fix(
                f"require at least {amount.value}",
                ((document, replace_extent(selector, comparison.extent, method_ordering(value, ">=", literal))),),
                safe=False,
            ),
            level="note" if is_published else None,
            span=comparison.extent,
        )


@cache
def _known_memory_amounts() -> frozenset[Quantity]:
    """The amounts of memory of known hardware, whole or partitioned."""
    mib: set[int] = set()
    for accelerator in accelerators().values():
        mib.add(accelerator.memory_mib)
        mib.update(profile.memory_mib for profile in (accelerator.mig.profiles if accelerator.mig else ()))
        mib.update(partition.memory_mib for partition in accelerator.partitions)
    return frozenset(Quantity.parse(str(amount * MIB)) for amount in mib)


RULE = Rule(
    code="M402",
    name="capacity-equality",
    family="meaning",
    level="warning",
    summary="a capacity is compared with ==, which requires an exact match",
    why=(
        'Quantities are compared exactly: memory == quantity("64Gi") is true for a device that publishes 64Gi and '
        "for no other, neither smaller nor larger. Drivers publish what the hardware reports, which is often less "
        "than the nominal size (an 80 GB H100 has 81559Mi). Such a selector therefore rarely matches anything, and "
        "the pod stays pending. Use compareTo(...) >= 0 to require a minimum; isGreaterThan excludes equality. The "
        "finding is only a note if a known device reports exactly that amount."
    ),
    bad=examples.template("large-gpu", selector='device.capacity["gpu.nvidia.com"].memory == quantity("64Gi")'),
    good=examples.template(
        "large-gpu", selector='device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("64Gi")) >= 0'
    ),
    find=_find,
    fixable="unsafe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-quantity-library",
)
