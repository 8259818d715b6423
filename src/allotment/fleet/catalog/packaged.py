"""The packaged catalog, and its merge with a user's catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources

from allotment.fleet.catalog.allocatable import estimated_capacity
from allotment.fleet.catalog.csv_format import read_catalog
from allotment.fleet.catalog.instance_type import InstanceType, with_usability

_FILE = "instances.csv"


@cache
def catalog() -> tuple[InstanceType, ...]:
    """Return the types of the packaged catalog in file order, with prices, dates and sources.

    >>> str(dict((one.key, one) for one in catalog())["aws/g5.xlarge"].price("on-demand"))
    '1.006'
    """
    text = resources.files("allotment.fleet").joinpath("data", _FILE).read_text("utf-8")
    types, problems = read_catalog(text, _FILE)
    if problems:
        raise ValueError(f"the packaged catalog is invalid: {problems[0]}")
    return types


def merged(base: Iterable[InstanceType], overrides: Iterable[InstanceType]) -> tuple[InstanceType, ...]:
    """Merge a user's rows into a catalog: non-blank cells override those of known types, unknown types are added.

    So a file of negotiated prices needs three columns. A price replaces that of its capacity type.
    """
    types = {instance.key: instance for instance in base}
    for row in overrides:
        known = types.get(row.key)
        types[row.key] = row if known is None else _over(known, row)
    return tuple(types.values())


def _over(known: InstanceType, row: InstanceType) -> InstanceType:
    vcpu = known.vcpu if row.vcpu is None else row.vcpu
    memory = known.memory_gib if row.memory_gib is None else row.memory_gib
    room = row.room or known.room
    if row.room is None and vcpu and memory and (vcpu, memory) != (known.vcpu, known.memory_gib):
        room = estimated_capacity(known.provider, vcpu, memory)
    equipped = row.accelerator is not None or row.gpus > 0
    return with_usability(
        replace(
            known,
            region=row.region or known.region,
            zones=row.zones or known.zones,
            vcpu=vcpu,
            memory_gib=memory,
            room=room,
            disk_gib=row.disk_gib or known.disk_gib,
            taints=row.taints or known.taints,
            arch="arm64" if row.arch == "arm64" else known.arch,  # a blank cell is read as amd64
            gpus=row.gpus if equipped else known.gpus,
            accelerator=row.accelerator or known.accelerator,
            gpu_model=row.gpu_model or known.gpu_model,
            gpu_fraction=row.gpu_fraction if equipped else known.gpu_fraction,
            gpu_memory_gib=row.gpu_memory_gib or known.gpu_memory_gib,
            prices=tuple((dict(known.prices) | dict(row.prices)).items()),
            as_of=row.as_of if row.prices else row.as_of or known.as_of,
            price_source=row.price_source if row.prices else known.price_source,
            spec_source=row.spec_source or known.spec_source,
            notes=row.notes or known.notes,
        )
    )
