"""The memory that a request states, and the memory of devices: other hardware should not have less than was stated.

Memory is stated by a selector that compares the capacity ``memory``, by a product name that contains a size such as
80GB, and by ``capacity.requests``. Gi counts as GB here, because authors write 80Gi for cards of 80 GB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from allotment.cel import CompileError, Conjunct, compile_selector
from allotment.engine.diagnosis.scenario import RequestSpec
from allotment.engine.diagnosis.value_distance import named_memory
from allotment.engine.diagnosis.visible_devices import VisibleDevice
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceClass, DeviceSelector

#: The identifier of the capacity, in the domain of any driver.
MEMORY = "memory"
_NANO = 10**9
_QUOTED = re.compile(r"""(["'])(.*?)\1""")
#: The least published memory, in percent of the size in a product name: H100 NVL publishes 10880Mi for 12 GB.
_LEAST_PERCENT = 80


def stated_memory(class_: DeviceClass | None, spec: RequestSpec, features: Features) -> int:
    """The largest amount of memory per device that a request or its class states, in bytes; 0 if none does."""
    selectors = (*(class_.spec.selectors if class_ is not None else ()), *spec.selectors)
    requests = spec.capacity.requests if spec.capacity is not None else {}
    amounts = [_bytes(amount) for name, amount in requests.items() if is_memory(name)]
    return max([*_selected(selectors, features), *amounts], default=0)


def is_memory(capacity: str) -> bool:
    """Whether a capacity, with or without its domain, is a device's memory."""
    return capacity.rpartition("/")[2] == MEMORY


def _selected(selectors: Iterable[DeviceSelector], features: Features) -> Iterator[int]:
    for selector in selectors:
        try:
            program = compile_selector(selector.cel.expression if selector.cel else "", features)
        except CompileError:
            continue
        yield from map(_condition, program.conjuncts)


def _condition(conjunct: Conjunct) -> int:
    """The memory that one condition states, in bytes; the least one of several names."""
    comparison = conjunct.comparison
    if comparison is not None and isinstance(comparison.literal, Quantity):
        lower = comparison.operator in (">=", ">", "==") and comparison.path[0] == "capacity"
        return _bytes(comparison.literal) if lower and comparison.path[-1] == MEMORY else 0
    if comparison is not None and comparison.operator not in ("==", "in"):
        return 0
    named = (named_memory(match[2]) for match in _QUOTED.finditer(conjunct.text))
    return min(filter(None, named), default=0)


def _bytes(amount: Quantity) -> int:
    whole = re.fullmatch(r"([0-9]+)Gi", str(amount))
    return int(whole[1]) * 10**9 if whole is not None else amount.nano // _NANO


def memory_of(visible: VisibleDevice) -> int:
    """The memory of a device in bytes: as published, or the slightly larger size in its product name; 0 if unknown."""
    device = visible.device
    published = max(
        (value.value.nano // _NANO for name, value in device.capacity.items() if is_memory(name)), default=0
    )
    named = max((named_memory(value.string) for value in device.attributes.values() if value.string), default=0)
    return max(published, named) if not published or named * _LEAST_PERCENT <= published * 100 else published
