"""C204: ``.string``, ``.version`` and their like behind an attribute: they stand in slices, not in selectors."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.check.selectors.edits import replacement_fix
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.check.selectors.operands import PARTS, is_value_accessor
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """The type of a value taken for a part of it."""
    for access in expr.accesses:
        part = next((step for step in access.steps[2:] if step.key in PARTS and not step.is_quoted), None)
        if part is not None and access.kind == "attributes":
            fix = replacement_fix(view, f"write .{part.key}()", part.extent, f".{part.key}()", safe=True)
            message = f"{part.key} is a function of versions: reading it without () is an error"
            yield RuleMatch(view.document, view.path, message, fix=fix, span=part.extent)
            continue
        number = next((n for n in range(1, len(access.steps)) if is_value_accessor(bundle, access, n)), None)
        if number is None:
            continue
        step, last = access.steps[number], number
        while last + 1 < len(access.steps) and is_value_accessor(bundle, access, last + 1):
            last += 1
        extent = (step.extent[0], access.steps[last].extent[1])
        noun = "capacity" if access.kind == "capacity" else "attribute"
        message = f"the {noun} is the value itself, without .{step.key}: reading that is an error"
        yield RuleMatch(view.document, view.path, message,
                    fix=replacement_fix(view, f"remove .{step.key}", extent, "", safe=True), span=extent)  # fmt: skip


RULE = Rule(
    code="C204",
    name="value-accessor",
    family="cel",
    level="error",
    summary="the type of a value read as a part of it: .string, .bool, .quantity",
    why=(
        "In a ResourceSlice an attribute says its type beside its value, {string: Ampere}. In CEL the attribute is the"
        ' value already. The text compiles, since an attribute may be anything, but ends in "no such key: string" when'
        " a device is looked at, and such an error ends the scheduling of the pod: it is tried again for ever."
    ),
    bad=examples.claim("ampere", selector='device.attributes["gpu.nvidia.com"].architecture.string == "Ampere"'),
    good=examples.claim("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    find=for_each_selector(of_selector),
    fixable="safe",
    see="https://kep.k8s.io/4381",
)
