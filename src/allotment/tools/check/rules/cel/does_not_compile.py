"""C201: expressions that the API server's compiler refuses, for a reason that no other rule knows better."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from allotment.cel.checking.environment import environment
from allotment.cel.common_mistakes import VALUES
from allotment.cel.common_mistakes import mended as without_slips
from allotment.cel.errors import CompileError, Issue
from allotment.cel.source_spans import Extent
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Ident, Node, Select
from allotment.engine.diagnosis.published_names import likeness, near
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import SLIP, words_of
from allotment.tools.check.rule import Fix, Found, Rule
from allotment.tools.check.rules.cel import (
    capacity_in_attributes,
    no_domain,
    not_quantity,
    not_semver,
    quantity_as_number,
    quantity_operator,
    value_accessor,
    version_as_text,
)
from allotment.tools.check.selectors.compiler_errors import worded
from allotment.tools.check.selectors.edits import mended
from allotment.tools.check.selectors.expressions import Expression, read_selectors
from allotment.tools.check.selectors.missing_domains import meant
from allotment.tools.check.selectors.operands import operand
from allotment.tools.views import SelectorView
from allotment.vocabulary import drivers

_FIELDS: Final = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_SPECIAL: Final[tuple[Callable[[Bundle, SelectorView, Expression], Iterator[Found]], ...]] = (
    quantity_operator.of_selector,
    version_as_text.of_selector,
    value_accessor.of_selector,
    no_domain.of_selector,
    capacity_in_attributes.of_selector,
    not_semver.of_selector,
    quantity_as_number.of_selector,
    not_quantity.of_selector,
)
_OPPOSITE: Final = {ast.EQUALS: "!=", ast.NOT_EQUALS: "=="}
#: The API server's limit on an expression, in bytes.
_LONGEST: Final = 10_240


def _find(bundle: Bundle) -> Iterator[Found]:
    """The compiler's findings that nobody else explains."""
    for view, read in read_selectors(bundle):
        if not read.source:
            yield Found(
                view.document, view.path, "the expression is empty: the API server wants one that is true or false"
            )
        # One of more bytes is not compiled at all: the API server says so of the field.
        elif read.error is not None and len(read.source.encode("utf-8", "surrogatepass")) <= _LONGEST:
            yield from _of_selector(bundle, view, read, read.error)


def _of_selector(bundle: Bundle, view: SelectorView, read: Expression, error: CompileError) -> Iterator[Found]:
    if read.located is None:
        yield _unparsed(view, read, error)
        return
    special = [f.part for rule in _SPECIAL for f in rule(bundle, view, read) if f.part is not None]
    # What the compiler says of a part that is wrong already is no second mistake.
    issues = [one for one in error.issues if one.line > 0 and "!error!" not in one.message]
    if not issues and not special:
        text = str(error).splitlines()[0]
        yield Found(view.document, view.path, worded(text), help=_upstream(text))
    told: set[int] = set()
    for issue in issues:
        offset = read.offset(issue)
        node = _node_at(read, offset)
        if offset in told or _is_explained(read, node, offset, special):
            continue
        told.add(offset)
        fix = None if node is None else _mend(bundle, view, read, node, issue.message)
        extent = _extent(read, node, offset)
        help_text = "" if fix else _upstream(issue.message)
        yield Found(view.document, view.path, _sentence(node, issue.message), help=help_text, fix=fix, part=extent)
        if fix is not None:
            # What else is wrong may be of the same slip: the next look shows.
            return


def _unparsed(view: SelectorView, read: Expression, error: CompileError) -> Found:
    """The first thing that does not parse; if all that does not is a slip, it is mended at once."""
    issue: Issue | None = error.issues[0] if error.issues else None
    offset = -1 if issue is None else read.offset(issue)
    slips = without_slips(read.source)
    if slips is not None:
        first = slips.slips[0]
        words = ", ".join(dict.fromkeys(f"write {one.meant} for {one.written}" for one in slips.slips))
        start, stop, text = _difference(read.source, slips.expression)
        message = f"{first.written} is no part of CEL: write {first.meant}"
        return Found(view.document, view.path, message, fix=mended(view, words, (start, stop), text, safe=True),
                     part=first.extent)  # fmt: skip
    if issue is None or offset < 0:
        return Found(view.document, view.path, worded(str(error).splitlines()[0]))
    token = read.token_at(offset)
    extent = _end(read) if token is None else (token.pos, token.pos + len(token.text))
    return Found(view.document, view.path, worded(issue.message), part=extent)


