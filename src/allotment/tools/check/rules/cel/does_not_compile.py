"""C201: expressions that the API server's compiler rejects, for a reason that no other rule explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from allotment.cel.checking.environment import environment
from allotment.cel.common_mistakes import FOREIGN_LITERALS, fix_mistakes
from allotment.cel.errors import CompileError, Issue
from allotment.cel.readable_errors import readable_message
from allotment.cel.source_spans import TextSpan
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Ident, Node, Select
from allotment.engine.diagnosis.published_names import similar_names, similarity
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import TYPO_SIMILARITY, vocabulary_of
from allotment.tools.check.rule import Fix, Rule, RuleMatch
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
#: The API server's limit on the length of an expression, in bytes.
_MAX_BYTES: Final = 10_240


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Compiler errors that no other rule explains."""
    for view, expr in parsed_selectors(bundle):
        if not expr.source:
            yield RuleMatch(view.document, view.path, "the expression is empty; expected an expression of type bool")
        # The API server does not compile a longer one; S109 reports it.
        elif expr.error is not None and len(expr.source.encode("utf-8", "surrogatepass")) <= _MAX_BYTES:
            yield from _of_selector(bundle, view, expr, expr.error)


def _of_selector(bundle: Bundle, view: SelectorView, expr: Expression, error: CompileError) -> Iterator[RuleMatch]:
    if expr.located is None:
        yield _syntax_error(view, expr, error)
        return
    covered = [f.span for rule in _SPECIFIC_RULES for f in rule(bundle, view, expr) if f.span is not None]
    # Errors about operands that already have an error are no separate mistakes.
    issues = [item for item in error.issues if item.line > 0 and "!error!" not in item.message]
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
            # The fix may also remove other errors, so those are reported in the next pass.
            return


def _syntax_error(view: SelectorView, expr: Expression, error: CompileError) -> RuleMatch:
    """The first syntax error; if all syntax errors are common mistakes, one fix corrects them."""
    issue: Issue | None = error.issues[0] if error.issues else None
    offset = -1 if issue is None else expr.offset(issue)
    mistakes = fix_mistakes(expr.source)
    if mistakes is not None:
        first_mistake = mistakes.mistakes[0]
        replacements = (f"replace {mistake.text} with {mistake.replacement}" for mistake in mistakes.mistakes)
        description = ", ".join(dict.fromkeys(replacements))
        start, stop, text = _changed_part(expr.source, mistakes.expression)
        fix = replacement_fix(view, description, (start, stop), text, safe=True)
        return RuleMatch(view.document, view.path, first_mistake.sentence, fix=fix, span=first_mistake.span)
    if issue is None or offset < 0:
        return RuleMatch(view.document, view.path, readable_message(str(error).splitlines()[0]))
    token = expr.token_at(offset)
    extent = _last_character(expr) if token is None else (token.pos, token.pos + len(token.text))
    return RuleMatch(view.document, view.path, readable_message(issue.message), span=extent)


def _changed_part(old: str, new: str) -> tuple[int, int, str]:
    """The extent of ``old`` that differs from ``new``, and its replacement."""
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start, len(old) - tail, new[start : len(new) - tail]


def _last_character(expr: Expression) -> TextSpan:
    """The extent of the last character of an incomplete expression; of the whole expression if it is blank."""
    last = len(expr.source.rstrip())
    return (last - 1, last) if last else (0, len(expr.source))


# --- positions of errors ---------------------------------------------------------------------------------------------


def _node_at(expr: Expression, offset: int) -> Node | None:
    """The smallest node at the position of an error."""
    candidates = [node for node in expr.nodes if node.pos == offset and expr.extent(node) != (0, 0)]
    return min(candidates, key=lambda node: expr.extent(node)[1] - expr.extent(node)[0], default=None)


def _is_covered(expr: Expression, node: Node | None, offset: int, covered: list[TextSpan]) -> bool:
    """Whether another finding is at the position of an error, or in the operands of its node."""
    start, stop = (offset, offset + 1) if node is None else expr.extent(node)
    return any(span[0] <= offset < span[1] or (start <= span[0] and span[1] <= stop) for span in covered)


def _extent(expr: Expression, node: Node | None, offset: int) -> TextSpan:
    if node is not None:
        return expr.extent(node)
    token = expr.token_at(offset)
    return (offset, offset + 1) if token is None else (token.pos, token.pos + len(token.text))


def _message(node: Node | None, message: str) -> str:
    if isinstance(node, Call) and message.startswith("undeclared reference"):
        return f"CEL has no function {node.function}"
    return readable_message(message)


def _server_message(message: str) -> str:
    return f"the API server reports: {message}"


# --- fixes ---------------------------------------------------------------------------------------------------------


def _fix(bundle: Bundle, view: SelectorView, expr: Expression, node: Node, message: str) -> Fix | None:
    return next(
        (
            fix
            for attempt in (_fix_identifier, _fix_field, _fix_negation, _fix_function)
            if (fix := attempt(bundle, view, expr, node)) is not None
        ),
        None,
    )


