"""The binding of calls to implementations: the overload that the checker resolved, or dispatch at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.cel.checking.declarations import FunctionDeclaration, Overload
from allotment.cel.evaluation import calls
from allotment.cel.evaluation.library import OVERLOADS, SINGLETONS, UNGUARDED, arithmetic
from allotment.cel.evaluation.values import Value


class PlanError(Exception):
    """Raised when a constant part of an expression fails; the text is that of its error."""


#: Overloads of two arguments that upstream binds to a variadic function.
_SEQUENTIAL: Final = frozenset({"string_format"})
_SINGLETON_ARITY: Final = {"size": 1, "type": 1, "dyn": 1, "sort": 1, "-_": 1}


def resolve_implementation(
    functions: Mapping[str, FunctionDeclaration],
    function: str,
    overload: str,
    count: int,
    node_id: int,
    *,
    checked: bool,
) -> tuple[calls.Implementation, bool]:
    """The implementation of a call of ``count`` arguments, and whether it stops at the first failing argument.

    ``overload`` is the one that the checker resolved, empty if there are several. ``node_id`` is part of one of
    upstream's error texts. Raises PlanError for an unchecked call with the wrong number of arguments.
    """
    singleton = SINGLETONS.get(function)
    if singleton is not None:
        if not checked:
            _check_arity(function, _SINGLETON_ARITY.get(function, 2), count)
        return singleton, False
    declared = functions.get(function)
    candidates: list[Overload] = [*declared.members, *declared.globals] if declared is not None else []
    implemented = [o for o in candidates if o.id in OVERLOADS]
    if overload:
        for candidate in implemented:
            if candidate.id == overload:
                return _guarded_implementation(function, candidate), overload in _SEQUENTIAL
    if not implemented:
        return _unimplemented(function, node_id, count), count > 2
    if len(implemented) == 1:
        if not checked and len(implemented[0].params) <= 2 and implemented[0].id not in _SEQUENTIAL:
            _check_arity(function, len(implemented[0].params), count)
        return _guarded_implementation(function, implemented[0]), implemented[0].id in _SEQUENTIAL
    rows = [(o.params, OVERLOADS[o.id], o.id in UNGUARDED) for o in implemented]
    return calls.dispatch_by_types(function, rows), True


_GUARDED: dict[tuple[str, str], calls.Implementation] = {}


def _guarded_implementation(function: str, overload: Overload) -> calls.Implementation:
    found = _GUARDED.get((function, overload.id))
    if found is None:
        found = OVERLOADS[overload.id]
        if overload.id not in UNGUARDED:
            found = calls.guard_types(function, overload.params, found)
        _GUARDED[function, overload.id] = found
    return found


def _unimplemented(function: str, node_id: int, count: int) -> calls.Implementation:
    """The error of a function that is declared but not implemented."""
    if not count:
        raise PlanError(f"no such overload: {function}()")

    def refuse(*arguments: Value) -> Value:
        arithmetic.raise_no_such_overload(f"{function} {node_id}" if count > 2 else function, arguments[0])

    return refuse


def _check_arity(function: str, expected: int, found: int) -> None:
    """Raises upstream's error for an unchecked call with the wrong number of arguments."""
    if expected != found:
        shape = {0: "", 1: "arg", 2: "lhs, rhs"}.get(found, "...")
        raise PlanError(f"no such overload: {function}({shape})")
