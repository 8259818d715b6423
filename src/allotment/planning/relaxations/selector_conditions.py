"""Relaxes one condition of a selector: to the value of cheaper hardware, or by removing it.

``architecture == "Ampere"`` becomes ``(architecture == "Ampere" || architecture == "Turing")``, and an amount becomes
the one that a cheaper GPU publishes. ``memory >= 24Gi`` becomes ``24G`` if that includes cards of 24 GB, which publish
less than 24Gi: only the unit is changed. The other conditions keep their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import log2
from typing import Final, NamedTuple

from allotment.cel import CompileError, DeviceInput, EvaluationError, Selector, compile_selector
from allotment.engine.diagnosis.condition_text import comparison_text, literal, one_line, path_text, value_text
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceSlice

_ORDERED: Final = (">", ">=", "<", "<=")
_GIB: Final = re.compile(r"([0-9]+)Gi")

#: How far a change is from what was requested: the same amount in the intended unit, a limit of the plan, another
#: value, a dropped constraint, a dropped condition.
UNIT, LIMIT, VALUE, CONSTRAINT, DROPPED = range(5)


class Distance(NamedTuple):
    """The distance of a change from what was requested. ``size``: for amounts the logarithm of their ratio."""

    loss: int
    size: float = 1.0


class RelaxedSelector(NamedTuple):
    """A selector with one relaxed condition. ``expression``: empty if none remains. ``what``: the change as text."""

    expression: str
    what: str
    distance: Distance


class SelectorCondition(NamedTuple):
    """One operand of a selector's outermost ``&&``."""

    program: Selector
    position: int
    features: Features

    @property
    def text(self) -> str:
        return one_line(self.program.conjuncts[self.position].text)

    def without(self) -> RelaxedSelector:
        """The selector without this condition."""
        return RelaxedSelector(self._with(""), f"without condition {self.text}", Distance(DROPPED))

    def published(self, slices: Iterable[ResourceSlice]) -> object | None:
        """The value in these slices that the condition compares; None if it compares none."""
        return None if self.program.conjuncts[self.position].comparison is None else self._actual(slices)

    def in_decimal_unit(self, size: int, amounts: Sequence[Quantity]) -> RelaxedSelector | None:
        """The selector with G instead of Gi, if ``size`` Gi of memory is requested and the change includes some of the
        ``amounts``, which are those of devices of ``size`` GB."""
        comparison = self.program.conjuncts[self.position].comparison
        if comparison is None or comparison.operator not in (">=", ">", "==") or comparison.path[-1] != "memory":
            return None
        if self.gibibytes != size:
            return None
        decimal, requested = Quantity.parse(f"{size}G"), comparison.literal
        assert isinstance(requested, Quantity)
        included = [amount for amount in amounts if decimal <= amount < requested]
        if not included:
            return None
        least, most = min(included), max(included)
        publish = f"{least}" if least == most else f"{least} to {most}"
        what = (
            f"memory >= {decimal} instead of {comparison.operator} {requested} (devices of {size} GB publish {publish})"
        )
        return RelaxedSelector(self._with(comparison_text(comparison.path, ">=", decimal)), what, Distance(UNIT, 0.0))

    @property
    def gibibytes(self) -> int:
        """The compared amount in Gi, if it is written as a whole number of Gi; else 0."""
        comparison = self.program.conjuncts[self.position].comparison
        written = _GIB.fullmatch(str(comparison.literal)) if comparison is not None else None
        return int(written[1]) if written else 0

    def relaxed_to(self, slices: Iterable[ResourceSlice]) -> RelaxedSelector:
        """The selector relaxed so that devices of these slices match, or without the condition if none can match."""
        comparison = self.program.conjuncts[self.position].comparison
        value = None if comparison is None else self._actual(slices)
        if comparison is None or value is None or comparison.path[0] not in ("attributes", "capacity"):
            return self.without()
        path, operator, requested = comparison.path, comparison.operator, comparison.literal
        name = path[-1]
        distance = Distance(VALUE, _ratio(value, requested))
        if operator in _ORDERED:
            replacement = comparison_text(path, f"{operator[0]}=", value)
            return RelaxedSelector(
                self._with(replacement),
                f"{name} {operator[0]}= {value_text(value)} instead of {operator} {value_text(requested)}",
                distance,
            )
        if isinstance(value, Quantity):  # another exact amount would match only one model
            replacement = comparison_text(
                path, ">=", min(value, requested) if isinstance(requested, Quantity) else value
            )
            what = f"{name} >= {value_text(value)} instead of == {value_text(requested)}"
            return RelaxedSelector(self._with(replacement), what, distance)
        if operator == "==":
            replacement = f"({self.text} || {path_text(path)} == {literal(value)})"
            return RelaxedSelector(self._with(replacement), f"{_plain(value)} also allowed", distance)
        if operator == "in" and isinstance(requested, tuple):
            values = ", ".join(literal(slice_) for slice_ in (*requested, value))
            return RelaxedSelector(
                self._with(f"{path_text(path)} in [{values}]"), f"{_plain(value)} also allowed", distance
            )
        return self.without()

    def relaxed_to_each(self, slices: Iterable[ResourceSlice]) -> list[RelaxedSelector]:
        """The selector relaxed to each value of these slices that the condition excludes, the nearest first."""
        by_value = {value: each for each in slices if (value := self.published((each,))) is not None}
        relaxed = [self.relaxed_to((each,)) for value, each in by_value.items() if not self._includes(value)]
        return sorted((each for each in relaxed if each.distance.loss == VALUE), key=lambda each: each.distance)

    def _includes(self, value: object) -> bool:
        """Whether an amount meets the condition; of other values, whether it is the requested one."""
        comparison = self.program.conjuncts[self.position].comparison
        assert comparison is not None
        requested = comparison.literal
        if comparison.operator in _ORDERED and isinstance(value, Quantity) and isinstance(requested, Quantity):
            return value >= requested if comparison.operator[0] == ">" else value <= requested
        return bool(value == requested)

    def _actual(self, slices: Iterable[ResourceSlice]) -> object | None:
        """The value of the first device that matches all other conditions."""
        comparison = self.program.conjuncts[self.position].comparison
        rest = _compiled(self._with(""), self.features)
        assert comparison is not None
        for slice_ in slices:
            for device in slice_.spec.devices or ():
                device_input = DeviceInput(slice_.spec.driver, device)
                try:
                    value: object | None = (
                        comparison.actual(device_input) if rest is None or rest.matches(device_input) else None
                    )
                except EvaluationError:
                    continue
                if value is not None:
                    return value
        return None

    def _with(self, replacement: str) -> str:
        texts = [one_line(conjunct.text) for conjunct in self.program.conjuncts]
        texts[self.position] = replacement
        kept = [text for text in texts if text]
        return " && ".join(_grouped(text) for text in kept) if len(kept) > 1 else "".join(kept)


def conditions(expression: str, features: Features) -> list[SelectorCondition]:
    """The conditions of a selector; empty if it does not compile."""
    program = _compiled(expression, features)
    return (
        [SelectorCondition(program, at, features) for at in range(len(program.conjuncts))]
        if program is not None
        else []
    )


def _ratio(value: object, requested: object) -> float:
    """The distance of two amounts: 1 if one is twice the other, as for values that are not amounts."""
    if isinstance(value, Quantity) and isinstance(requested, Quantity) and value.nano > 0 and requested.nano > 0:
        return abs(log2(value.nano / requested.nano))
    return 1.0


def _compiled(expression: str, features: Features) -> Selector | None:
    try:
        return compile_selector(expression, features) if expression else None
    except CompileError:
        return None


def _grouped(text: str) -> str:
    """The text, in parentheses if it needs them next to ``&&``."""
    whole = text.startswith("(") and text.endswith(")") and text.count("(") == 1
    return f"({text})" if ("||" in text or "?" in text) and not text.startswith("(") and not whole else text


def _plain(value: object) -> str:
    return str(value) if not isinstance(value, bool) else literal(value)