def _fix_identifier(bundle: Bundle, view: SelectorView, expr: Expression, node: Node) -> Fix | None:
    """An undefined identifier: ``True``, ``attributes`` without ``device``, a domain without quotes."""
    if not isinstance(node, Ident):
        return None
    extent = expr.extent(node)
    if node.name in FOREIGN_LITERALS:
        return replacement_fix(
            view, f"write {FOREIGN_LITERALS[node.name]}", extent, FOREIGN_LITERALS[node.name], safe=True
        )
    if node.name in _FIELDS:
        return replacement_fix(view, f"write device.{node.name}", extent, f"device.{node.name}", safe=True)
    for call in expr.nodes:
        # device.attributes[gpu.nvidia.com] parses as a chain of selections.
        if isinstance(call, Call) and call.function == ast.INDEX:
            start, stop = expr.extent(call.args[1])
            if start <= extent[0] < stop and _is_plain(call.args[1]):
                quoted = f'"{"".join(expr.source[start:stop].split())}"'
                return replacement_fix(view, f"write {quoted}", (start, stop), quoted, safe=True)
    for chain in expr.nodes:
        # A driver's name without quotes.
        start, stop = expr.extent(chain)
        if (
            isinstance(chain, Select)
            and start == extent[0]
            and _is_plain(chain)
            and expr.source[start:stop] in drivers()
        ):
            quoted = f'"{expr.source[start:stop]}"'
            return replacement_fix(view, f"write {quoted}", (start, stop), quoted, safe=True)
    similar = similar_names(node.name, ["device"], 1)
    return replacement_fix(view, "write device", extent, "device", safe=True) if similar else None


def _is_plain(node: Node) -> bool:
    while isinstance(node, Select) and not node.test_only:
        node = node.operand
    return isinstance(node, Ident)


def _fix_field(bundle: Bundle, view: SelectorView, expr: Expression, node: Node) -> Fix | None:
    """A wrong field of the device: ``device.capacities``, ``device.attribute``."""
    if not isinstance(node, Select) or not isinstance(node.operand, Ident) or node.operand.name != "device":
        return None
    similar = similar_names(node.field, _FIELDS, 1)
    stop = expr.extent(node)[1]
    start = stop - len(node.field)
    if similar:
        return replacement_fix(view, f"write {similar[0]}", (start, stop), similar[0], safe=True)
    guess = guess_domain(bundle, view, expr, node.field, "attributes")
    vocab = None if guess is None else vocabulary_of(bundle, guess.domain)
    if guess is None or vocab is None:
        return None
    names = (
        *vocab.attributes_by_name,
        *vocab.capacities_by_name,
        *(f"{vocab.domain}/{name}" for name in vocab.guessed),
    )
    if f"{guess.domain}/{node.field}" not in names:
        return None
    text = f'{guess.kind}["{guess.domain}"].{node.field}'
    return replacement_fix(view, f"read it from domain {guess.domain}: {guess.reason}", (start, stop), text, safe=False)


def _fix_negation(bundle: Bundle, view: SelectorView, expr: Expression, node: Node) -> Fix | None:
    """``!x == y``, in which ``!`` only applies to x."""
    if not isinstance(node, Call) or node.function not in _OPPOSITE or not isinstance(node.args[0], Call):
        return None
    left, right = node.args
    if not isinstance(left, Call) or left.function != ast.NOT or expr.outer(left) != expr.extent(left):
        return None
    operator = _OPPOSITE[node.function]
    text = f"{expr.text(left.args[0])} {operator} {expr.text(right)}"
    return replacement_fix(view, f"compare with {operator}", expr.extent(node), text, safe=True)


def _fix_function(bundle: Bundle, view: SelectorView, expr: Expression, node: Node) -> Fix | None:
    """``not(x)``, and misspelled functions: ``startswith``, ``toLowerCase``."""
    if not isinstance(node, Call) or not node.function.isidentifier():
        return None
    if node.function == "not" and node.target is None and len(node.args) == 1:
        start = expr.extent(node)[0]
        not_token = next(t for t in expr.tokens if t.pos >= start)
        return replacement_fix(
            view, "replace not with !", (not_token.pos, not_token.pos + len(not_token.text)), "!", safe=True
        )
    if node.function == "quantity" and node.target is None and len(node.args) == 1:
        if operand_kind(bundle, expr, node.args[0]) == "quantity":
            return replacement_fix(
                view,
                "remove quantity(): the value is already a quantity",
                expr.extent(node),
                expr.text(node.args[0]),
                safe=True,
            )
        return None
    declared = environment(bundle.features, "new").functions
    if node.function in declared:
        return None
    available = [
        name
        for name, function in declared.items()
        if name.isidentifier() and (function.members if node.target else function.globals)
    ]
    translated = _FOREIGN_NAMES.get(node.function, "")
    suggestions = (
        [translated]
        if translated in available
        else [n for n in similar_names(node.function, available, 1) if similarity(node.function, n) >= TYPO_SIMILARITY]
    )
    if not suggestions:
        return None
    parenthesis = max(n for n, t in enumerate(expr.tokens) if t.pos <= node.pos and t.kind == "(")
    token = expr.tokens[parenthesis - 1]
    return replacement_fix(view, f"write {suggestions[0]}", (token.pos, token.pos + len(token.text)), suggestions[0],
                  safe=node.function.lower() == suggestions[0].lower() or bool(translated))  # fmt: skip


#: Names of functions in other languages.
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
    summary="the CEL compiler rejects the expression",
    why=(
        "The API server compiles the selectors of classes, claims and templates before it stores them, and rejects "
        "the object (422, Invalid value) if an expression does not compile, evaluates to a type other than bool, or "
        "references anything other than device. CEL's syntax is similar to that of C: == compares values; &&, || and "
        "! combine conditions; strings are enclosed in straight quotes."
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
