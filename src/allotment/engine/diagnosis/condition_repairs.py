"""Repairs of a selector condition that matches no device: published values and amounts, nearest to the intent first."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass

from allotment.cel import DeviceInput, EvaluationError, ValueComparison
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.diagnosis.condition_text import comparison_text, literal, one_line, path_text, request_text
from allotment.engine.diagnosis.letter_case import in_right_case
from allotment.engine.diagnosis.stated_memory import is_memory, memory_of
from allotment.engine.diagnosis.value_distance import named_memory, names_same, sold_as, value_distance
from allotment.engine.diagnosis.visible_devices import VisibleDevice
from allotment.engine.remedies import REMEDIES
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

#: ``device.attributes["domain"].name.contains("part")``, also of the value in lower case, or another test of a string.
_PART = re.compile(
    r"""device\.attributes\[(["'])([^"']+)\1\]\.(\w+)(?:\.lowerAscii\(\))?\.(contains|startsWith|endsWith|matches)"""
    r"""\((["'])([^"'\\]+)\5\)"""
)
#: Number of other values that are tried for one condition.
_VALUES = 4


@dataclass(frozen=True, slots=True)
class ConditionRepair:
    """A replacement of the condition; ``becomes=""`` drops it.

    ``rename`` (pattern and replacement) corrects a name in the whole selector. ``size`` and ``devices``: as in
    `CandidateChange`.
    """

    remedy: str
    text: str
    becomes: str = ""
    rename: tuple[str, str] | None = None
    size: float = 0.0
    devices: int = 0


def value_of(comparison: ValueComparison, visible: VisibleDevice) -> object | None:
    """The device's value at the path of a comparison; None if it is missing or cannot be read."""
    try:
        value: object = comparison.actual(DeviceInput(visible.driver, visible.device))
    except EvaluationError:
        return None
    return value


def other_values(
    comparison: ValueComparison, arriving: Sequence[VisibleDevice], stated: int, in_use: Container[DeviceID]
) -> list[ConditionRepair]:
    """Repairs that request another published value, nearest first; of equally near ones, that of most free devices."""
    path, wanted = comparison.path, comparison.literal
    if comparison.operator not in ("==", "in") or isinstance(wanted, Quantity) or len(path) < 3:
        return []
    having: dict[str | bool | int | float | Semver, list[VisibleDevice]] = {}
    for visible in arriving:
        value = value_of(comparison, visible)
        if isinstance(value, str | bool | int | float | Semver):
            having.setdefault(value, []).append(visible)
    found = []
    for value, devices in having.items():
        is_same = isinstance(value, str) and any(
            isinstance(name, str) and names_same(name, value)
            for name in (wanted if isinstance(wanted, tuple) else (wanted,))
        )
        less = max(map(memory_of, devices)) < stated
        remedy = "name" if is_same else "smaller-model" if less else "other-value"
        found.append(
            ConditionRepair(
                remedy,
                request_text(path[-1], "==", value) + (", which has less memory" if less and not is_same else ""),
                comparison_text(path, "==", value),
                size=value_distance(wanted, value),
                devices=sum(visible.id not in in_use for visible in devices),
            )
        )
    return sorted(found, key=lambda r: (REMEDIES[r.remedy].loss, r.size, -r.devices, r.text))[:_VALUES]


def any_model(
    comparison: ValueComparison, arriving: Sequence[VisibleDevice], models: Collection[str], in_use: Container[DeviceID]
) -> list[ConditionRepair]:
    """The repair that requests any of the published ``models`` with the words of the compared one, if these are several
    and one of the devices is of them: ``A100`` means the cards of 40 GB and of 80 GB."""
    path, wanted = comparison.path, comparison.literal
    if comparison.operator != "==" or path[0] != "attributes" or not isinstance(wanted, str):
        return []
    named = sorted(model for model in models if names_same(wanted, model))
    devices = [visible for visible in arriving if value_of(comparison, visible) in named]
    if len(named) < 2 or not devices:
        return []
    if [model for model in sorted(models) if wanted in model] == named and not named_memory(wanted):
        text = f"test whether {path[-1]} contains {literal(wanted)}"
        becomes = f"{path_text(path)}.contains({literal(wanted)})"
    else:
        names = [literal(model) for model in named]
        text = f"request {path[-1]} {' or '.join(names)}"
        becomes = f"{path_text(path)} in [{', '.join(names)}]"
    return [ConditionRepair("name", text, becomes, devices=sum(visible.id not in in_use for visible in devices))]


def other_case(text: str, arriving: Sequence[VisibleDevice]) -> list[ConditionRepair]:
    """The repair of a test of values that are published in other letters: ``A100``, not ``a100``."""
    found = _PART.fullmatch(one_line(text))
    if found is None or ".lowerAscii()" in text:
        return []
    function, quote, part = found[4], found[5], found[6]
    comparison = ValueComparison(("attributes", found[2], found[3]), "==", part)
    values = {value for visible in arriving if isinstance(value := value_of(comparison, visible), str)}
    if not (written := in_right_case(function, part, values)):
        return []
    becomes = text.replace(f"{quote}{part}{quote}", f"{quote}{written}{quote}")
    return [ConditionRepair("name", f'write "{written}"', becomes)]


def partial_comparison(text: str) -> ValueComparison | None:
    """The comparison of an attribute with a part of its value, as if it were compared with the whole value."""
    found = _PART.fullmatch(one_line(text))
    if found is None or found[4] == "matches":
        return None
    return ValueComparison(("attributes", found[2], found[3]), "==", found[6])


def other_amounts(
    comparison: ValueComparison, values: Sequence[object], actual: object, stated: int
) -> list[ConditionRepair]:
    """Repairs of a compared amount, nearest first: the intended unit, "at least", and the ``actual`` amount."""
    path, operator, wanted = comparison.path, comparison.operator, comparison.literal
    name, amounts = path[-1], [value for value in values if isinstance(value, Quantity)]
    found: list[ConditionRepair] = []
    is_capacity = path[0] == "capacity"
    if is_capacity and is_memory(name) and isinstance(wanted, Quantity) and operator in ("==", ">", ">="):
        sold = sold_as(wanted, amounts)
        if sold is not None:
            text = f"{request_text(name, '>=', sold.amount)}: {sold.reason}"
            found.append(ConditionRepair("likely", text, comparison_text(path, ">=", sold.amount)))
    if operator == "==" and isinstance(wanted, Quantity) and any(amount > wanted for amount in amounts):
        # Authors who write == for an amount usually intend "at least".
        found.append(
            ConditionRepair("likely", request_text(name, ">=", wanted), comparison_text(path, ">=", wanted), size=1.0)
        )
    if operator != "!=":
        # Drivers publish exact bytes, so that equality would rarely match again.
        relaxed = ">=" if operator == "==" else f"{operator[0]}="
        less = is_memory(name) and isinstance(actual, Quantity) and actual.nano < stated * 10**9
        keeps = is_capacity and relaxed == ">=" and not is_memory(name)
        found.append(
            ConditionRepair(
                "less-memory" if less else "less" if keeps else "smaller",
                request_text(name, relaxed, actual),
                comparison_text(path, relaxed, actual),
                size=value_distance(wanted, actual),
            )
        )
    return found
