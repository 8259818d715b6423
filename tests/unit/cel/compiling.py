"""Helpers for tests of the compiler: compile in the environments of most vectors, format a tree."""

from __future__ import annotations

from allotment.cel.checking.checked_expression import CheckedExpression
from allotment.cel.checking.checker import check
from allotment.cel.checking.environment import Environment, declare_environment
from allotment.cel.checking.validators import validate
from allotment.cel.syntax.ast import Call, Comprehension, Const, Ident, ListExpr, MapExpr, Node, Select, StructExpr
from allotment.cel.syntax.parser import parse

STORED = declare_environment("1.36", "stored", True, False)
DYNAMIC = declare_environment("1.36", "stored", True, True)
STORED_1_37 = declare_environment("1.37", "stored", True, False)


def compiled(source: str, environment: Environment = STORED) -> CheckedExpression:
    checked = check(parse(source, environment.macros), environment)
    validate(checked)
    return checked


def shown(node: Node) -> str:
    """A tree as text: calls as ``f(...)``, members as ``target.f(...)``, comprehensions as ``fold(...)``."""
    match node:
        case Const():
            return repr(node.value) + ("u" if node.kind == "uint" else "")
        case Ident():
            return node.name
        case Select():
            text = f"{shown(node.operand)}.{node.field}"
            return f"has({text})" if node.test_only else text
        case Call():
            args = ", ".join(map(shown, node.args))
            return f"{'' if node.target is None else shown(node.target) + '.'}{node.function}({args})"
        case ListExpr():
            return (
                "["
                + ", ".join(("?" if i in node.optional_indices else "") + shown(e) for i, e in enumerate(node.elements))
                + "]"
            )
        case MapExpr():
            return (
                "{"
                + ", ".join(f"{'?' if e.optional else ''}{shown(e.key)}: {shown(e.value)}" for e in node.entries)
                + "}"
            )
        case StructExpr():
            return node.name + "{" + ", ".join(f"{f.name}: {shown(f.value)}" for f in node.fields) + "}"
        case Comprehension():
            names = node.iter_var if node.iter_var2 is None else f"{node.iter_var}, {node.iter_var2}"
            return (
                f"fold({names} over {shown(node.iter_range)}; {node.accu_var} = {shown(node.accu_init)}; "
                f"while {shown(node.loop_condition)}; {shown(node.loop_step)}; {shown(node.result)})"
            )
