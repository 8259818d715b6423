"""What the checker hands to the cost estimate and to the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from allotment.cel.checking.environment import Environment
from allotment.cel.checking.types import Type
from allotment.cel.syntax.ast import Node, ParsedExpression


@dataclass(frozen=True, slots=True, eq=False)
class CheckedExpression:
    """A well-typed expression.

    ``types`` gives the static type of every node by its id. ``overloads`` gives, for every call, the ids of the
    overloads whose parameters fit, in declaration order: one id means that the call is resolved, several that the
    argument types at run time decide. Identifiers that denote a type value (``int``, ``net.IP``) have their name in
    ``type_names`` under the node's id; all other identifiers are variables. A variable that holds a type value is in
    ``type_names`` too, because upstream looks its name up among the types (and usually fails).
    """

    expr: Node
    parsed: ParsedExpression
    environment: Environment
    types: Mapping[int, Type]
    overloads: Mapping[int, tuple[str, ...]]
    type_names: Mapping[int, str]
    output_type: Type
