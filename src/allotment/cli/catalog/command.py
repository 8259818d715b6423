"""``allot catalog list`` and ``show``: instance types with prices, resources and sources."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from decimal import Decimal

from allotment.api.plans.catalog import read_catalog_files
from allotment.api.plans.instance_types import find_type
from allotment.cli.catalog.selection import by_reason, filter_of
from allotment.cli.inputs.catalogs import report_problems
from allotment.cli.output.console import Screen, folded, open_screen, table
from allotment.fleet.catalog import InstanceType, hardware_of, modes_of
from allotment.fleet.catalog.allocatable import disk_of
from allotment.fleet.catalog.csv_format import to_csv
from allotment.fleet.catalog.price_dates import date_range
from allotment.phrases import counted
from allotment.reference.instance_type_data import type_data

_UNKNOWN = "?"
#: Columns to drop first on a narrow terminal. Names, GPUs and prices remain.
_DROPPED = ("AS-OF", "RAM", "CPU", "SPOT")


def run_list(arguments: Namespace) -> int:
    """Print the selected types, the cheapest first."""
    screen = open_screen()
    catalog = read_catalog_files(arguments.catalogs)
    types = filter_of(arguments).sorted(catalog.types)
    if arguments.output in ("json", "yaml", "csv"):
        _write(screen, types, arguments.output)
        return report_problems(catalog)
    shown = types if arguments.all else [instance_type for instance_type in types if not instance_type.unusable]
    _table(screen, shown, wide=arguments.output == "wide")
    for line in _about(types, shown):
        for part in folded(line, screen.width):
            screen.line(part)
    if reasons := by_reason((instance_type.key, instance_type.unusable) for instance_type in shown):
        screen.line("Cannot be used in plans:")
        for line in reasons:
            for part in folded(line, screen.width, "  "):
                screen.line(part)
    return report_problems(catalog)


def run_show(arguments: Namespace) -> int:
    """Print the properties of one type."""
    screen = open_screen()
    catalog = read_catalog_files(arguments.catalogs)
    instance = find_type(catalog.types, arguments.type)
    if arguments.output:
        screen.data(type_data(instance), arguments.output)
        return report_problems(catalog)
    for name, value in _sentences(instance):
        head = f"{name}:".ljust(15) if name else " " * 15
        for number, line in enumerate(folded(value, screen.width and screen.width - 15)):
            screen.line(f"{head if number == 0 else ' ' * 15}{line}")
    return report_problems(catalog)


def _write(screen: Screen, types: Sequence[InstanceType], form: str) -> None:
    if form == "csv":
        screen.out.write(to_csv(types))
        return
    screen.data({"instanceTypes": [type_data(instance_type) for instance_type in types]}, form)


def _table(screen: Screen, types: Sequence[InstanceType], *, wide: bool) -> None:
    headers = ["NAME", "GPUS", "GPU", "MEMORY", "CPU", "RAM", "USD/H", "SPOT", "AS-OF"]
    rows = [_row(instance_type, exact=wide) for instance_type in types]
    if wide:
        headers += ["ALLOCATABLE", "REGION", "SOURCE"]
        rows = [[*row, *_more(instance_type)] for row, instance_type in zip(rows, types, strict=True)]
    if not rows:
        screen.line("No instance type matches.")
        return
    dropped = [] if wide else _narrowed(screen, headers, rows)
    screen.table(headers, rows, cut=["GPU", "SOURCE"])
    screen.line()
    if dropped:
        screen.line(f"Columns that do not fit: {', '.join(dropped)} (-o wide shows them).")


def _narrowed(screen: Screen, headers: list[str], rows: list[list[str]]) -> list[str]:
    """Remove columns until the rest fits, and return their names."""
    dropped: list[str] = []
    for name in _DROPPED:
        if screen.width is None or max(map(len, table(headers, rows, None))) <= screen.width:
            break
        at = headers.index(name)
        for row in (headers, *rows):
            del row[at]
        dropped.insert(0, name)
    return dropped


def _row(instance: InstanceType, *, exact: bool) -> list[str]:
    model = instance.accelerator
    gpus = instance.gpu_fraction or str(instance.gpus)
    memory = f"{model.memory_mib}Mi{'~' if instance.memory_bound else ''}" if model and instance.gpus else "-"
    return [
        instance.key,
        "part" if gpus in ("fractional", "unknown") else gpus,
        model.aliases[0] if model else "-",
        "-" if instance.gpu_fraction else memory,
        _UNKNOWN if instance.vcpu is None else format(instance.vcpu, "f"),
        _UNKNOWN if instance.memory_gib is None else f"{instance.memory_gib:f}Gi",
        usd(instance.price("on-demand"), exact=exact),
        usd(instance.price("spot"), exact=exact),
        instance.as_of or _UNKNOWN,
    ]


def usd(price: Decimal | None, *, exact: bool = False) -> str:
    """Format a price for a table, to a cent, or below ten dollars to a tenth of a cent; ``?`` if unknown."""
    if price is None:
        return _UNKNOWN
    return format(price, "f") if exact else f"{price:.2f}" if price >= 10 else f"{price:.3f}"


def _more(instance: InstanceType) -> list[str]:
    room = instance.room
    size = (
        _UNKNOWN
        if room is None
        else f"{'~' if room.estimated else ''}{room.cpu_milli}m,{room.memory_mib}Mi,{room.pods}"
    )
    return [size, instance.region or _UNKNOWN, instance.price_source]


def _about(types: Sequence[InstanceType], shown: Sequence[InstanceType]) -> Iterable[str]:
    when = date_range(instance_type.as_of for instance_type in shown)
    if when:
        yield f"List prices in USD per hour, in one region per provider, as of {when}; ?: unknown."
    if any(instance_type.memory_bound for instance_type in shown):
        yield "~ marks the smallest of several known values: a claim close to this value may or may not fit."
    left = len(types) - len(shown)
    if left:
        yield f"{counted(left, 'more type')} cannot be used in plans (--all also lists these, with reasons)."


def _sentences(instance_type: InstanceType) -> Iterable[tuple[str, str]]:
    yield "Instance type", instance_type.key
    yield "Region", f"{instance_type.region or _UNKNOWN}, zones {', '.join(instance_type.zones) or _UNKNOWN}"
    for capacity, price in instance_type.prices:
        yield capacity.capitalize(), f"{price:f} USD per hour"
    if not instance_type.prices:
        yield "Price", "unknown"
    yield "As of", instance_type.as_of or "unknown"
    yield "Source", instance_type.price_source
    if instance_type.spec_source:
        yield "Size source", instance_type.spec_source
    size = [
        _UNKNOWN if instance_type.vcpu is None else f"{instance_type.vcpu:f}",
        _UNKNOWN if instance_type.memory_gib is None else f"{instance_type.memory_gib:f}Gi",
    ]
    yield "Size", f"{size[0]} vCPUs ({instance_type.arch}), {size[1]} of memory"
    if (room := instance_type.room) is not None:
        rule = " (estimated; no source available)" if room.estimated else ""
        yield "For pods", f"{room.cpu_milli}m CPU, {room.memory_mib}Mi of memory, {room.pods} pods{rule}"
        disk = disk_of(instance_type)
        whose = " (estimated from the provider's default disk size)" if disk.estimated else ""
        yield "Disk for pods", f"{disk.mib}Mi of ephemeral-storage{whose}"
    yield from _gpu(instance_type)
    if instance_type.notes:
        yield "Notes", instance_type.notes
    if instance_type.unusable:
        yield "Not in plans", instance_type.unusable


def _gpu(instance_type: InstanceType) -> Iterable[tuple[str, str]]:
    model = instance_type.accelerator
    if model is None:
        return
    count = (
        f"{instance_type.gpu_fraction} of "
        if instance_type.gpu_fraction not in ("", "unknown", "fractional")
        else f"{instance_type.gpus} × "
    )
    yield "GPUs", f"{'a part of ' if instance_type.gpu_fraction in ('unknown', 'fractional') else count}{model.product}"
    if not instance_type.gpu_fraction:
        yield "Memory", f"{model.memory_mib}Mi each, as the driver reports it; claims are compared with this value"
        reported = instance_type.gpu_memory_gib
        if reported is not None and int(reported * 1024) != model.memory_mib:
            more = "less" if reported * 1024 > model.memory_mib else "more"
            yield "", f"{reported:f}Gi each according to the provider; the driver reports {more}"
        if instance_type.memory_bound:
            yield "", "the smallest known value; claims close to it are borderline"
    if instance_type.hardware:
        yield "For --fleet", instance_type.hardware
        yield "Modes", ", ".join(modes_of(instance_type))
    server = hardware_of(instance_type).server if instance_type.hardware else None
    if server is not None:
        yield "Topology", f"as on {server.id}"
    elif instance_type.gpus > 1:
        yield "Topology", "it is unknown which GPUs share a PCIe root or a NUMA node"
    unverified = (*model.unverified, *(server.unverified if server else ()))
    if unverified:
        yield "Unverified", ", ".join(unverified)
