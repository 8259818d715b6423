"""One condition of a selector loosened: to the value that cheaper hardware has, or dropped.

``architecture == "Ampere"`` becomes ``(architecture == "Ampere" || architecture == "Turing")``, an amount what a
cheaper GPU publishes. The text around it stays, condition by condition, so that the author finds it again.
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
    """A selector with one condition less strict. ``expression`` empty: nothing is left of it. ``what``: in words."""

    expression: str
    what: str


class SelectorCondition(NamedTuple):
    """One operand of a selector's outermost ``&&``."""

    program: Selector
    position: int
    features: Features

    @property
    def text(self) -> str:
        """As it is written."""
        return one_line(self.program.conjuncts[self.position].text)

    def without(self) -> RelaxedSelector:
        """The selector without it."""
        return RelaxedSelector(self._with(""), f"without the condition {self.text}")

    def relaxed_to(self, slices: Iterable[ResourceSlice]) -> RelaxedSelector:
        """The selector so loosened that devices of these slices pass, or without the condition where none would do."""
        comparison = self.program.conjuncts[self.position].comparison
        value = None if comparison is None else self._actual(slices)
        if comparison is None or value is None or comparison.path[0] not in ("attributes", "capacity"):
            return self.without()
        path, operator, wanted = comparison.path, comparison.operator, comparison.literal
        name = path[-1]
        if operator in _ORDERED:
            becomes = comparison_text(path, f"{operator[0]}=", value)
            return RelaxedSelector(self._with(becomes), f"{name} {value_text(value)} allowed too, instead of {value_text(wanted)}")
        if isinstance(value, Quantity):  # drivers publish exact amounts: asking for another one would be the same trap
            becomes = comparison_text(path, ">=", min(value, wanted) if isinstance(wanted, Quantity) else value)
            return RelaxedSelector(self._with(becomes), f"{name} from {value_text(value)} on, instead of exactly {value_text(wanted)}")
        if operator == "==":
            becomes = f"({self.text} || {path_text(path)} == {literal(value)})"
            return RelaxedSelector(self._with(becomes), f"{_plain(value)} allowed too")
        if operator == "in" and isinstance(wanted, tuple):
            values = ", ".join(literal(one) for one in (*wanted, value))
            return RelaxedSelector(self._with(f"{path_text(path)} in [{values}]"), f"{_plain(value)} allowed too")
        return self.without()

    def _actual(self, slices: Iterable[ResourceSlice]) -> object | None:
        """What the first device has here that passes all the other conditions."""
        comparison = self.program.conjuncts[self.position].comparison
        rest = _compiled(self._with(""), self.features)
        assert comparison is not None
        for one in slices:
            for device in one.spec.devices or ():
                given = DeviceInput(one.spec.driver, device)
                try:
                    value: object | None = comparison.actual(given) if rest is None or rest.matches(given) else None
                except EvaluationError:
                    continue
                if value is not None:
                    return value
        return None

    def _with(self, becomes: str) -> str:
        texts = [one_line(conjunct.text) for conjunct in self.program.conjuncts]
        texts[self.position] = becomes
        kept = [text for text in texts if text]
        return " && ".join(_grouped(text) for text in kept) if len(kept) > 1 else "".join(kept)


def conditions(expression: str, features: Features) -> list[SelectorCondition]:
    """The conditions of a selector; none if it does not compile."""
    program = _compiled(expression, features)
    return [SelectorCondition(program, at, features) for at in range(len(program.conjuncts))] if program is not None else []


def _compiled(expression: str, features: Features) -> Selector | None:
    try:
        return compile_selector(expression, features) if expression else None
    except CompileError:
        return None


def _grouped(text: str) -> str:
    """Text that can stand beside an ``&&``."""
    whole = text.startswith("(") and text.endswith(")") and text.count("(") == 1
    return f"({text})" if ("||" in text or "?" in text) and not text.startswith("(") and not whole else text


def _plain(value: object) -> str:
    return str(value) if not isinstance(value, bool) else literal(value)
