"""Which sorts of device an expression is evaluated for, and what becomes of it where a name is missing.

A sort is a driver's type of device, as its vocabulary has it, or some device of a driver that nobody thought of. An
expression is evaluated for each with what is certain of it: its driver, its type, which names it has. What is not
certain counts as anything. So guards are understood in whatever way they are written, as CEL understands them: a
false operand of ``&&`` swallows the error of another on either side of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import Final, NamedTuple, TypeAlias

from allotment.cel.running.values import Value
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, ListExpr, Node, Select
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.expressions import Access, Expression, expression, expression_of
from allotment.tools.views import SelectorView
from allotment.vocabulary import Vocabulary, vocabulary
from allotment.vocabulary.drivers import installed_classes

#: The domain of names that several drivers publish (KEP-4381).
STANDARD: Final = "resource.kubernetes.io"
#: With more names than these that a device may lack, they are taken away one at a time.
_MOST_TOGETHER: Final = 4


class Sort(NamedTuple):
    """Devices of a driver and type; no ``driver`` for devices of one that nobody thought of."""

    driver: str
    type: str
    words: Vocabulary | None

    def __str__(self) -> str:
        if not self.driver:
            return "a device of another driver"
        return f"a device of {self.driver}" + (f" of type {self.type}" if self.type else "")


class Name(NamedTuple):
    """An attribute or capacity, as an expression names it."""

    kind: str
    domain: str
    name: str


class Lack(NamedTuple):
    """An access that is an error for some devices that get to it: ``sorts`` never have it, or, ``sometimes``, may."""

    access: Access
    sorts: tuple[Sort, ...]
    sometimes: bool


def reaching(bundle: Bundle, view: SelectorView) -> tuple[Sort, ...] | None:
    """The sorts of device that the selectors before this one let through; None where nobody can tell.

    Those are the selectors of the request's class, from the files, the given cluster or a driver's chart, and those
    that stand above in the same list.
    """
    own = expression(bundle, view)
    passed = selectors_passed(bundle, view)
    if passed is not None:
        if any(one.located is None for one in passed):
            return None
        return _through(_sorts(bundle, [own, *passed]), passed)
    installed = installed_classes().get(view.class_name)
    if installed is None or view.where == "fragment":
        return None
    driver, term = installed
    return _through((Sort(driver, t, words_of(bundle, driver)) for t in term.types or ("",)), _above(bundle, view))


def selectors_passed(bundle: Bundle, view: SelectorView) -> list[Expression] | None:
    """The selectors that a device has passed when this one looks at it: its class's, and those above in its list.

    None where the class stands neither in the files nor in the given cluster.
    """
    if view.where == "class":
        return _above(bundle, view)
    if view.where == "fragment" or not view.class_name:
        return None
    made = next((one for one in bundle.classes if one.name == view.class_name), None)
    if made is not None:
        selectors = [expression(bundle, one) for one in made.selectors]
    elif view.class_name in bundle.known_classes:
        found = bundle.known_classes[view.class_name].spec.selectors or ()
        selectors = [expression_of(bundle, one.cel.expression) for one in found if one.cel is not None]
    else:
        return None
    return [*selectors, *_above(bundle, view)]


def reaching_access(bundle: Bundle, view: SelectorView, access: Access) -> tuple[Sort, ...] | None:
    """The sorts of device for which an access decides: that get to the selector, and that no other conjunct of it
    rules out. None where nobody can tell."""
    sorts = reaching(bundle, view)
    if sorts is None:
        return None
    read = expression(bundle, view)
    start, stop = access.extent
    others = [term.node for term in read.conjuncts if not term.start <= start < stop <= term.stop]
    return tuple(sort for sort in sorts if all(_may_hold(read, node, sort) for node in others))


def drivers_meant(bundle: Bundle, view: SelectorView) -> tuple[str, ...]:
    """The known drivers whose devices a selector can select, by what else is known of it; none where nobody can tell.

    A fragment, and a request of a class that nobody knows, have their own expression only.
    """
    read = expression(bundle, view)
    sorts = reaching(bundle, view)
    if sorts is None:
        sorts = _sorts(bundle, [read])
        tested = bool(read.drivers)
    else:
        tested = True
    holding = [s for s in sorts if all(_may_hold(read, term.node, s) for term in read.conjuncts)]
    if not tested or any(not sort.driver for sort in holding):
        return ()
    return tuple(dict.fromkeys(sort.driver for sort in holding))


def lacking(bundle: Bundle, view: SelectorView) -> Iterator[Lack]:
    """The accesses that make evaluation an error for some device that gets there, by position.

    Names that no driver of their domain publishes are left out, as is everything where nobody can tell what gets there.
    """
    read = expression(bundle, view)
    if all(access.tolerant or not access.name for access in read.accesses):
        return
    sorts = reaching(bundle, view)
    if not sorts or read.located is None:
        return
    blamed: dict[int, tuple[list[Sort], bool]] = {}
    for sort in sorts:
        for lacks in _assignments(read, sort):
            for outcome in _Evaluation(read, sort, lacks).outcomes(read.located.parsed.expr):
                if isinstance(outcome, _Missing):
                    for number in outcome.accesses:
                        known = blamed.setdefault(number, ([], False))
                        sometimes = presence(read.accesses[number], sort) == "sometimes"
                        if sort not in known[0]:
                            known[0].append(sort)
                        blamed[number] = (known[0], known[1] or sometimes)
    for number, (found, sometimes) in sorted(blamed.items()):
        yield Lack(read.accesses[number], tuple(found), sometimes)


def presence(access: Access, sort: Sort) -> str:
    """Whether devices of a sort have a name: ``always``, ``sometimes``, ``never``; ``unknown`` where none can tell."""
    name = Name(access.kind, access.domain, access.name)
    term = _term(sort.words, name) if sort.words is not None else None
    if term is not None:
        return term.get(sort.type) or term.get("") or "never"
    if sort.words is None and sort.driver and sort.driver == name.domain:
        return "unknown"
    words = vocabulary(name.domain)
    if words is not None and _term(words, name) is None:
        return "unknown"  # a name that the domain's own driver does not publish: another mistake
    if "." not in name.domain:
        return "unknown"  # hardly a domain
    # Of devices of who knows which driver, some have the names that drivers share.
    return "sometimes" if name.domain == STANDARD and not sort.driver else "never"


def words_of(bundle: Bundle, driver: str) -> Vocabulary | None:
    """The words of a driver in the release that the files are checked for; None for one that is not known."""
    return vocabulary(driver, bundle.settings.drivers.get(driver, ""))


def _term(words: Vocabulary, name: Name) -> Mapping[str, str] | None:
    term = (words.attribute if name.kind == "attributes" else words.capacity)(name.domain, name.name)
    return None if term is None else term.on


# --- what gets there -------------------------------------------------------------------------------------------------


def _above(bundle: Bundle, view: SelectorView) -> list[Expression]:
    """The selectors above this one in its list."""
    depth = next((len(view.path) - n for n, s in enumerate(reversed(view.path), 1) if isinstance(s, int)), -1)
    if depth < 0 or view.path[depth] == 0:
        return []
    siblings = (one for one in bundle.selectors if one.document is view.document and len(one.path) == len(view.path))
    number = view.path[depth]
    return [
        expression(bundle, one)
        for one in siblings
        if one.path[:depth] == view.path[:depth] and isinstance(n := one.path[depth], int) and n < int(number)
    ]


def _sorts(bundle: Bundle, read: Iterable[Expression]) -> tuple[Sort, ...]:
    """The sorts of device that expressions tell apart: those of the drivers that they name, and all others as one.

    Types that there are only where somebody wanted them count where an expression speaks of them.
    """
    drivers: dict[str, None] = {}
    spoken: set[object] = set()
    for one in read:
        spoken.update(node.value for node in one.nodes if isinstance(node, Const) and node.kind == "string")
        drivers.update(dict.fromkeys(name for name, _ in one.drivers))
        drivers.update(dict.fromkeys(a.domain for a in one.accesses if "." in a.domain and a.domain != STANDARD))
    found = [Sort("", "", None)]
    for driver in drivers:
        words = words_of(bundle, driver)
        types = [t.name for t in words.types if not t.special or t.name in spoken] if words is not None else []
        found.extend(Sort(driver, one, words) for one in types or ("",))
    return tuple(found)


def _through(sorts: Iterable[Sort], before: Iterable[Expression]) -> tuple[Sort, ...]:
    read = [one for one in before if one.located is not None]
    return tuple(
        sort
        for sort in sorts
        if all(_may_hold(one, one.located.parsed.expr, sort) for one in read if one.located is not None)
    )


def _may_hold(read: Expression, node: Node, sort: Sort) -> bool:
    """Whether a part of an expression can be true for some device of a sort."""
    return any(
        outcome is UNKNOWN or outcome == _Known(True)
        for lacks in _assignments(read, sort)
        for outcome in _Evaluation(read, sort, lacks).outcomes(node)
    )


def _assignments(read: Expression, sort: Sort) -> Iterator[frozenset[Name]]:
    """The names that a device of a sort may lack at once."""
    always: set[Name] = set()
    sometimes: set[Name] = set()
    for access in read.accesses:
        if len(access.steps) > 1:
            name = Name(access.kind, access.domain, access.name)
            has = presence(access, sort)
            if has == "never":
                always.add(name)
            elif has == "sometimes":
                sometimes.add(name)
    ordered = sorted(sometimes)
    most = len(ordered) if len(ordered) <= _MOST_TOGETHER else 1
    for number in range(most + 1):
        for some in combinations(ordered, number):
            yield frozenset({*always, *some})


# --- evaluation with what is certain ---------------------------------------------------------------------------------


class _Known(NamedTuple):
    value: Value


class _Missing(NamedTuple):
    """An error: these accesses, by number, found nothing."""

    accesses: frozenset[int]


class _Optional(NamedTuple):
    """What ``.?`` gives: a value, or none."""

    present: bool


class _Unknown:
    """Some value."""


UNKNOWN: Final = _Unknown()
_Outcome: TypeAlias = _Known | _Missing | _Optional | _Unknown
_TRUE: Final = _Known(True)
_FALSE: Final = _Known(False)
_ANYTHING: Final[frozenset[_Outcome]] = frozenset({UNKNOWN})


class _Evaluation:
    """An expression for devices of one sort that lack certain names."""

    def __init__(self, read: Expression, sort: Sort, lacks: frozenset[Name]) -> None:
        self.sort = sort
        self.lacks = lacks
        self.accesses = read.accesses
        self.names = {a.steps[1].node.id: n for n, a in enumerate(read.accesses) if len(a.steps) > 1}
        self.domains = {a.steps[0].node.id: n for n, a in enumerate(read.accesses) if a.steps}

    def outcomes(self, node: Node) -> frozenset[_Outcome]:
        """What evaluation can come to."""
        if node.id in self.names:
            return self.name(self.names[node.id], node)
        if isinstance(node, Const):
            return frozenset({_Known(node.value)})
        if isinstance(node, Select):
            return self.selected(node, node.operand)
        if isinstance(node, ListExpr):
            return self.strictly(node.elements)
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, ast.Comprehension) and node.macro not in ("cel.bind", "sortBy"):
            return self.strictly([node.iter_range])
        return _ANYTHING

    def name(self, number: int, node: Node) -> frozenset[_Outcome]:
        """An attribute or capacity."""
        access, sort = self.accesses[number], self.sort
        lacks = Name(access.kind, access.domain, access.name) in self.lacks
        certain = presence(access, sort) != "unknown"
        if (isinstance(node, Select) and node.test_only) or (isinstance(node, Call) and node.function == ast.IN):
            return frozenset({_Known(not lacks) if certain else UNKNOWN})
        if access.tolerant:
            return frozenset({_Optional(not lacks)} if certain else {_Optional(True), _Optional(False)})
        if lacks:
            return frozenset({_Missing(frozenset({number}))})
        if (access.kind, access.domain, access.name) == ("attributes", sort.driver, "type") and sort.type:
            return frozenset({_Known(sort.type)})
        return _ANYTHING

    def selected(self, node: Node, operand: Node) -> frozenset[_Outcome]:
        """Something else that is selected: of the device itself, or of a value."""
        if isinstance(node, Select) and node.field == "driver" and isinstance(operand, ast.Ident):
            # Whatever it is called, it is none of those that anybody compares it with.
            return frozenset({_Known(self.sort.driver or "\0another driver")})
        return frozenset({o if isinstance(o, _Missing | _Optional) else UNKNOWN for o in self.outcomes(operand)})

    def call(self, node: Call) -> frozenset[_Outcome]:
        """An operator or function."""
        match node.function:
            case ast.AND | ast.OR:
                return self.logic(node)
            case ast.NOT:
                return frozenset({_negated(o) for o in self.outcomes(node.args[0])})
            case ast.CONDITIONAL:
                return self.conditional(node)
            case ast.INDEX | ast.OPT_INDEX | ast.OPT_SELECT:
                return self.selected(node, node.args[0])
            case ast.IN:
                return self.membership(node)
            case "orValue" | "hasValue" if node.target is not None:
                return self.provided(node, self.outcomes(node.target))
        operands = [*([node.target] if node.target is not None else []), *node.args]
        found = self.strictly(operands)
        if node.function in (ast.EQUALS, ast.NOT_EQUALS):
            return frozenset(self.equality(node, found))
        return found

    def logic(self, node: Call) -> frozenset[_Outcome]:
        """``&&`` and ``||``: an operand that decides wins over errors, on either side."""
        decides, neither = (_FALSE, _TRUE) if node.function == ast.AND else (_TRUE, _FALSE)
        found: set[_Outcome] = set()
        for left, right in product(*(_bools(self.outcomes(arg)) for arg in node.args)):
            if decides in (left, right):
                found.add(decides)
            elif isinstance(left, _Missing) or isinstance(right, _Missing):
                missing = [one.accesses for one in (left, right) if isinstance(one, _Missing)]
                found.add(_Missing(frozenset().union(*missing)))
            else:
                found.add(neither)
        return frozenset(found)

    def conditional(self, node: Call) -> frozenset[_Outcome]:
        """``c ? a : b``."""
        found: set[_Outcome] = set()
        for condition in _bools(self.outcomes(node.args[0])):
            if isinstance(condition, _Missing):
                found.add(condition)
            else:
                found |= self.outcomes(node.args[1 if condition == _TRUE else 2])
        return frozenset(found)

    def provided(self, node: Call, targets: frozenset[_Outcome]) -> frozenset[_Outcome]:
        """``.?name.orValue(x)`` and ``.hasValue()``."""
        found: set[_Outcome] = set()
        for target in targets:
            if not isinstance(target, _Optional):
                found.add(target if isinstance(target, _Missing) else UNKNOWN)
            elif node.function == "hasValue":
                found.add(_Known(target.present))
            elif target.present or not node.args:
                found.add(UNKNOWN)
            else:
                found |= self.outcomes(node.args[0])
        return frozenset(found)

    def membership(self, node: Call) -> frozenset[_Outcome]:
        """``x in […]``, and whether a device has anything in a domain."""
        if node.id in self.domains:
            domain = self.accesses[self.domains[node.id]].domain
            # Several drivers have names in the standard domain; and a name may stand where a domain belongs.
            certain = domain != STANDARD and "." in domain
            return frozenset({_Known(domain == self.sort.driver)}) if certain else _ANYTHING
        key, container = node.args
        if isinstance(container, ListExpr):
            listed = [one.value for one in container.elements if isinstance(one, Const)]
            if len(listed) == len(container.elements):
                return frozenset(
                    _Known(o.value in listed) if isinstance(o, _Known) else _plain(o) for o in self.outcomes(key)
                )
        return self.strictly(node.args)

    def equality(self, node: Call, found: frozenset[_Outcome]) -> Iterator[_Outcome]:
        """``==`` and ``!=`` of what is known on both sides."""
        yield from (o for o in found if isinstance(o, _Missing))
        for left, right in product(*(self.outcomes(arg) for arg in node.args)):
            if isinstance(left, _Missing) or isinstance(right, _Missing):
                continue
            if isinstance(left, _Known) and isinstance(right, _Known):
                yield _Known((left == right) == (node.function == ast.EQUALS))
            else:
                yield UNKNOWN

    def strictly(self, nodes: Iterable[Node]) -> frozenset[_Outcome]:
        """A function of arguments: an error where one of them is, else anything."""
        operands = [self.outcomes(node) for node in nodes]
        missing = {o for some in operands for o in some if isinstance(o, _Missing)}
        certain = any(all(isinstance(o, _Missing) for o in some) for some in operands)
        return frozenset(missing if certain else {*missing, UNKNOWN})


def _bools(outcomes: frozenset[_Outcome]) -> Iterator[_Outcome]:
    """Outcomes as operands of logic; what is not certain may be either."""
    found: set[_Outcome] = set()
    for one in outcomes:
        if isinstance(one, _Missing) or one in (_TRUE, _FALSE):
            found.add(one)
        else:
            found |= {_TRUE, _FALSE}
    return iter(found)


def _negated(outcome: _Outcome) -> _Outcome:
    if isinstance(outcome, _Known) and isinstance(outcome.value, bool):
        return _Known(not outcome.value)
    return _plain(outcome)


def _plain(outcome: _Outcome) -> _Outcome:
    return outcome if isinstance(outcome, _Missing) else UNKNOWN
