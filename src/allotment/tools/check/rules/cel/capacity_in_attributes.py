"""C208: capacities looked up among the attributes, and attributes among the capacities."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import is_in_other_map
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.check.selectors.edits import replacement_fix
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Names in the wrong one of a device's two maps."""
    for access in expr.accesses:
        if not access.name or not is_in_other_map(bundle, access.kind, access.domain, access.name):
            continue
        other = "capacity" if access.kind == "attributes" else "attributes"
        singular, plural = ("a capacity", "attributes") if other == "capacity" else ("an attribute", "capacities")
        message = f"{access.name} is {singular} of {access.domain}, and not among the {plural}: reading it there is an error"
        yield RuleMatch(view.document, view.path, message,
                    fix=replacement_fix(view, f"read it from device.{other}", access.kind_extent, other, safe=True),
                    span=(access.kind_extent[0], access.name_extent[1]))  # fmt: skip


RULE = Rule(
    code="C208",
    name="capacity-in-attributes",
    family="cel",
    level="error",
    summary="a capacity looked up in device.attributes, or an attribute in device.capacity",
    why=(
        "A device has two maps. What can be counted or measured, such as memory, is a capacity and a quantity; all else"
        ' is an attribute. A name that a map does not have ends in "no such key" when a device is looked at, and such'
        " an error ends the scheduling of the pod: it is tried again for ever."
    ),
    bad=examples.claim("gpu", selector='device.attributes["gpu.nvidia.com"].memory == quantity("24564Mi")'),
    good=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory == quantity("24564Mi")'),
    find=for_each_selector(of_selector),
    fixable="safe",
    see="https://kep.k8s.io/4381",
)
