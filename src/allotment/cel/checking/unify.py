"""Unification of types: assignability and the bindings of type parameters.

The rules are those of cel-go's checker, which decide results and error texts: dyn, Any and errors are assignable to
everything; null is assignable to nullable types; a parameter is bound to the most general of its types. A failed
attempt leaves the bindings unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from allotment.cel.checking import types
from allotment.cel.checking.types import Type, TypeKind

#: Type parameter -> the type it is bound to (which can contain parameters).
Bindings: TypeAlias = "dict[Type, Type]"

_PARAM, _NULL, _ERROR, _TYPE = TypeKind.PARAM, TypeKind.NULL, TypeKind.ERROR, TypeKind.TYPE
_STRUCTURED = frozenset({TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP})
_NULLABLE = frozenset(
    {TypeKind.OPAQUE, TypeKind.STRUCT, TypeKind.ANY, TypeKind.DURATION, TypeKind.TIMESTAMP, TypeKind.NULL, TypeKind.DYN}
)


def is_assignable(bindings: Bindings, t1: Type, t2: Type) -> bool:
    """Whether ``t1`` is assignable to ``t2``; binds parameters only on success."""
    if t1.closed and t2.closed:
        return _is_assignable_closed(t1, t2)
    trial = dict(bindings)
    if not _is_assignable(trial, t1, t2):
        return False
    bindings.update(trial)
    return True


def are_assignable(bindings: Bindings, first: Sequence[Type], second: Sequence[Type]) -> bool:
    """Whether both lists have the same length and each type is assignable to its counterpart."""
    if len(first) != len(second):
        return False
    trial: Bindings | None = None
    for t1, t2 in zip(first, second, strict=True):
        if t1.closed and t2.closed:
            if not _is_assignable_closed(t1, t2):
                return False
            continue
        if trial is None:
            trial = dict(bindings)
        if not _is_assignable(trial, t1, t2):
            return False
    if trial is not None:
        bindings.update(trial)
    return True


@lru_cache(maxsize=8192)
def _is_assignable_closed(t1: Type, t2: Type) -> bool:
    """The rules for types without parameters; cached, because deep types share their parts."""
    if t1 is t2:
        return True
    kind1, kind2 = t1.kind, t2.kind
    if t1.dynamic or t2.dynamic or kind1 is _ERROR or kind2 is _ERROR:
        return True
    if kind1 is _NULL:
        return kind2 in _NULLABLE or t2.nullable
    if kind2 is _NULL:
        return kind1 in _NULLABLE or t1.nullable
    if kind1 is not kind2:
        return False
    if kind1 is _TYPE:
        return True
    if t1.name != t2.name or len(t1.params) != len(t2.params):
        return False
    return all(_is_assignable_closed(p1, p2) for p1, p2 in zip(t1.params, t2.params, strict=True))


def _is_assignable(bindings: Bindings, t1: Type, t2: Type) -> bool:
    """Whether ``t1`` is assignable to ``t2``; binds parameters even if it fails."""
    kind1, kind2 = t1.kind, t2.kind
    if kind2 is _PARAM:
        bound = t2 in bindings
        if _is_valid_substitution(bindings, t1, t2):
            return True
        # If a bound parameter does not match, the other direction cannot match either.
        if bound:
            return False
    if kind1 is _PARAM:
        return _is_valid_substitution(bindings, t2, t1)
    if t1.closed and t2.closed:
        return _is_assignable_closed(t1, t2)
    if t1.dynamic or t2.dynamic or kind1 is _ERROR or kind2 is _ERROR:
        return True
    if kind1 is _NULL:
        return kind2 in _NULLABLE
    if kind2 is _NULL:
        return kind1 in _NULLABLE
    if kind1 is not kind2:
        return False
    if kind1 is _TYPE:
        return True
    if kind1 not in _STRUCTURED or t1.name != t2.name or len(t1.params) != len(t2.params):
        return False
    return all(_is_assignable(bindings, p1, p2) for p1, p2 in zip(t1.params, t2.params, strict=True))


def _is_valid_substitution(bindings: Bindings, t: Type, param: Type) -> bool:
    """Whether a parameter can be bound to ``t``: it is unbound, bound to it, or can be widened to it."""
    if t is param:
        return True
    current = bindings.get(param)
    if current is None:
        if _not_referenced_in(bindings, param, t):
            bindings[param] = t
            return True
        return False
    if t is current:
        return True
    if not _is_assignable(bindings, t, current):
        return False
    wider = most_general(t, current)
    if _not_referenced_in(bindings, param, wider):
        bindings[param] = wider
    return True


def _not_referenced_in(bindings: Bindings, param: Type, within: Type) -> bool:
    """Whether a parameter does not occur in a type after substitution of the bindings."""
    if param is within:
        return False
    if within.closed:
        return True
    if within.kind is _PARAM:
        bound = bindings.get(within)
        return bound is None or _not_referenced_in(bindings, param, bound)
    return all(_not_referenced_in(bindings, param, p) for p in within.params)


def most_general(t1: Type, t2: Type) -> Type:
    """The less specific of two unifiable types."""
    return t1 if _is_equal_or_less_specific(t1, t2) else t2


def _is_equal_or_less_specific(t1: Type, t2: Type) -> bool:
    if t1 is t2 or t1.dynamic or t1.kind is _PARAM:
        return True
    if t2.dynamic or t2.kind is _PARAM or t1.kind is not t2.kind:
        return False
    if t1.kind is _TYPE:
        return True
    if t1.name != t2.name or len(t1.params) != len(t2.params):
        return False
    return all(_is_equal_or_less_specific(p1, p2) for p1, p2 in zip(t1.params, t2.params, strict=True))


def substitute(bindings: Bindings, t: Type, type_param_to_dyn: bool) -> Type:
    """A type with its bound parameters replaced; ``type_param_to_dyn`` replaces unbound ones by dyn."""
    if t.closed:
        return t
    if t.kind is _PARAM:
        bound = bindings.get(t)
        if bound is not None:
            return substitute(bindings, bound, type_param_to_dyn)
        return types.DYN if type_param_to_dyn else t
    params = [p if p.closed else substitute(bindings, p, type_param_to_dyn) for p in t.params]
    match t.kind:
        case TypeKind.LIST:
            return types.list_of(params[0])
        case TypeKind.MAP:
            return types.map_of(params[0], params[1])
        case TypeKind.TYPE:
            return types.type_of(params[0])
        case _:
            return types.opaque(t.name, *params)
