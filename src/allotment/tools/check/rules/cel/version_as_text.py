"""C203: versions compared as if they were texts or numbers."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.cel.ordering_operators import ORDERINGS, by_method
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, ListExpr, Node
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.check.selectors.edits import bare, compared_by_method, mended, receiver
from allotment.tools.check.selectors.expressions import Expression, in_each
from allotment.tools.check.selectors.operands import EQUALITIES, METHODS, RELATIONS, operand, version_text
from allotment.tools.views import SelectorView


def of_selector(bundle: Bundle, view: SelectorView, read: Expression) -> Iterator[Found]:
    """Comparisons of versions that are none."""
    for node in read.nodes:
        if not isinstance(node, Call):
            continue
        if node.function in RELATIONS:
            yield from _relation(bundle, view, read, node)
        elif node.function == ast.IN and isinstance(node.args[1], ListExpr):
            if operand(bundle, read, node.args[0]) == "version":
                yield from _wrapped(view, read, node, [e for e in node.args[1].elements if isinstance(e, Const)])
        elif node.function in METHODS and node.target is not None and len(node.args) == 1:
            if operand(bundle, read, node.target) == "version" and isinstance(node.args[0], Const):
                yield from _wrapped(view, read, node, [node.args[0]])


def _relation(bundle: Bundle, view: SelectorView, read: Expression, node: Call) -> Iterator[Found]:
    left, right = node.args
    kinds = [operand(bundle, read, one) for one in node.args]
    sign = RELATIONS[node.function]
    if "version" not in kinds:
        return
    literal = next((one for one in node.args if isinstance(one, Const)), None)
    if literal is None:
        if node.function in ORDERINGS and set(kinds) <= {"version", "value"}:
            message = f"versions cannot be compared by {sign}: the expression is an error"
            text = compared_by_method(read, left, sign, right)
            ordered = mended(view, "compare with compareTo", read.extent(node), text, safe=True)
            yield Found(view.document, view.path, message, fix=ordered, part=read.extent(node))
        return
    if not {"text", "number"} & set(kinds):
        return
    version = _semver(read, literal)
    fix: Fix | None = None
    if version:
        texts = [version if one is literal else bare(read, one) for one in node.args]
        if node.function in EQUALITIES:
            text = f"{texts[0]} {sign} {texts[1]}"
        else:
            first = texts[0] if left is literal else receiver(read, left)
            text = by_method(first, sign, texts[1])
        # Who says that it is 8 may mean any version from 8.0 up to 9.
        written = str(literal.value) if isinstance(literal.value, str) else bare(read, literal)
        exact = node.function in ORDERINGS or "." in written
        fix = mended(view, f"compare with {version}", read.extent(node), text, safe=exact)
    yield Found(view.document, view.path, _said(bundle, read, node, literal), help=_help(version), fix=fix,
                part=read.extent(node))  # fmt: skip


def _wrapped(view: SelectorView, read: Expression, node: Call, literals: list[Const]) -> Iterator[Found]:
    """Literals that stand where versions belong; one edit mends them all."""
    if not literals or any(one.kind not in ("string", "int", "double") for one in literals):
        return
    start, stop = read.extent(literals[0])[0], read.extent(literals[-1])[1]
    text, at = "", start
    for one in literals:
        version = _semver(read, one)
        if not version:
            text = ""
            break
        extent = read.extent(one)
        text += read.source[at : extent[0]] + version
        at = extent[1]
    fix: Fix | None = mended(view, "compare with versions", (start, stop), text, safe=True) if text else None
    name = next((a.name for a in read.accesses if read.extent(node)[0] <= a.extent[0] < start), "this")
    message = f"{name} is a version, and {read.source[start:stop]} none: write it as semver"
    yield Found(view.document, view.path, message, help=_help(text), fix=fix, part=read.extent(node))


def _said(bundle: Bundle, read: Expression, node: Call, literal: Node) -> str:
    value = next(one for one in node.args if one is not literal)
    what = "text" if operand(bundle, read, literal) == "text" else "a number"
    name = next((a.name for a in read.accesses if a.node.id == value.id), "this")
    return f"{name} is a version: compared with {what} it is an error for every device that has it"


def _semver(read: Expression, literal: Const) -> str:
    written = literal.value if isinstance(literal.value, str) else bare(read, literal)
    version = version_text(written)
    return f'semver("{version}")' if version else ""


def _help(version: str) -> str:
    return "" if version else 'write the version with three numbers: semver("8.0.0"), or ask for .major() == 8'


RULE = Rule(
    code="C203",
    name="version-as-text",
    family="cel",
    level="error",
    summary="a version compared with a string or a number",
    why=(
        "An attribute of type version is a semantic version in CEL, no string. Compared with one by == or >=, or as an"
        ' argument of isGreaterThan, it ends in "no such overload" when a device is looked at, and such an error ends'
        " the scheduling of the pod: it is tried again for ever. As texts, versions would be in the wrong order"
        ' besides: "10.0" comes before "9.0".'
    ),
    bad=examples.claim("ampere", selector='device.attributes["gpu.nvidia.com"].cudaComputeCapability >= "8.0"'),
    good=examples.claim(
        "ampere", selector='device.attributes["gpu.nvidia.com"].cudaComputeCapability.compareTo(semver("8.0.0")) >= 0'
    ),
    find=in_each(of_selector),
    fixable="safe or unsafe",
    see="https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-semver-library",
)
