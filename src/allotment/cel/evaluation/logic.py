"""Evaluation of ``&&``, ``||`` and ``!``."""

from __future__ import annotations

from allotment.cel.evaluation.equality import NO_SUCH_OVERLOAD
from allotment.cel.evaluation.steps import Frame, Run
from allotment.cel.evaluation.values import CelError, Value


def chain(terms: tuple[Run, ...], deciding: bool) -> Run:
    """A chain of ``&&`` (``deciding`` is False) or ``||`` (True). A deciding operand absorbs the errors before it;
    without one, the first error is the result."""
    neutral = not deciding

    def run(frame: Frame) -> Value:
        failed: CelError | None = None
        for term in terms:
            try:
                value = term(frame)
            except CelError as failure:
                if failed is None:
                    failed = failure
                continue
            if value is neutral:
                continue
            if value is deciding:
                return deciding
            if failed is None:
                failed = CelError(NO_SUCH_OVERLOAD)
        if failed is not None:
            raise failed
        return neutral

    return run


def negated(value: Value) -> bool:
    """``!value``"""
    if value is True:
        return False
    if value is False:
        return True
    raise CelError(NO_SUCH_OVERLOAD)
