"""C204: the type of a value read as a field (``.string``, ``.version``), which slices have, but not CEL values."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.check.selectors.edits import replacement_fix
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.check.selectors.operands import PARTS, is_value_accessor
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Types of values that are read as fields."""
    for access in expr.accesses:
        part = next((step for step in access.steps[2:] if step.key in PARTS and not step.is_quoted), None)
        if part is not None and access.kind == "attributes":
            fix = replacement_fix(view, f"write .{part.key}()", part.extent, f".{part.key}()", safe=True)
            message = f"{part.key} is a method of versions: reading it without () is an error"
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
        message = f"the {noun} is already the value: reading .{step.key} is an error"
        yield RuleMatch(view.document, view.path, message,
                    fix=replacement_fix(view, f"remove .{step.key}", extent, "", safe=True), span=extent)  # fmt: skip


RULE = Rule(
    code="C204",
    name="value-accessor",
    family="cel",
    level="error",
    summary="the type of a value is read as a field, such as .string, .bool or .quantity",
    why=(
        "In a ResourceSlice, an attribute is written with its type, as in {string: Ampere}. In CEL, the attribute is "
        "already the value itself. The expression compiles, because an attribute may have any type, but fails with "
        '"no such key: string" at evaluation. Such an error aborts the attempt to schedule the pod, and the scheduler '
        "retries indefinitely."
    ),
    bad=examples.claim("ampere", selector='device.attributes["gpu.nvidia.com"].architecture.string == "Ampere"'),
    good=examples.claim("ampere", selector='device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    find=for_each_selector(of_selector),
    fixable="safe",
    see="https://kep.k8s.io/4381",
)
