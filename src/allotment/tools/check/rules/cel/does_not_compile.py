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
from allotment.tools.check.names.known_names import TYPO_LIKENESS, vocabulary_of
from allotment.tools.check.rule import Fix, RuleMatch, Rule
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
from allotment.tools.check.selectors.compiler_errors import readable_message
from allotment.tools.check.selectors.edits import replacement_fix
from allotment.tools.check.selectors.expressions import Expression, parsed_selectors
from allotment.tools.check.selectors.missing_domains import guess_domain
from allotment.tools.check.selectors.operands import operand_kind
from allotment.tools.views import SelectorView
from allotment.vocabulary import drivers

_FIELDS: Final = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_SPECIFIC_RULES: Final[tuple[Callable[[Bundle, SelectorView, Expression], Iterator[RuleMatch]], ...]] = (
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
_MAX_BYTES: Final = 10_240


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """The compiler's findings that nobody else explains."""
    for view, expr in parsed_selectors(bundle):
        if not expr.source:
            yield RuleMatch(
                view.document, view.path, "the expression is empty: the API server wants one that is true or false"
            )
        # One of more bytes is not compiled at all: the API server says so of the field.
        elif expr.error is not None and len(expr.source.encode("utf-8", "surrogatepass")) <= _MAX_BYTES:
            yield from _of_selector(bundle, view, expr, expr.error)


def _of_selector(bundle: Bundle, view: SelectorView, expr: Expression, error: CompileError) -> Iterator[RuleMatch]:
    if expr.located is None:
        yield _syntax_error(view, expr, error)
        return
    covered = [f.span for rule in _SPECIFIC_RULES for f in rule(bundle, view, expr) if f.span is not None]
    # What the compiler says of a part that is wrong already is no second mistake.
    issues = [one for one in error.issues if one.line > 0 and "!error!" not in one.message]
    if not issues and not covered:
        text = str(error).splitlines()[0]
        yield RuleMatch(view.document, view.path, readable_message(text), help=_server_message(text))
    reported: set[int] = set()
    for issue in issues:
        offset = expr.offset(issue)
        node = _node_at(expr, offset)
        if offset in reported or _is_covered(expr, node, offset, covered):
            continue
        reported.add(offset)
        fix = None if node is None else _fix(bundle, view, expr, node, issue.message)
        extent = _extent(expr, node, offset)
        help_text = "" if fix else _server_message(issue.message)
        yield RuleMatch(view.document, view.path, _message(node, issue.message), help=help_text, fix=fix, span=extent)
        if fix is not None:
            # What else is wrong may be of the same slip: the next look shows.
            return


def _syntax_error(view: SelectorView, expr: Expression, error: CompileError) -> RuleMatch:
    """The first thing that does not parse; if all that does not is a slip, it is mended at once."""
    issue: Issue | None = error.issues[0] if error.issues else None
    offset = -1 if issue is None else expr.offset(issue)
    mistakes = without_slips(expr.source)
    if mistakes is not None:
        first_mistake = mistakes.slips[0]
        description = ", ".join(dict.fromkeys(f"write {mistake.meant} for {mistake.written}" for mistake in mistakes.slips))
        start, stop, text = _changed_part(expr.source, mistakes.expression)
        message = f"{first_mistake.written} is no part of CEL: write {first_mistake.meant}"
        return RuleMatch(view.document, view.path, message, fix=replacement_fix(view, description, (start, stop), text, safe=True),
                     span=first_mistake.extent)  # fmt: skip
    if issue is None or offset < 0:
        return RuleMatch(view.document, view.path, readable_message(str(error).splitlines()[0]))
    token = expr.token_at(offset)
    extent = _last_character(expr) if token is None else (token.pos, token.pos + len(token.text))
    return RuleMatch(view.document, view.path, readable_message(issue.message), span=extent)


def _changed_part(old: str, new: str) -> tuple[int, int, str]:
    """The piece of ``old`` that differs from ``new``, and what stands there."""
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start, len(old) - tail, new[start : len(new) - tail]


def _last_character(expr: Expression) -> Extent:
    """The last letter of an expression that ends too early; all of one that has none."""
    last = len(expr.source.rstrip())
    return (last - 1, last) if last else (0, len(expr.source))


# --- where an issue is -----------------------------------------------------------------------------------------------


def _node_at(expr: Expression, offset: int) -> Node | None:
    """The smallest node whose position is that of an issue."""
    candidates = [node for node in expr.nodes if node.pos == offset and expr.extent(node) != (0, 0)]
    return min(candidates, key=lambda node: expr.extent(node)[1] - expr.extent(node)[0], default=None)


def _is_covered(expr: Expression, node: Node | None, offset: int, covered: list[Extent]) -> bool:
    """Whether another finding stands at the place of an issue, or in what its operator joins."""
    start, stop = (offset, offset + 1) if node is None else expr.extent(node)
    return any(span[0] <= offset < span[1] or (start <= span[0] and span[1] <= stop) for span in covered)


def _extent(expr: Expression, node: Node | None, offset: int) -> Extent:
    if node is not None:
        return expr.extent(node)
    token = expr.token_at(offset)
    return (offset, offset + 1) if token is None else (token.pos, token.pos + len(token.text))


def _message(node: Node | None, message: str) -> str:
    if isinstance(node, Call) and message.startswith("undeclared reference"):
        return f"CEL has no function {node.function}"
    return readable_message(message)


def _server_message(message: str) -> str:
    return f"the API server says: {message}"


# --- slips that parse ----------------------------------------------------------------------------------------------


def _fix(bundle: Bundle, view: SelectorView, expr: Expression, node: Node, message: str) -> Fix | None:
    return next(
        (fix for attempt in (_fix_identifier, _fix_field, _fix_negation, _fix_function) if (fix := attempt(bundle, view, expr, node)) is not None),
        None,
    )


def _fix_identifier(bundle: Bundle, view: SelectorView, expr: Expression, node: Node) -> Fix | None:
    """A name that is none: ``True``, ``attributes`` without its device, a domain without quotes."""
    if not isinstance(node, Ident):
        return None
    extent = expr.extent(node)
    if node.name in VALUES:
        return replacement_fix(view, f"write {VALUES[node.name]}", extent, VALUES[node.name], safe=True)
    if node.name in _FIELDS:
        return replacement_fix(view, f"write device.{node.name}", extent, f"device.{node.name}", safe=True)
    for call in expr.nodes:
        # device.attributes[gpu.nvidia.com] is taken apart at its dots.
        if isinstance(call, Call) and call.function == ast.INDEX:
            start, stop = expr.extent(call.args[1])
            if start <= extent[0] < stop and _is_plain(call.args[1]):
                quoted = f'"{"".join(expr.source[start:stop].split())}"'
                return replacement_fix(view, f"write {quoted}", (start, stop), quoted, safe=True)
    for chain in expr.nodes:
        # The name of a driver, without the quotes of a text.
        start, stop = expr.extent(chain)
        if (
            isinstance(chain, Select)
            and start == extent[0]
            and _is_plain(chain)
            and expr.source[start:stop] in drivers()
        ):
            quoted = f'"{expr.source[start:stop]}"'
            return replacement_fix(view, f"write {quoted}", (start, stop), quoted, safe=True)
    similar = near(node.name, ["device"], 1)
    return replacement_fix(view, "write device", extent, "device", safe=True) if similar else None


def _is_plain(node_: Node) -> bool:
    while isinstance(node_, Select) and not node_.test_only:
        node_ = node_.operand
    return isinstance(node_, Ident)


def _fix_field(bundle: Bundle, view: SelectorView, expr: Expression, node: Node) -> Fix | None:
    """``device.capacities``, ``device.attribute``."""
    if not isinstance(node, Select) or not isinstance(node.operand, Ident) or node.operand.name != "device":
        return None
    similar = near(node.field, _FIELDS, 1)
    stop = expr.extent(node)[1]
    start = stop - len(node.field)
    if similar:
        return replacement_fix(view, f"write {similar[0]}", (start, stop), similar[0], safe=True)
    guess = guess_domain(bundle, view, expr, node.field, "attributes")
    vocab = None if guess is None else vocabulary_of(bundle, guess.domain)
    if guess is None or vocab is None:
        return None
    names = (*vocab.attributes_by_name, *vocab.capacities_by_name, *(f"{vocab.domain}/{name}" for name in vocab.guessed))
    if f"{guess.domain}/{node.field}" not in names:
        return None
    text = f'{guess.kind}["{guess.domain}"].{node.field}'
    return replacement_fix(view, f"look it up in {guess.domain}: {guess.reason}", (start, stop), text, safe=False)


def _fix_negation(bundle: Bundle, view: SelectorView, expr: Expression, node: Node) -> Fix | None:
    """``!x == y``, in which ``!`` is for x alone."""
    if not isinstance(node, Call) or node.function not in _OPPOSITE or not isinstance(node.args[0], Call):
        return None
    left, right = node.args
    if not isinstance(left, Call) or left.function != ast.NOT or expr.outer(left) != expr.extent(left):
        return None
    operator = _OPPOSITE[node.function]
    text = f"{expr.text(left.args[0])} {operator} {expr.text(right)}"
    return replacement_fix(view, f"compare with {operator}", expr.extent(node), text, safe=True)


def _fix_function(bundle: Bundle, view: SelectorView, expr: Expression, node: Node) -> Fix | None:
    """``not(x)``, and functions whose names are misspelt: ``startswith``, ``toLowerCase``."""
    if not isinstance(node, Call) or not node.function.isidentifier():
        return None
    if node.function == "not" and node.target is None and len(node.args) == 1:
        start = expr.extent(node)[0]
        not_token = next(t for t in expr.tokens if t.pos >= start)
        return replacement_fix(view, "write ! for not", (not_token.pos, not_token.pos + len(not_token.text)), "!", safe=True)
    if node.function == "quantity" and node.target is None and len(node.args) == 1:
        if operand_kind(bundle, expr, node.args[0]) == "quantity":
            return replacement_fix(view, "leave out quantity: it is one", expr.extent(node), expr.text(node.args[0]), safe=True)
        return None
    declared = environment(bundle.features, "new").functions
    if node.function in declared:
        return None
    available = [
        name for name, function in declared.items() if name.isidentifier() and (function.members if node.target else function.globals)
    ]
    translated = _FOREIGN_NAMES.get(node.function, "")
    suggestions = (
        [translated]
        if translated in available
        else [n for n in near(node.function, available, 1) if likeness(node.function, n) >= TYPO_LIKENESS]
    )
    if not suggestions:
        return None
    parenthesis = max(n for n, t in enumerate(expr.tokens) if t.pos <= node.pos and t.kind == "(")
    token = expr.tokens[parenthesis - 1]
    return replacement_fix(view, f"write {suggestions[0]}", (token.pos, token.pos + len(token.text)), suggestions[0],
                  safe=node.function.lower() == suggestions[0].lower() or bool(translated))  # fmt: skip


#: What functions are called elsewhere.
_FOREIGN_NAMES: Final = {
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
