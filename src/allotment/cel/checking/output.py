"""The rule on what a selector may evaluate to."""

from __future__ import annotations

from allotment.cel.checking import types
from allotment.cel.checking.checked_expression import Checked
from allotment.cel.errors import CompileError


def require_bool(checked: Checked) -> None:
    """Raises CompileError unless the expression is a bool, or of a type that is only known at run time.

    A device attribute's static type is Any (dyn where lists are accepted), and an expression may be just a boolean
    attribute.
    """
    t = checked.output_type
    if t is types.BOOL or t is types.ANY:
        return
    environment = checked.environment
    if t is types.DYN and (environment.list_attributes or environment.attribute_type is types.DYN):
        return
    raise CompileError(f"must evaluate to bool or the unknown type, not {t}")
