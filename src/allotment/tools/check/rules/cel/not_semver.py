"""C209: ``semver("8.0")``: a text that is no semantic version, which nobody notices before a device is looked at."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.syntax.ast import Call, Const
from allotment.model.semver import Semver, SemverError
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Found, Rule
from allotment.tools.check.selectors.edits import mended
from allotment.tools.check.selectors.expressions import Expression, in_each
from allotment.tools.check.selectors.operands import operand, version_text
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, read: Expression) -> Iterator[Found]:
    """Literals in ``semver`` that are no versions."""
    for node in read.nodes:
        if not isinstance(node, Call) or node.function != "semver" or node.target is not None or not node.args:
            continue
        literal = node.args[0]
        if operand(bundle, read, literal) == "version":
            yield Found(view.document, view.path, "semver takes a text, and this is a version already",
                        fix=mended(view, "leave out semver", read.extent(node), read.text(literal), safe=True),
                        part=read.extent(node))  # fmt: skip
            continue
        if not isinstance(literal, Const) or literal.kind not in ("string", "double", "int"):
            continue
        # semver(text, true) completes what it is given by itself.
        lenient = len(node.args) > 1
        extent = read.extent(literal)
        written = literal.value if isinstance(literal.value, str) else read.source[slice(*extent)]
        if isinstance(literal.value, str) and _is_version(literal.value, lenient):
            continue
        version = version_text(written)
        message = f"{read.source[slice(*extent)]} is no semantic version: semver fails for every device"
        help_text = "" if version else 'write three numbers: semver("8.0.0")'
        fix = mended(view, f'write "{version}"', extent, f'"{version}"', safe=True) if version else None
        yield Found(view.document, view.path, message, help=help_text, fix=fix, part=extent)


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
    find=in_each(of_selector),
    fixable="safe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-semver-library",
)
