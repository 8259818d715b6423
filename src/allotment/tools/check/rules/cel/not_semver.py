"""C209: the argument of ``semver`` is not a semantic version, such as "8.0": the call fails only at evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.syntax.ast import Call, Const
from allotment.model.semver import Semver, SemverError
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Rule, RuleMatch
from allotment.tools.check.selectors.edits import replacement_fix
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.check.selectors.operands import normalized_version, operand_kind
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Literals in ``semver`` that are not semantic versions."""
    for node in expr.nodes:
        if not isinstance(node, Call) or node.function != "semver" or node.target is not None or not node.args:
            continue
        literal = node.args[0]
        if operand_kind(bundle, expr, literal) == "version":
            yield RuleMatch(view.document, view.path, "semver() takes a string, but this is already a version",
                        fix=replacement_fix(view, "remove semver()", expr.extent(node), expr.text(literal), safe=True),
                        span=expr.extent(node))  # fmt: skip
            continue
        if not isinstance(literal, Const) or literal.kind not in ("string", "double", "int"):
            continue
        # semver(string, true) normalizes its argument.
        lenient = len(node.args) > 1
        extent = expr.extent(literal)
        written = literal.value if isinstance(literal.value, str) else expr.source[slice(*extent)]
        if isinstance(literal.value, str) and _is_version(literal.value, lenient):
            continue
        version = normalized_version(written)
        message = f"{expr.source[slice(*extent)]} is not a semantic version: semver() fails for every device"
        help_text = "" if version else 'write three numbers, as in semver("8.0.0")'
        fix = replacement_fix(view, f'write "{version}"', extent, f'"{version}"', safe=True) if version else None
        yield RuleMatch(view.document, view.path, message, help=help_text, fix=fix, span=extent)


def _is_version(text: str, lenient: bool) -> bool:
    try:
        Semver.parse(text, lenient)
    except SemverError:
        return False
    return True


RULE = Rule(
    code="C209",
    name="not-semver",
    family="cel",
    level="error",
    summary='the string in semver() is not a semantic version, as in semver("8.0")',
    why=(
        "A semantic version has three numbers and no leading v. The compiler does not check the string, so semver() "
        "fails only at evaluation. Such an error aborts the attempt to schedule the pod, and the scheduler retries "
        "indefinitely. Drivers publish the CUDA compute capability 8.0 as 8.0.0. Since Kubernetes 1.34, "
        "semver(string, true) normalizes such versions."
    ),
    bad=examples.claim(
        "gpu", selector='device.attributes["gpu.nvidia.com"].driverVersion.isGreaterThan(semver("580.0"))'
    ),
    good=examples.claim(
        "gpu", selector='device.attributes["gpu.nvidia.com"].driverVersion.isGreaterThan(semver("580.0.0"))'
    ),
    find=for_each_selector(of_selector),
    fixable="safe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-semver-library",
)