def _difference(old: str, new: str) -> tuple[int, int, str]:
    """The piece of ``old`` that differs from ``new``, and what stands there."""
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start, len(old) - tail, new[start : len(new) - tail]


def _end(read: Expression) -> Extent:
    """The last letter of an expression that ends too early; all of one that has none."""
    last = len(read.source.rstrip())
    return (last - 1, last) if last else (0, len(read.source))


# --- where an issue is -----------------------------------------------------------------------------------------------


def _node_at(read: Expression, offset: int) -> Node | None:
    """The smallest node whose position is that of an issue."""
    here = [node for node in read.nodes if node.pos == offset and read.extent(node) != (0, 0)]
    return min(here, key=lambda node: read.extent(node)[1] - read.extent(node)[0], default=None)


def _is_explained(read: Expression, node: Node | None, offset: int, special: list[Extent]) -> bool:
    """Whether another finding stands at the place of an issue, or in what its operator joins."""
    start, stop = (offset, offset + 1) if node is None else read.extent(node)
    return any(part[0] <= offset < part[1] or (start <= part[0] and part[1] <= stop) for part in special)


def _extent(read: Expression, node: Node | None, offset: int) -> Extent:
    if node is not None:
        return read.extent(node)
    token = read.token_at(offset)
    return (offset, offset + 1) if token is None else (token.pos, token.pos + len(token.text))


def _sentence(node: Node | None, message: str) -> str:
    if isinstance(node, Call) and message.startswith("undeclared reference"):
        return f"CEL has no function {node.function}"
    return worded(message)


def _upstream(message: str) -> str:
    return f"the API server says: {message}"


# --- slips that parse ----------------------------------------------------------------------------------------------


def _mend(bundle: Bundle, view: SelectorView, read: Expression, node: Node, message: str) -> Fix | None:
    return next(
        (fix for mend in (_name, _field, _negated, _function) if (fix := mend(bundle, view, read, node)) is not None),
        None,
    )


def _name(bundle: Bundle, view: SelectorView, read: Expression, node: Node) -> Fix | None:
    """A name that is none: ``True``, ``attributes`` without its device, a domain without quotes."""
    if not isinstance(node, Ident):
        return None
    extent = read.extent(node)
    if node.name in VALUES:
        return mended(view, f"write {VALUES[node.name]}", extent, VALUES[node.name], safe=True)
    if node.name in _FIELDS:
        return mended(view, f"write device.{node.name}", extent, f"device.{node.name}", safe=True)
    for call in read.nodes:
        # device.attributes[gpu.nvidia.com] is taken apart at its dots.
        if isinstance(call, Call) and call.function == ast.INDEX:
            start, stop = read.extent(call.args[1])
            if start <= extent[0] < stop and _is_plain(call.args[1]):
                quoted = f'"{"".join(read.source[start:stop].split())}"'
                return mended(view, f"write {quoted}", (start, stop), quoted, safe=True)
    for chain in read.nodes:
        # The name of a driver, without the quotes of a text.
        start, stop = read.extent(chain)
        if (
            isinstance(chain, Select)
            and start == extent[0]
            and _is_plain(chain)
            and read.source[start:stop] in drivers()
        ):
            quoted = f'"{read.source[start:stop]}"'
            return mended(view, f"write {quoted}", (start, stop), quoted, safe=True)
    close = near(node.name, ["device"], 1)
    return mended(view, "write device", extent, "device", safe=True) if close else None


def _is_plain(node: Node) -> bool:
    while isinstance(node, Select) and not node.test_only:
        node = node.operand
    return isinstance(node, Ident)


def _field(bundle: Bundle, view: SelectorView, read: Expression, node: Node) -> Fix | None:
    """``device.capacities``, ``device.attribute``."""
    if not isinstance(node, Select) or not isinstance(node.operand, Ident) or node.operand.name != "device":
        return None
    close = near(node.field, _FIELDS, 1)
    stop = read.extent(node)[1]
    start = stop - len(node.field)
    if close:
        return mended(view, f"write {close[0]}", (start, stop), close[0], safe=True)
    place = meant(bundle, view, read, node.field, "attributes")
    words = None if place is None else words_of(bundle, place.domain)
    if place is None or words is None:
        return None
    names = (*words.attributes_by_name, *words.capacities_by_name, *(f"{words.domain}/{one}" for one in words.guessed))
    if f"{place.domain}/{node.field}" not in names:
        return None
    text = f'{place.kind}["{place.domain}"].{node.field}'
    return mended(view, f"look it up in {place.domain}: {place.why}", (start, stop), text, safe=False)


