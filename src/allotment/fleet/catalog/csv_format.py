"""CSV format of the catalog: one row per instance type, each cell validated on its own.

Invalid rows are skipped and reported with their location; the others are kept. A blank or zero price is unknown. (A
well-known price list has 0.0 for types without a price; as a price, that would make the most expensive machine the
first choice.) Figures out of range are rejected as typing errors: 10000 for 1.0000.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from allotment.fleet.catalog.allocatable import PODS, estimated_capacity
from allotment.fleet.catalog.instance_type import (
    CAPACITY_TYPES,
    CapacityType,
    InstanceType,
    NodeCapacity,
    with_usability,
)
from allotment.fleet.errors import FleetError, suggestion
from allotment.fleet.hardware import accelerator_of
from allotment.fleet.profiles import Accelerator
from allotment.model.core import Taint
from allotment.model.problems import InputProblem, Position


def to_csv(types: Iterable[InstanceType]) -> str:
    """Return a header line and a line for each type. Unknown and estimated values are blank."""
    return "".join(f"{line}\n" for line in (",".join(COLUMNS), *map(_line, types)))


def _line(instance: InstanceType) -> str:
    cells = dict(_cells(instance))
    return ",".join(_quoted(cells.get(column, "")) for column in COLUMNS)


def _cells(instance: InstanceType) -> Iterator[tuple[str, str]]:
    yield from (("provider", instance.provider), ("instance_type", instance.name), ("region", instance.region))
    yield from (("zones", " ".join(instance.zones)), ("arch", instance.arch))
    yield from (("vcpu", _number(instance.vcpu)), ("memory_gib", _number(instance.memory_gib)))
    if instance.accelerator is not None:
        yield "gpu", instance.accelerator.id
    if instance.gpus:
        yield "gpu_count", str(instance.gpus)
    yield from (("gpu_model", instance.gpu_model), ("gpu_fraction", instance.gpu_fraction))
    yield "gpu_memory_gib", _number(instance.gpu_memory_gib)
    for capacity, price in instance.prices:
        yield PRICES[capacity], _number(price)
    if instance.room is not None and not instance.room.estimated:
        yield "alloc_vcpu_milli", str(instance.room.cpu_milli)
        yield "alloc_memory_mib", str(instance.room.memory_mib)
        yield "pods", str(instance.room.pods)
    yield "ephemeral_gib", _number(instance.disk_gib)
    yield "taints", " ".join(f"{t.key}{f'={t.value}' if t.value else ''}:{t.effect}" for t in instance.taints)
    yield from (("as_of", instance.as_of), ("price_source", instance.price_source))
    yield from (("spec_source", instance.spec_source), ("notes", instance.notes))


def _number(value: Decimal | None) -> str:
    return "" if value is None else format(value, "f")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"') else text


_ZONES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("aws", "us-east-1"): tuple(f"us-east-1{letter}" for letter in "abcdef"),
    ("gcp", "us-central1"): tuple(f"us-central1-{letter}" for letter in "abcf"),
    **{
        ("azure", region): tuple(f"{region}-{number}" for number in (1, 2, 3))
        for region in ("eastus", "eastus2", "southcentralus")
    },
}


def zones_of(provider: str, region: str) -> tuple[str, ...]:
    """Return the zones of a region, or the region itself if its zones are unknown.

    >>> zones_of("azure", "eastus")
    ('eastus-1', 'eastus-2', 'eastus-3')
    """
    return _ZONES.get((provider, region), (region,) if region else ())


CatalogProblem: TypeAlias = InputProblem

#: USD per hour. The most expensive machine of any cloud costs a few hundred.
MAX_USD: Final = 10_000
#: A rack with one NVLink domain (NVL72).
MAX_GPUS: Final = 72
_MAX_CPUS: Final = 4096
_MAX_GIB: Final = 65_536
_MAX_PODS: Final = 10_000

PROVIDER, NAME = "provider", "instance_type"
PRICES: Final[Mapping[CapacityType, str]] = {"on-demand": "on_demand_usd_per_hour", "spot": "spot_usd_per_hour"}
#: All columns; only the first two are required.
COLUMNS: Final = (
    PROVIDER, NAME, "region", "zones", "arch", "vcpu", "memory_gib", "gpu_count", "gpu", "gpu_model", "gpu_fraction",
    "gpu_memory_gib", *PRICES.values(), "alloc_vcpu_milli", "alloc_memory_mib", "ephemeral_gib", "pods", "taints",
    "as_of", "price_source", "spec_source", "notes",
)  # fmt: skip

_PROVIDER = re.compile(r"[a-z0-9]([-a-z0-9.]{0,38}[a-z0-9])?")
_INSTANCE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.+]{0,61}[A-Za-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?")
_TAINT = re.compile(
    r"(?P<key>([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)"
    r"(=(?P<value>([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?))?"
    r":(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)"
)
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")


class Cell(NamedTuple):
    """The text of a cell, and the column of its first character in the line, from 1."""

    text: str
    column: int


def read_catalog(text: str, file: str) -> tuple[tuple[InstanceType, ...], tuple[CatalogProblem, ...]]:
    """Return the valid rows of a catalog, and the problems of the others.

    >>> rows = "provider,instance_type,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour\\nus,box,8,64,1,l4,-1"
    >>> read_catalog(rows, "own.csv")[1][0].message
    "on_demand_usd_per_hour: expected USD per hour, above 0 and at most 10000, found '-1'"
    """
    lines = [(number, line) for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1) if line.strip()]
    lines = [(number, line) for number, line in lines if not line.startswith("#")]
    if not lines:
        return (), (
            _problem("empty-catalog", f"expected a line of column names, such as {PROVIDER},{NAME}", file, 1, 1),
        )
    number, first = lines[0]
    headers = cells(first) or []
    problems = list(_headers(headers, file, number))
    if any(problem.code == "missing-column" for problem in problems):
        return (), tuple(problems)
    names = [header.text.strip() for header in headers]
    names = ["" if names.count(name) > 1 else name for name in names]
    found: dict[str, InstanceType] = {}
    places: dict[str, int] = {}
    for number, line in lines[1:]:
        row = _RowReader(file, number, names, line)
        instance = row.instance()
        problems.extend(row.problems)
        if instance is None:
            continue
        if instance.key in found:
            message = f"{instance.key} is listed twice, first in line {places[instance.key]}"
            hint = "list each instance type once, with one region"
            problems.append(_problem("listed-twice", message, file, number, 1, hint))
            continue
        found[instance.key] = instance
        places[instance.key] = number
    return tuple(found.values()), tuple(problems)


def cells(line: str) -> list[Cell] | None:
    """Return the unquoted cells of a line; None if a quote is not closed.

    >>> [cell.text for cell in cells('a,"b, c",') or ()]
    ['a', 'b, c', '']
    """
    if '"' not in line:
        at, plain = 1, []
        for text in line.split(","):
            plain.append(Cell(text, at))
            at += len(text) + 1
        return plain
    found, at = [], 0
    while True:
        start = at
        if line[at : at + 1] != '"':
            end = line.find(",", at)
            end = len(line) if end < 0 else end
            text = line[at:end]
        else:
            end = at + 1
            while (end := line.find('"', end)) >= 0 and line[end + 1 : end + 2] == '"':
                end += 2
            if end < 0:
                return None
            text, end = line[at + 1 : end].replace('""', '"'), end + 1
            if line[end : end + 1] not in ("", ","):
                return None
        found.append(Cell(text, start + 1))
        if end >= len(line):
            return found
        at = end + 1


def _problem(code: str, message: str, file: str, line: int, column: int, hint: str = "") -> CatalogProblem:
    return InputProblem(code=code, message=message, position=Position(file, line, column), hint=hint)


def _headers(headers: list[Cell], file: str, line: int) -> Iterator[CatalogProblem]:
    names = [header.text.strip() for header in headers]
    if len(names) == 1 and (separator := next((sign for sign in ";\t|" if sign in names[0]), "")):
        message = f"expected commas between the columns, found {separator!r}"
        at = names[0].index(separator) + 1
        yield _problem("missing-column", message, file, line, at, "write decimals with a period: 14.50")
        return
    if not any(name in COLUMNS for name in names):
        message = f"expected a header line with column names, found {', '.join(names)!r}"
        hint = f"for example {PROVIDER},{NAME},{PRICES['on-demand']}"
        yield _problem("missing-column", message, file, line, 1, hint)
        return
    for needed in (PROVIDER, NAME):
        if names.count(needed) != 1:
            found = ", ".join(names) if needed not in names else f"{needed} twice"
            yield _problem(
                "missing-column", f"expected one column {needed}, found {found}", file, line, 1, _hint_of_columns()
            )
    for header, name in zip(headers, names, strict=True):
        if name not in COLUMNS:
            message = f"column {name!r} is unknown and ignored"
            yield _problem("unknown-column", message, file, line, header.column, _column_hint(name))
        elif names.count(name) > 1:
            message = f"column {name} is listed twice and ignored"
            yield _problem("listed-twice", message, file, line, header.column)


def _hint_of_columns() -> str:
    return f"the columns are {', '.join(COLUMNS)}"


def _column_hint(name: str) -> str:
    """Return a hint with the probably intended column. Price columns have many names in practice."""
    if re.search("price|usd|cost|rate", name.lower()) and "source" not in name.lower():
        return f"did you mean {PRICES['spot' if 'spot' in name.lower() else 'on-demand']}?"
    return suggestion(name, COLUMNS) or _hint_of_columns()


class _RowReader:
    """Reads one line cell by cell and collects all of its problems."""

    def __init__(self, file: str, line: int, names: list[str], text: str) -> None:
        self.file, self.line = file, line
        self.problems: list[CatalogProblem] = []
        found = cells(text)
        if found is None:
            self._report("bad-line", "the closing quote is missing", 1)
        elif len(found) > len(names):
            self._report("bad-line", f"expected {len(names)} cells, found {len(found)}", found[len(names)].column)
        self.cells = dict(zip(names, found or (), strict=False))

    def _report(self, code: str, message: str, column: int, hint: str = "") -> None:
        self.problems.append(_problem(code, message, self.file, self.line, column, hint))

    def text(self, name: str) -> str:
        cell = self.cells.get(name)
        return "" if cell is None else cell.text.strip()

    def matching(self, name: str, wanted: re.Pattern[str], words: str, needed: bool = False) -> str:
        text = self.text(name)
        if (text or needed) and wanted.fullmatch(text) is None:
            self._report("bad-cell", f"{name}: expected {words}, found {text!r}", self._column(name))
        return text

    def number(self, name: str, words: str, right: Callable[[Decimal], bool]) -> Decimal | None:
        text = self.text(name)
        if not text:
            return None
        value = Decimal(text) if _NUMBER.fullmatch(text) else None
        if value is not None and right(value):
            return value
        self._report("bad-cell", f"{name}: expected {words}, found {text!r}", self._column(name))
        return None

    def size(self, name: str, unit: str, most: int) -> Decimal | None:
        return self.number(name, f"{unit}, above 0 and at most {most}", lambda n: 0 < n <= most)

    def whole(self, name: str, words: str, least: int, most: int) -> int | None:
        value = self.number(name, words, lambda n: n == n.to_integral_value() and least <= n <= most)
        return None if value is None else int(value)

    def _column(self, name: str) -> int:
        cell = self.cells.get(name)
        return 1 if cell is None else cell.column

    def price(self, capacity: CapacityType) -> Decimal | None:
        """Return the price, or None for a blank or zero one, which is unknown."""
        words = f"USD per hour, above 0 and at most {MAX_USD}"
        return self.number(PRICES[capacity], words, lambda n: n <= MAX_USD) or None

    def accelerator(self, gpus: int | None) -> Accelerator | None:
        name = self.text("gpu")
        if not name:
            return None
        if not gpus and not self.text("gpu_fraction"):
            if gpus == 0 or not self.text("gpu_count"):  # otherwise the count was already reported
                self._report("bad-cell", f"gpu: found {name!r} without gpu_count", self._column("gpu"))
            return None
        try:
            return accelerator_of(name)
        except FleetError as error:
            self._report("bad-cell", f"gpu: {error.problem}", self._column("gpu"), error.hint)
            return None

    def room(self, provider: str, vcpu: Decimal | None, memory: Decimal | None) -> NodeCapacity | None:
        milli = self.whole("alloc_vcpu_milli", "millicores, at least 1", 1, _MAX_CPUS * 1000)
        mib = self.whole("alloc_memory_mib", "memory in MiB, at least 1", 1, _MAX_GIB * 1024)
        pods = self.whole("pods", f"number of pods per node, 1 to {_MAX_PODS}", 1, _MAX_PODS)
        for name, part, whole in (
            ("alloc_vcpu_milli", milli, vcpu and vcpu * 1000), ("alloc_memory_mib", mib, memory and memory * 1024),
        ):  # fmt: skip
            if part and whole and part > whole:
                message = f"{name}: {part} exceeds the {whole} that the instance type has"
                self._report("bad-cell", message, self._column(name))
        if vcpu is None or memory is None:
            return None if milli is None or mib is None else NodeCapacity(milli, mib, pods or PODS)
        rule = estimated_capacity(provider, vcpu, memory)
        if milli is None and mib is None and pods is None:
            return rule
        return NodeCapacity(milli or rule.cpu_milli, mib or rule.memory_mib, pods or PODS, milli is None or mib is None)

    def taints(self) -> Iterator[Taint]:
        """Yield the taints of a cell: in the format of ``kubectl taint``, separated by spaces."""
        for text in self.text("taints").split():
            found = _TAINT.fullmatch(text)
            if found is None:
                words = "key=value:Effect with NoSchedule, PreferNoSchedule or NoExecute"
                self._report("bad-cell", f"taints: expected {words}, found {text!r}", self._column("taints"))
            else:
                yield Taint(key=found["key"], value=found["value"] or "", effect=found["effect"])

    def instance(self) -> InstanceType | None:
        """Return the instance type, or None if the row has a problem."""
        if self.problems:
            return None
        provider = self.matching(PROVIDER, _PROVIDER, "a provider, in lower-case letters, digits and -", needed=True)
        name = self.matching(NAME, _INSTANCE, "the cloud's name for the instance type", needed=True)
        region = self.matching("region", _LABEL, "a region or an empty cell")
        arch = self.matching("arch", re.compile("amd64|arm64"), "amd64 or arm64") or "amd64"
        as_of = self.matching("as_of", _DATE, "a date such as 2026-08-03")
        vcpu = self.size("vcpu", "a number of vCPUs", _MAX_CPUS)
        memory = self.size("memory_gib", "memory in GiB", _MAX_GIB)
        gpu_memory = self.size("gpu_memory_gib", "GPU memory in GiB", _MAX_GIB)
        gpus = self.whole("gpu_count", f"number of GPUs, 0 to {MAX_GPUS}", 0, MAX_GPUS)
        disk = self.size("ephemeral_gib", "disk space for pods in GiB", _MAX_GIB)
        accelerator = self.accelerator(gpus)
        prices = [(capacity, self.price(capacity)) for capacity in CAPACITY_TYPES]
        zones = tuple(self.text("zones").split())
        room = self.room(provider, vcpu, memory)
        taints = tuple(self.taints())
        if self.problems:
            return None
        return with_usability(
            InstanceType(
                provider=provider, name=name, region=region, zones=zones or zones_of(provider, region), arch=arch,
                vcpu=vcpu, memory_gib=memory, room=room, gpus=gpus or 0, accelerator=accelerator,
                gpu_model=self.text("gpu_model") or (accelerator.product if accelerator else ""),
                gpu_fraction=self.text("gpu_fraction"), gpu_memory_gib=gpu_memory,
                prices=tuple((capacity, price) for capacity, price in prices if price is not None),
                as_of=as_of, price_source=self.text("price_source") or f"{self.file}:{self.line}",
                spec_source=self.text("spec_source"), notes=self.text("notes"), disk_gib=disk,
                taints=taints,
            )
        )  # fmt: skip
