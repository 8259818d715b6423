"""The result of the type checker, input of the cost estimate and the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from allotment.cel.checking.environment import Environment
from allotment.cel.checking.types import Type
from allotment.cel.syntax.ast import Node, ParsedExpression


@dataclass(frozen=True, slots=True, eq=False)
class CheckedExpression:
    """A well-typed expression.

    ``types`` maps node ids to static types. ``overloads`` maps the id of every call to the ids of its matching
    overloads in declaration order: a single one is resolved, several are resolved by the argument types at run time.
    ``type_names`` maps the ids of identifiers that denote a type (``int``, ``net.IP``) to its name; all other
    identifiers are variables. A variable whose value is a type is in ``type_names`` too, because upstream looks up its
    name among the types (and usually fails).
    """

    expr: Node
    parsed: ParsedExpression
    environment: Environment
    types: Mapping[int, Type]
    overloads: Mapping[int, tuple[str, ...]]
    type_names: Mapping[int, str]
    output_type: Type
