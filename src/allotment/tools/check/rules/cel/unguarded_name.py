"""C207: names that are read of devices which do not have them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Final

from allotment.cel.device import DeviceInput
from allotment.cel.evaluation.values import EvaluationError
from allotment.cel.selector import Selector
from allotment.cel.source_spans import Extent
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Comprehension, Node
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import STANDARD
from allotment.tools.check.rule import Fix, Found, Level, Rule
from allotment.tools.check.selectors.device_types import presence
from allotment.tools.check.selectors.edits import replaced
from allotment.tools.check.selectors.expressions import Access, Expression, expression, read_selectors
from allotment.tools.check.selectors.reachability import Lack, lacking, reaching_access, selectors_passed
from allotment.tools.views import SelectorView

#: A line that becomes longer is broken.
_LONGEST: Final = 100
_AND: Final = " && "


def on_lines(view: SelectorView, extent: Extent, text: str) -> str:
    """``text``, which takes the place of a part of an expression, with a line break at its last ``&&`` if needed."""
    document = view.document
    before, joined, behind = text.rpartition(_AND)
    if not joined:
        return text
    lines = document.origin.source.removeprefix("\ufeff").split("\n")
    opening = document.extent(view.path)[0]
    start, end = document.extent(view.path, part=extent)
    if max(start.line, end.line) > len(lines) or lines[opening.line - 1][opening.column - 1 : opening.column] != "|":
        return text
    rest = len(lines[end.line - 1].rstrip()) - (end.column - 1)
    if start.column - 1 + len(text) + rest <= _LONGEST:
        return text
    line = view.expression[view.expression.rfind("\n", 0, extent[0]) + 1 :]
    margin = "\n" + line[: len(line) - len(line.lstrip(" "))]
    if "\n&&" in view.expression.replace(" ", ""):  # each line begins with what joins it to the one above
        return f"{before}{margin}{_AND.lstrip()}{behind}"
    return f"{before}{_AND.rstrip()}{margin}{behind}"


def reads(read: Expression, node: Node, wanted: Callable[[Access], bool], becomes: bool | None) -> bool:
    """Whether a node comes to ``becomes`` (None: to anything) only by reading a name that is ``wanted``."""
    names = {a.steps[1].node.id for a in read.accesses if a.name and not a.tolerant and wanted(a)}
    return _reads(node, names, becomes)


def _reads(node: Node, names: Container[int], becomes: bool | None) -> bool:
    if node.id in names:
        return True
    if isinstance(node, Comprehension):
        return _reads(node.iter_range, names, None)
    if not isinstance(node, Call):
        return any(_reads(one, names, None) for one in ast.children(node))
    match node.function:
        case ast.AND | ast.OR if becomes is None:
            return _reads(node, names, True) and _reads(node, names, False)
        case ast.AND | ast.OR:
            found = [_reads(one, names, becomes) for one in node.args]
            # One operand is enough for the value that decides; the other needs them all.
            return all(found) if becomes is (node.function == ast.OR) else any(found)
        case ast.NOT:
            return _reads(node.args[0], names, None if becomes is None else not becomes)
        case ast.CONDITIONAL:
            condition, *ways = node.args
            return all(
                _reads(condition, names, value) or _reads(way, names, becomes)
                for value, way in zip((True, False), ways, strict=True)
            )
        case "orValue" | "or" if node.target is not None:
            return _reads(node.target, names, None)
    return any(_reads(one, names, None) for one in ast.children(node))


def _find(bundle: Bundle) -> Iterator[Found]:
    """The accesses that are an error for a device which gets to them."""
    for view, read in read_selectors(bundle):
        told: set[tuple[str, str, str]] = set()
        for lack in lacking(bundle, view):
            access = lack.access
            foreign = any(not sort.driver for sort in lack.sorts)
            # The driver of a device decides for all names of a domain at once.
            key = (access.kind, access.domain, "" if foreign else access.name)
            if key in told or not _some_has(bundle, view, access):
                continue
            told.add(key)
            proof = _proof(bundle, view)
            level: Level | None = "error" if proof else None
            message = f"{_who(lack)}: one such device ends the scheduling of the pod"
            fix = _guard(view, read, access, foreign)
            yield Found(view.document, view.path, message, help=proof, fix=fix, level=level, part=access.extent)


def _who(lack: Lack) -> str:
    access = lack.access
    sort = next((one for one in lack.sorts if not one.driver), lack.sorts[0])
    name = access.name if sort.driver in ("", access.domain) else f"{access.domain}/{access.name}"
    what = f"{'capacity' if access.kind == 'capacity' else 'attribute'} {name}"
    if not sort.driver:
        return f"a device of another driver gets here and has no {what}"
    if lack.sometimes:
        return f"not every {str(sort).removeprefix('a ')} has {what}"
    return f"{sort} gets here and has no {what}"


def _some_has(bundle: Bundle, view: SelectorView, access: Access) -> bool:
    """Whether some device that gets there may have the name; if none has, that is the mistake."""
    return any(presence(access, sort) != "never" for sort in reaching_access(bundle, view, access) or ())


# --- against slices ----------------------------------------------------------------------------------------------


def _proof(bundle: Bundle, view: SelectorView) -> str:
    """A device of the given cluster for which the expression is an error, in a sentence; empty for none."""
    read = expression(bundle, view)
    passed = selectors_passed(bundle, view)
    if bundle.slices is None or read.selector is None or passed is None:
        return ""
    earlier = [one.selector for one in passed if one.selector is not None]
    if len(earlier) < len(passed):
        return ""
    for one in bundle.slices:
        for device in one.spec.devices or ():
            seen = DeviceInput(one.spec.driver, device)
            if _passes(earlier, seen) and _fails(read.selector, seen):
                return f"device {one.spec.driver}/{one.spec.pool.name}/{device.name} of the cluster is one"
    return ""


def _passes(earlier: list[Selector], seen: DeviceInput) -> bool:
    try:
        return all(selector.matches(seen) for selector in earlier)
    except EvaluationError:
        return False


def _fails(selector: Selector, seen: DeviceInput) -> bool:
    try:
        selector.matches(seen)
    except EvaluationError as error:
        return str(error).startswith("no such key")
    return False


# --- the guard -----------------------------------------------------------------------------------------------------


def _guard(view: SelectorView, read: Expression, access: Access, foreign: bool) -> Fix | None:
    """A condition in front that keeps out who has no such name."""
    operand = _operand(read, access)
    if operand is None or read.located is None:
        return None
    root = read.located.parsed.expr
    is_driver = access.domain != STANDARD and reads(read, root, lambda one: one.domain == access.domain, True)
    if foreign and view.where == "class" and not read.drivers and is_driver:
        test = f'device.driver == "{access.domain}" && '
        start, stop = read.outer(root)
        is_bare = (
            isinstance(root, Call) and root.function in (ast.OR, ast.CONDITIONAL) and read.extent(root)[0] == start
        )
        return _before(view, "ask for the driver first", test, start, stop if is_bare else None)
    domain = read.source[access.extent[0] : access.steps[0].extent[1]]
    start = read.extent(operand)[0]
    return _before(view, f"read {access.name} only where it is", f'"{access.name}" in {domain} && ', start)


def _before(view: SelectorView, words: str, test: str, start: int, stop: int | None = None) -> Fix:
    """A condition in front of what stands at ``start``; up to ``stop`` it gets parentheses. What it is for stays."""
    text = on_lines(view, (start, start), test if stop is None else f"{test}(")
    edits = [replaced(view, (start, start), text)]
    if stop is not None:
        edits.append(replaced(view, (stop, stop), ")"))
    return Fix(words, tuple((view.document, edit) for edit in edits), safe=True)


def _operand(read: Expression, access: Access) -> Node | None:
    """The smallest condition around an access that another can be put before: an operand of logic, or the whole.

    A negation counts as one where it cannot be true without the name: a device without it is then not selected,
    whatever is said of it.
    """

    def same(other: Access) -> bool:
        return (other.kind, other.domain, other.name) == (access.kind, access.domain, access.name)

    node: Node | None = None if read.located is None else read.located.parsed.expr
    while isinstance(node, Call) and node.function in (ast.AND, ast.OR, ast.CONDITIONAL, ast.NOT):
        if node.function == ast.NOT and reads(read, node, same, True):
            return node
        inside = next((one for one in node.args if _holds(read, one, access)), None)
        if inside is None:
            return None
        node = inside
    return node


def _holds(read: Expression, node: Node, access: Access) -> bool:
    start, stop = read.outer(node)
    return start <= access.extent[0] < access.extent[1] <= stop


RULE = Rule(
    code="C207",
    name="unguarded-name",
    family="cel",
    level="warning",
    summary="a name read of devices that do not have it",
    why=(
        "Reading a name that a device does not have is an error, and an error is not a no: the scheduler gives up on"
        " the pod and tries it again later, for ever, although other devices would fit. One device of another driver,"
        " or of another type, on any node that is looked at, is enough. A condition before it keeps such devices out:"
        " device.driver == ..., or the name in its domain. false && error is false, on either side of &&."
    ),
    bad=examples.device_class("ampere", 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'),
    good=examples.device_class(
        "ampere", 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].architecture == "Ampere"'
    ),
    find=_find,
    fixable="safe",
    see="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
