"""Instance types of cloud providers: prices, resources and sources."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from os import PathLike
from typing import Any

from allotment.api.plans.catalog import Catalog, read_catalog_files
from allotment.api.plans.instance_types import TypeFilter, find_type
from allotment.fleet.catalog import InstanceType, modes_of
from allotment.fleet.catalog.allocatable import disk_of


def instance_types(
    *patterns: str,
    providers: Sequence[str] = (),
    gpu: str = "",
    gpus: int | None = None,
    memory: str = "",
    mig: bool = False,
    max_price: Decimal | float | str | None = None,
    spot: bool = False,
    catalog: Sequence[str | PathLike[str]] = (),
) -> list[dict[str, Any]]:
    """Return instance types, the cheapest first; prices are texts in USD per hour, and unknown fields are missing.

    ``patterns``: parts of the name: ``"aws"``, ``"g5.xlarge"``, ``"gcp/a2-*"``. ``gpu``: the model (``"a100-40gb"``),
    or ``"none"``. ``gpus``: the minimum number. ``memory``: the minimum of each GPU (``"24Gi"``), as its driver reports
    it. ``mig``: only GPUs that support MIG. ``max_price``: USD per hour. ``spot``: only types with a spot price, which
    is then compared. ``catalog``: CSV files that add types and prices. Raises InputError.

    The keys of a type: ``name``, ``provider``, ``instanceType``, ``region``, ``zones``, ``arch``, ``vcpu``,
    ``memoryGiB``, ``allocatable``, ``gpus``, ``gpuModel``, ``gpuFraction``, ``gpuMemoryGiBByCloud``,
    ``gpuMemoryMiBByDriver``, ``gpuMemoryBound``, ``productName``, ``accelerator``, ``hardware``, ``modes``,
    ``unusable``, ``usdPerHour``, ``asOf``, ``priceSource``, ``specSource``, ``notes``.
    """
    wanted = TypeFilter(
        patterns=patterns, providers=providers, gpu=gpu, gpus=gpus, memory=memory, mig=mig, max_price=max_price,
        spot=spot,
    )  # fmt: skip
    return [type_data(each) for each in wanted.sorted(valid_catalog(catalog).types)]


def instance_type(name: str, *, catalog: Sequence[str | PathLike[str]] = ()) -> dict[str, Any]:
    """Return the properties of ``"aws/p5.48xlarge"``; the provider may be omitted if the name is unique.

    ``catalog``: CSV files that add types and prices. Raises InputError.

    The keys are those of ``instance_types``.
    """
    return type_data(find_type(valid_catalog(catalog).types, name))


def valid_catalog(files: Sequence[str | PathLike[str]]) -> Catalog:
    """Return the catalog, extended by files. Raises InvalidManifests if one of their rows is invalid."""
    found = read_catalog_files(files)
    if found.problems:
        raise found.error
    return found


def type_data(instance: InstanceType) -> dict[str, Any]:
    """Return a type as data without unknown fields. Prices are text, so that they stay exact."""
    room, disk, model = instance.room, disk_of(instance), instance.accelerator
    data: dict[str, Any] = {
        "name": instance.key,
        "provider": instance.provider,
        "instanceType": instance.name,
        "region": instance.region,
        "zones": list(instance.zones),
        "arch": instance.arch,
        "vcpu": _plain(instance.vcpu),
        "memoryGiB": _plain(instance.memory_gib),
        "allocatable": room and {
            "cpuMilli": room.cpu_milli, "memoryMiB": room.memory_mib, "pods": room.pods, "estimated": room.estimated,
            "ephemeralMiB": disk.mib, "ephemeralEstimated": disk.estimated,
        },
        "gpus": instance.gpus or None,
        "gpuModel": instance.gpu_model,
        "gpuFraction": instance.gpu_fraction,
        "gpuMemoryGiBByCloud": _plain(instance.gpu_memory_gib),
        "gpuMemoryMiBByDriver": model and model.memory_mib,
        "gpuMemoryBound": instance.memory_bound or None,
        "productName": model and model.product,
        "accelerator": model and model.id,
        "hardware": instance.hardware,
        "modes": list(modes_of(instance)),
        "usdPerHour": {capacity: format(price, "f") for capacity, price in instance.prices},
        "asOf": instance.as_of,
        "priceSource": instance.price_source,
        "specSource": instance.spec_source,
        "notes": instance.notes,
        "unusable": instance.unusable,
    }  # fmt: skip
    return {key: value for key, value in data.items() if value not in (None, "", [], {})}


def _plain(number: Decimal | None) -> int | float | None:
    if number is None:
        return None
    return int(number) if number == number.to_integral_value() else float(number)
