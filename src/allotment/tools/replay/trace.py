"""Workload traces as values: which pods came and went, and on which nodes, from the CSV files of Alibaba's traces.

Three forms are read, told apart by their columns: the GPU cluster of 2023 (``openb``: pods and nodes), the
recommendation models of 2025 (``dlrm``: pods), the spot fleet of 2026 (nodes). Whatever a row says, it comes out in
the same units. Every row that cannot be used is named, and then nothing is read: half a trace would give figures that
look right.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from allotment.model.problems import InputProblem, Position

#: A GPU in thousandths, as traces count shares.
WHOLE: Final = 1000
_GIB_IN_MIB: Final = 1024
#: More of anything on one node or in one pod is a typing error.
_MAX_VALUE: Final = 10**12
_MAX_GPUS: Final = 128


@dataclass(frozen=True, slots=True)
class TracePod:
    """One pod: ``gpus`` devices with ``gpu_milli`` thousandths of each; ``models`` that it accepts (empty: any).

    ``created`` and ``deleted`` are seconds from the start of the trace, None where it does not say. Of pods of one
    ``app`` at most ``per_node`` may be on one node, None if any number may.
    """

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...] = ()
    created: float | None = None
    deleted: float | None = None
    app: str = ""
    per_node: int | None = None

    @property
    def gpu_total(self) -> int:
        """Thousandths of GPUs that it asks for altogether."""
        return self.gpus * self.gpu_milli


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One node; ``memory_mib`` is None where the trace does not say, and then memory keeps no pod away."""

    name: str
    cpu_milli: int
    memory_mib: int | None
    gpus: int
    model: str = ""


class TraceError(Exception):
    """Raised when rows of a trace cannot be used, with everything that is wrong."""

    def __init__(self, problems: Iterable[InputProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems[:3])))


class _FieldError(Exception):
    """Raised when a field is not what was wanted."""

    def __init__(self, column: str, expected: str) -> None:
        super().__init__(column, expected)
        self.column = column
        self.wanted = expected


TraceRow = Mapping[str, str]
_Read = TypeVar("_Read")


def read_pods(text: str, file: str = "pods.csv") -> tuple[TracePod, ...]:
    """The pods of a trace, in its order.

    Raises `UnreadableTrace` with a problem for each row that cannot be used; ``file`` is what it calls the text.

    >>> [pod] = read_pods("name,cpu_milli,memory_mib,num_gpu,gpu_milli\\np,4000,8192,1,460\\n")
    >>> pod.gpu_total
    460
    """
    return _read(text, file, _POD_FORMATS, "pods", lambda pod: pod.name)


def read_nodes(text: str, file: str = "nodes.csv") -> tuple[TraceNode, ...]:
    """The nodes of a trace, in its order. Raises `UnreadableTrace`.

    >>> read_nodes("sn,cpu_milli,memory_mib,gpu,model\\nn,96000,393216,8,G2\\n")[0].gpus
    8
    """
    return _read(text, file, _NODE_FORMATS, "nodes", lambda node: node.name)


# --- forms -----------------------------------------------------------------------------------------------------------


def _openb_pod(row: TraceRow) -> TracePod:
    gpus = _integer(row, "num_gpu", most=_MAX_GPUS)
    milli = _integer(row, "gpu_milli", most=WHOLE)
    if gpus == 0 and milli:
        raise _FieldError("gpu_milli", "0, for it has no GPUs (num_gpu)")
    if gpus and not milli:
        raise _FieldError("gpu_milli", f"1 to {WHOLE}: a share of each GPU in thousandths")
    if gpus > 1 and milli != WHOLE:
        raise _FieldError("gpu_milli", f"{WHOLE}, for it has several GPUs (num_gpu)")
    created, deleted = _seconds(row, "creation_time"), _seconds(row, "deletion_time")
    if created is not None and deleted is not None and deleted < created:
        raise _FieldError("deletion_time", f"no less than creation_time ({row['creation_time']})")
    return TracePod(
        name=_name(row, "name"),
        cpu_milli=_integer(row, "cpu_milli"),
        memory_mib=_integer(row, "memory_mib"),
        gpus=gpus,
        gpu_milli=milli,
        # Some lists name a model twice.
        models=tuple(dict.fromkeys(filter(None, row.get("gpu_spec", "").split("|")))),
        created=created,
        deleted=deleted,
    )


def _dlrm_pod(row: TraceRow) -> TracePod:
    gpus = _integer(row, "gpu_request", most=_MAX_GPUS)
    per_node = _number(row, "max_instance_per_node")
    if per_node != int(per_node) or (per_node < 1 and per_node != -1):
        raise _FieldError("max_instance_per_node", "a whole number from 1 on, or -1 for any number")
    return TracePod(
        name=_name(row, "instance_sn"),
        cpu_milli=_amount(row, "cpu_request", 1000),
        memory_mib=_amount(row, "memory_request", _GIB_IN_MIB),
        gpus=gpus,
        gpu_milli=WHOLE if gpus else 0,
        created=_seconds(row, "creation_time"),
        deleted=_seconds(row, "deletion_time"),
        # An application has instances with GPUs and without (role), which are counted apart.
        app=f"{row['app_name']}/{row['role']}",
        per_node=None if per_node == -1 else int(per_node),
    )


