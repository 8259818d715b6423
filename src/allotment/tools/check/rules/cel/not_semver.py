"""C209: ``semver("8.0")``: a text that is no semantic version, which nobody notices before a device is looked at."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.syntax.ast import Call, Const
from allotment.model.semver import Semver, SemverError
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch, Rule
from allotment.tools.check.selectors.edits import replacement_fix
from allotment.tools.check.selectors.expressions import Expression, for_each_selector
from allotment.tools.check.selectors.operands import operand_kind, normalized_version
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, expr: Expression) -> Iterator[RuleMatch]:
    """Literals in ``semver`` that are no versions."""
    for node in expr.nodes:
        if not isinstance(node, Call) or node.function != "semver" or node.target is not None or not node.args:
            continue
        literal = node.args[0]
        if operand_kind(bundle, expr, literal) == "version":
            yield RuleMatch(view.document, view.path, "semver takes a text, and this is a version already",
                        fix=replacement_fix(view, "leave out semver", expr.extent(node), expr.text(literal), safe=True),
                        span=expr.extent(node))  # fmt: skip
            continue
        if not isinstance(literal, Const) or literal.kind not in ("string", "double", "int"):
            continue
        # semver(text, true) completes what it is given by itself.
        lenient = len(node.args) > 1
        extent = expr.extent(literal)
        written = literal.value if isinstance(literal.value, str) else expr.source[slice(*extent)]
        if isinstance(literal.value, str) and _is_version(literal.value, lenient):
            continue
        version = normalized_version(written)
        message = f"{expr.source[slice(*extent)]} is no semantic version: semver fails for every device"
        help_text = "" if version else 'write three numbers: semver("8.0.0")'
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
    summary='a text in semver() that is no semantic version: "8.0"',
    why=(
        "A semantic version has three numbers and no v before them. The compiler does not look into the text; semver"
        " fails when a device is looked at, and such an error ends the scheduling of the pod: it is tried again for"
        " ever. Drivers publish CUDA 8.0 as 8.0.0. Since Kubernetes 1.34 semver(text, true) completes a text by itself."
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
