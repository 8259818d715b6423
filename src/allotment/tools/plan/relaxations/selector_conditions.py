"""Relaxes one condition of a selector: to the value of cheaper hardware, or by removing it.

``architecture == "Ampere"`` becomes ``(architecture == "Ampere" || architecture == "Turing")``, and an amount becomes
the one that a cheaper GPU publishes. The other conditions keep their text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from allotment.cel import CompileError, DeviceInput, EvaluationError, Selector, compile_selector
from allotment.engine.diagnosis.selector_conditions import comparison_text, literal, one_line, path_text, value_text
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceSlice

_ORDERED: Final = (">", ">=", "<", "<=")


class RelaxedSelector(NamedTuple):
    """A selector with one relaxed condition. ``expression``: empty if none remains. ``what``: the change as text."""

    expression: str
    what: str


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
        return RelaxedSelector(self._with(""), f"without condition {self.text}")

    def relaxed_to(self, slices: Iterable[ResourceSlice]) -> RelaxedSelector:
        """The selector relaxed so that devices of these slices match, or without the condition if none can match."""
        comparison = self.program.conjuncts[self.position].comparison
        value = None if comparison is None else self._actual(slices)
        if comparison is None or value is None or comparison.path[0] not in ("attributes", "capacity"):
            return self.without()
        path, operator, requested = comparison.path, comparison.operator, comparison.literal
        name = path[-1]
        if operator in _ORDERED:
            replacement = comparison_text(path, f"{operator[0]}=", value)
            return RelaxedSelector(
                self._with(replacement),
                f"{name} {operator[0]}= {value_text(value)} instead of {operator} {value_text(requested)}",
            )
        if isinstance(value, Quantity):  # another exact amount would match only one model
            replacement = comparison_text(
                path, ">=", min(value, requested) if isinstance(requested, Quantity) else value
            )
            return RelaxedSelector(
                self._with(replacement), f"{name} >= {value_text(value)} instead of == {value_text(requested)}"
            )
        if operator == "==":
            replacement = f"({self.text} || {path_text(path)} == {literal(value)})"
            return RelaxedSelector(self._with(replacement), f"{_plain(value)} also allowed")
        if operator == "in" and isinstance(requested, tuple):
            values = ", ".join(literal(slice_) for slice_ in (*requested, value))
            return RelaxedSelector(self._with(f"{path_text(path)} in [{values}]"), f"{_plain(value)} also allowed")
        return self.without()

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
