"""Counter sets of a pool and their consumption by devices (KEP-4815).

Whether a consumed set or counter exists is not checked here, because it can be in another slice of the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.model.resource import Counter, CounterSet, DeviceCounterConsumption
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, required
from allotment.model.validation.lists import check_map, check_set

SETS_MAX = 8
CONSUMED_SETS_MAX = 2
COUNTERS_MAX = 32


def shared_counters(sets: Sequence[CounterSet], path: str) -> Errors:
    """Validate the counter sets of a slice."""

    def check(value: CounterSet, item_path: str) -> Errors:
        return _set(value.name, value.counters, item_path, "name")

    return check_set(sets, SETS_MAX, check, lambda value: value.name, path)


def consumes_counters(consumptions: Sequence[DeviceCounterConsumption], path: str) -> Errors:
    """Validate the counters that one device consumes, of at most two sets."""

    def check(value: DeviceCounterConsumption, item_path: str) -> Errors:
        return _set(value.counter_set, value.counters, item_path, "counterSet")

    return check_set(consumptions, CONSUMED_SETS_MAX, check, lambda value: value.counter_set, path)


def _set(name: str, counters: Mapping[str, Counter], path: str, field: str) -> Errors:
    if not name:
        yield required(f"{path}.{field}")
    else:
        yield from names.label(name, f"{path}.{field}")
    if not counters:
        yield required(f"{path}.counters")
    else:
        yield from check_map(counters, COUNTERS_MAX, names.LABEL_MAX, names.label, None, f"{path}.counters")
