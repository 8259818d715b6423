"""C208: capacities read from ``device.attributes``, and attributes read from ``device.capacity``."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import name_in_other_map
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.check.selectors.edits import rename_access, replacement_fix
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Names in the wrong one of a device's two maps."""
    for access in expr.accesses:
        name = name_in_other_map(bundle, access.kind, access.domain, access.name) if access.name else ""
        if not name:
            continue
        other = "capacity" if access.kind == "attributes" else "attributes"
        actual, wrong = ("a capacity", "an attribute") if other == "capacity" else ("an attribute", "a capacity")
        message = f"{name} is {actual} of {access.domain}, not {wrong}: reading it here is an error"
        if name == access.name:
            fix = replacement_fix(view, f"read it from device.{other}", access.kind_extent, other, safe=True)
        else:
            message = f"{access.domain} has no {access.name}; {message}"
            edit = rename_access(view, access, f"{access.domain}/{name}", other)
            fix = Fix(f'read device.{other}["{access.domain}"].{name}', ((view.document, edit),), safe=False)
        yield RuleMatch(view.document, view.path, message, fix=fix,
                    span=(access.kind_extent[0], access.name_extent[1]))  # fmt: skip


RULE = Rule(
    code="C208",
    name="capacity-in-attributes",
    family="cel",
    level="error",
    summary="a capacity is read from device.attributes, or an attribute from device.capacity",
    why=(
        "A device has two maps. Countable or measurable properties, such as memory, are capacities and have quantity "
        'values; all others are attributes. Reading a name from the wrong map fails with "no such key" at evaluation. '
        "Such an error aborts the attempt to schedule the pod, and the scheduler retries indefinitely."
    ),
    bad=examples.claim("gpu", selector='device.attributes["gpu.nvidia.com"].memory == quantity("24564Mi")'),
    good=examples.claim("gpu", selector='device.capacity["gpu.nvidia.com"].memory == quantity("24564Mi")'),
    find=for_each_selector(of_selector),
    fixable="safe or unsafe",
    see="https://kep.k8s.io/4381",
)