def _negated(bundle: Bundle, view: SelectorView, read: Expression, node: Node) -> Fix | None:
    """``!x == y``, in which ``!`` is for x alone."""
    if not isinstance(node, Call) or node.function not in _OPPOSITE or not isinstance(node.args[0], Call):
        return None
    left, right = node.args
    if not isinstance(left, Call) or left.function != ast.NOT or read.outer(left) != read.extent(left):
        return None
    sign = _OPPOSITE[node.function]
    text = f"{read.text(left.args[0])} {sign} {read.text(right)}"
    return mended(view, f"compare with {sign}", read.extent(node), text, safe=True)


def _function(bundle: Bundle, view: SelectorView, read: Expression, node: Node) -> Fix | None:
    """``not(x)``, and functions whose names are misspelt: ``startswith``, ``toLowerCase``."""
    if not isinstance(node, Call) or not node.function.isidentifier():
        return None
    if node.function == "not" and node.target is None and len(node.args) == 1:
        start = read.extent(node)[0]
        at = next(t for t in read.tokens if t.pos >= start)
        return mended(view, "write ! for not", (at.pos, at.pos + len(at.text)), "!", safe=True)
    if node.function == "quantity" and node.target is None and len(node.args) == 1:
        if operand(bundle, read, node.args[0]) == "quantity":
            return mended(view, "leave out quantity: it is one", read.extent(node), read.text(node.args[0]), safe=True)
        return None
    declared = environment(bundle.features, "new").functions
    if node.function in declared:
        return None
    known = [
        name for name, one in declared.items() if name.isidentifier() and (one.members if node.target else one.globals)
    ]
    elsewhere = _OTHER_LANGUAGES.get(node.function, "")
    close = (
        [elsewhere]
        if elsewhere in known
        else [n for n in near(node.function, known, 1) if likeness(node.function, n) >= SLIP]
    )
    if not close:
        return None
    opened = max(n for n, t in enumerate(read.tokens) if t.pos <= node.pos and t.kind == "(")
    token = read.tokens[opened - 1]
    return mended(view, f"write {close[0]}", (token.pos, token.pos + len(token.text)), close[0],
                  safe=node.function.lower() == close[0].lower() or bool(elsewhere))  # fmt: skip


#: What functions are called elsewhere.
_OTHER_LANGUAGES: Final = {
    **dict.fromkeys(("toLowerCase", "toLower", "lower", "lowerCase", "to_lower"), "lowerAscii"),
    **dict.fromkeys(("toUpperCase", "toUpper", "upper", "upperCase", "to_upper"), "upperAscii"),
    **dict.fromkeys(("hasPrefix", "starts_with", "beginsWith"), "startsWith"),
    **dict.fromkeys(("hasSuffix", "ends_with"), "endsWith"),
    **dict.fromkeys(("match", "matchesRegex", "regexMatch", "test"), "matches"),
    **dict.fromkeys(("len", "length", "count"), "size"),
    **dict.fromkeys(("greaterThan", "isGreater", "gt"), "isGreaterThan"),
    **dict.fromkeys(("lessThan", "isLess", "lt"), "isLessThan"),
    **dict.fromkeys(("compare", "cmp"), "compareTo"),
    **dict.fromkeys(("has_value", "isPresent", "present"), "hasValue"),
    **dict.fromkeys(("getOrElse", "orElse", "or_value", "orDefault"), "orValue"),
    "version": "semver",
}  # fmt: skip


RULE = Rule(
    code="C201",
    name="does-not-compile",
    family="cel",
    level="error",
    summary="an expression that CEL's compiler refuses",
    why=(
        "The API server compiles the selectors of classes, claims and templates before it stores them, and refuses the"
        " object (422, Invalid value) where one does not compile, is of another type than bool, or speaks of more than"
        " device. CEL looks like C: == compares, && and || and ! join, texts stand in straight quotes."
    ),
    bad=examples.device_class(
        "whole-gpu", 'device.driver = "gpu.nvidia.com" and device.attributes["gpu.nvidia.com"].type == "gpu"'
    ),
    good=examples.device_class(
        "whole-gpu", 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"'
    ),
    find=_find,
    fixable="safe or unsafe",
    see="https://github.com/google/cel-spec/blob/master/doc/langdef.md",
)