def _openb_node(row: TraceRow) -> TraceNode:
    return TraceNode(
        name=_name(row, "sn"),
        cpu_milli=_integer(row, "cpu_milli"),
        memory_mib=_integer(row, "memory_mib"),
        gpus=_integer(row, "gpu", most=_MAX_GPUS),
        model=row["model"],
    )


def _spot_node(row: TraceRow) -> TraceNode:
    return TraceNode(
        name=f"node-{_name(row, 'node_name')}",
        cpu_milli=_amount(row, "cpu_num", 1000),
        memory_mib=None,
        gpus=_integer(row, "gpu_capacity_num", most=_MAX_GPUS),
        model=row["gpu_model"],
    )


#: The columns that a form must have, and how it is read; the first of which a file has all columns is meant.
_Formats = tuple[tuple[tuple[str, ...], Callable[[TraceRow], _Read]], ...]

_POD_FORMATS: Final[_Formats[TracePod]] = (
    (("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"), _openb_pod),
    (
        ("instance_sn", "role", "app_name", "cpu_request", "gpu_request", "memory_request", "max_instance_per_node"),
        _dlrm_pod,
    ),
)
_NODE_FORMATS: Final[_Formats[TraceNode]] = (
    (("sn", "cpu_milli", "memory_mib", "gpu", "model"), _openb_node),
    (("node_name", "gpu_model", "gpu_capacity_num", "cpu_num"), _spot_node),
)


# --- rows ------------------------------------------------------------------------------------------------------------


def _read(text: str, file: str, forms: _Formats[_Read], what: str, name_of: Callable[[_Read], str]) -> tuple[_Read, ...]:
    lines = text.removeprefix("\ufeff").splitlines()
    # What stands above the columns may say what the file is.
    head = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    columns = next(csv.reader(lines[head : head + 1]), [])
    form = next((form for form in forms if set(form[0]) <= set(columns)), None)
    if form is None:
        raise TraceError([_unknown_format(Position(file, head + 1, 1), forms, what, columns)])
    problems: list[InputProblem] = []
    found: dict[str, _Read] = {}
    first: dict[str, int] = {}
    for number, line in enumerate(lines[head + 1 :], head + 2):
        if not line.strip():
            continue
        cells = next(csv.reader([line]))
        if len(cells) != len(columns):
            words = f"wanted {len(columns)} fields as the first line has, found {len(cells)}"
            problems.append(InputProblem(code="bad-row", message=words, position=Position(file, number, 1)))
            continue
        row = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
        try:
            one = form[1](row)
        except _FieldError as wrong:
            problems.append(_field_problem(file, number, line, columns, row, wrong))
            continue
        name = name_of(one)
        if name in found:
            words = f"{name!r} is there twice: wanted each name once"
            hint = f"the first is on line {first[name]}"
            problems.append(InputProblem(code="bad-row", message=words, position=Position(file, number, 1), hint=hint))
            continue
        found[name] = one
        first[name] = number
    if problems:
        raise TraceError(problems)
    if not found:
        raise TraceError([InputProblem(code="no-object", message=f"no {what}", position=Position(file, 1, 1))])
    return tuple(found.values())


def _unknown_format(position: Position, forms: _Formats[_Read], what: str, columns: list[str]) -> InputProblem:
    # The form that it resembles most is what was probably meant.
    wanted = max(forms, key=lambda form: len(set(form[0]) & set(columns)))[0]
    lacking = ", ".join(column for column in wanted if column not in columns)
    others = " or ".join(",".join(form[0]) for form in forms)
    return InputProblem(
        code="bad-header",
        message=f"wanted a list of {what}, found a first line without {lacking}",
        position=position,
        hint=f"the first line names the columns: {others}",
    )


def _field_problem(file: str, number: int, line: str, columns: list[str], row: TraceRow, wrong: _FieldError) -> InputProblem:
    at = columns.index(wrong.column)
    cells = line.split(",")
    column = 1 + sum(len(cell) + 1 for cell in cells[:at]) if len(cells) == len(columns) else 1
    found = row[wrong.column]
    return InputProblem(
        code="bad-row",
        message=f"{wrong.column}: wanted {wrong.wanted}, found {found!r}"
        if found
        else f"{wrong.column}: wanted {wrong.wanted}, found nothing",
        position=Position(file, number, column),
        path=wrong.column,
    )


# --- fields ----------------------------------------------------------------------------------------------------------


def _name(row: TraceRow, column: str) -> str:
    if not row[column]:
        raise _FieldError(column, "a name")
    return row[column]


def _number(row: TraceRow, column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        raise _FieldError(column, "a number") from None
    if not abs(value) <= _MAX_VALUE:  # also what is not a number at all: nan
        raise _FieldError(column, f"a number up to {_MAX_VALUE:,}")
    return value


def _integer(row: TraceRow, column: str, most: int = _MAX_VALUE) -> int:
    value = _number(row, column)
    if value != int(value) or not 0 <= value <= most:
        raise _FieldError(column, f"a whole number from 0 to {most:,}")
    return int(value)


def _amount(row: TraceRow, column: str, unit: int) -> int:
    """So many units, rounded up."""
    value = _number(row, column)
    if value < 0:
        raise _FieldError(column, "a number from 0 on")
    return -int(-value * unit // 1)


def _seconds(row: TraceRow, column: str) -> float | None:
    """A time; nothing is said where the column or its content is missing."""
    return _number(row, column) if row.get(column) else None
