"""A catalogue as the CSV that ``read_catalog`` reads: to edit, and to give back as one's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from allotment.fleet.catalog.csv_format import COLUMNS, PRICES
from allotment.fleet.catalog.instance_type import InstanceType


def written(types: Iterable[InstanceType]) -> str:
    """One line of column names, then one for each type. What is unknown is blank; what is estimated, too."""
    return "".join(f"{line}\n" for line in (",".join(COLUMNS), *map(_line, types)))


def _line(instance: InstanceType) -> str:
    cells = dict(_cells(instance))
    return ",".join(_quoted(cells.get(column, "")) for column in COLUMNS)


def _cells(one: InstanceType) -> Iterator[tuple[str, str]]:
    yield from (("provider", one.provider), ("instance_type", one.name), ("region", one.region))
    yield from (("zones", " ".join(one.zones)), ("arch", one.arch))
    yield from (("vcpu", _number(one.vcpu)), ("memory_gib", _number(one.memory_gib)))
    if one.accelerator is not None:
        yield "gpu", one.accelerator.id
    if one.gpus:
        yield "gpu_count", str(one.gpus)
    yield from (("gpu_model", one.gpu_model), ("gpu_fraction", one.gpu_fraction))
    yield "gpu_memory_gib", _number(one.gpu_memory_gib)
    for capacity, price in one.prices:
        yield PRICES[capacity], _number(price)
    if one.room is not None and not one.room.estimated:
        yield "alloc_vcpu_milli", str(one.room.cpu_milli)
        yield "alloc_memory_mib", str(one.room.memory_mib)
        yield "pods", str(one.room.pods)
    yield "ephemeral_gib", _number(one.disk_gib)
    yield "taints", " ".join(f"{t.key}{f'={t.value}' if t.value else ''}:{t.effect}" for t in one.taints)
    yield from (("as_of", one.as_of), ("price_source", one.price_source))
    yield from (("spec_source", one.spec_source), ("notes", one.notes))


def _number(value: Decimal | None) -> str:
    return "" if value is None else format(value, "f")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"') else text
