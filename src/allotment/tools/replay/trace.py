"""Reads workload traces, pods and nodes, from the CSV files of Alibaba's published traces.

Three formats are supported and recognized by their columns: the GPU cluster of 2023 (``openb``: pods and nodes), the
recommendation models of 2025 (``dlrm``: pods), and the spot fleet of 2026 (nodes). All values are converted to the same
units. Every invalid row is reported, and then nothing is read: a partial trace would give plausible but wrong results.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from allotment.model.problems import InputProblem, Position

#: A whole GPU in thousandths, the unit of shares in traces.
WHOLE: Final = 1000
_GIB_IN_MIB: Final = 1024
#: Larger values of a node or pod are rejected as errors.
_MAX_VALUE: Final = 10**12
_MAX_GPUS: Final = 128


@dataclass(frozen=True, slots=True)
class TracePod:
    """One pod: requests ``gpu_milli`` thousandths of ``gpus`` GPUs of the ``models`` (empty: any).

    ``created`` and ``deleted``: seconds from the start of the trace, None if unknown. ``per_node``: maximum number of
    pods of the same ``app`` on one node, None if unlimited.
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
        """The total request in thousandths of GPUs."""
        return self.gpus * self.gpu_milli


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One node. ``memory_mib``: None if unknown; the node then fits any pod's memory."""

    name: str
    cpu_milli: int
    memory_mib: int | None
    gpus: int
    model: str = ""


class TraceError(Exception):
    """Raised if a trace is invalid, with a problem for each invalid row."""

    def __init__(self, problems: Iterable[InputProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems[:3])))


class _FieldError(Exception):
    """Raised for an invalid field."""

    def __init__(self, column: str, expected: str) -> None:
        super().__init__(column, expected)
        self.column = column
        self.expected = expected


TraceRow = Mapping[str, str]
_Read = TypeVar("_Read")


def read_pods(text: str, file: str = "pods.csv") -> tuple[TracePod, ...]:
    """The pods of a trace, in order. ``file``: the file name in problems.

    Raises `TraceError` with a problem for each invalid row.

    >>> [pod] = read_pods("name,cpu_milli,memory_mib,num_gpu,gpu_milli\\np,4000,8192,1,460\\n")
    >>> pod.gpu_total
    460
    """
    return _read(text, file, _POD_FORMATS, "pods", lambda pod: pod.name)


def read_nodes(text: str, file: str = "nodes.csv") -> tuple[TraceNode, ...]:
    """The nodes of a trace, in order. Raises `TraceError`.

    >>> read_nodes("sn,cpu_milli,memory_mib,gpu,model\\nn,96000,393216,8,G2\\n")[0].gpus
    8
    """
    return _read(text, file, _NODE_FORMATS, "nodes", lambda node: node.name)


# --- formats ---------------------------------------------------------------------------------------------------------


def _openb_pod(row: TraceRow) -> TracePod:
    gpus = _integer(row, "num_gpu", most=_MAX_GPUS)
    milli = _integer(row, "gpu_milli", most=WHOLE)
    if gpus == 0 and milli:
        raise _FieldError("gpu_milli", "0, because num_gpu is 0")
    if gpus and not milli:
        raise _FieldError("gpu_milli", f"1 to {WHOLE} (thousandths of each GPU)")
    if gpus > 1 and milli != WHOLE:
        raise _FieldError("gpu_milli", f"{WHOLE}, because num_gpu is greater than 1")
    created, deleted = _seconds(row, "creation_time"), _seconds(row, "deletion_time")
    if created is not None and deleted is not None and deleted < created:
        raise _FieldError("deletion_time", f"at least creation_time ({row['creation_time']})")
    return TracePod(
        name=_name(row, "name"),
        cpu_milli=_integer(row, "cpu_milli"),
        memory_mib=_integer(row, "memory_mib"),
        gpus=gpus,
        gpu_milli=milli,
        # Some lists contain a model twice.
        models=tuple(dict.fromkeys(filter(None, row.get("gpu_spec", "").split("|")))),
        created=created,
        deleted=deleted,
    )


def _dlrm_pod(row: TraceRow) -> TracePod:
    gpus = _integer(row, "gpu_request", most=_MAX_GPUS)
    per_node = _number(row, "max_instance_per_node")
    if per_node != int(per_node) or (per_node < 1 and per_node != -1):
        raise _FieldError("max_instance_per_node", "an integer >= 1, or -1 for unlimited")
    return TracePod(
        name=_name(row, "instance_sn"),
        cpu_milli=_amount(row, "cpu_request", 1000),
        memory_mib=_amount(row, "memory_request", _GIB_IN_MIB),
        gpus=gpus,
        gpu_milli=WHOLE if gpus else 0,
        created=_seconds(row, "creation_time"),
        deleted=_seconds(row, "deletion_time"),
        # An application has instances with and without GPUs (role), which have separate limits.
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


#: Required columns and reader of each format; the first format whose columns are all in the file is used.
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


def _read(
    text: str, file: str, formats: _Formats[_Read], noun: str, name_of: Callable[[_Read], str]
) -> tuple[_Read, ...]:
    lines = text.removeprefix("\ufeff").splitlines()
    # Comments may precede the line with the columns.
    header_line = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    columns = next(csv.reader(lines[header_line : header_line + 1]), [])
    format_ = next((format_ for format_ in formats if set(format_[0]) <= set(columns)), None)
    if format_ is None:
        raise TraceError([_unknown_format(Position(file, header_line + 1, 1), formats, noun, columns)])
    problems: list[InputProblem] = []
    values: dict[str, _Read] = {}
    first_lines: dict[str, int] = {}
    for number, line in enumerate(lines[header_line + 1 :], header_line + 2):
        if not line.strip():
            continue
        cells = next(csv.reader([line]))
        if len(cells) != len(columns):
            message = f"expected {len(columns)} fields, as in the first line, but found {len(cells)}"
            problems.append(InputProblem(code="bad-row", message=message, position=Position(file, number, 1)))
            continue
        row = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
        try:
            value = format_[1](row)
        except _FieldError as error:
            problems.append(_field_problem(file, number, line, columns, row, error))
            continue
        name = name_of(value)
        if name in values:
            message = f"duplicate name {name!r}"
            hint = f"the first is on line {first_lines[name]}"
            problems.append(
                InputProblem(code="bad-row", message=message, position=Position(file, number, 1), hint=hint)
            )
            continue
        values[name] = value
        first_lines[name] = number
    if problems:
        raise TraceError(problems)
    if not values:
        raise TraceError(
            [InputProblem(code="no-object", message=f"the file has no {noun}", position=Position(file, 1, 1))]
        )
    return tuple(values.values())


def _unknown_format(position: Position, formats: _Formats[_Read], noun: str, columns: list[str]) -> InputProblem:
    # The most similar format is probably the intended one.
    expected = max(formats, key=lambda format_: len(set(format_[0]) & set(columns)))[0]
    missing = ", ".join(column for column in expected if column not in columns)
    others = " or ".join(",".join(format_[0]) for format_ in formats)
    return InputProblem(
        code="bad-header",
        message=f"expected a list of {noun}, but the first line lacks {missing}",
        position=position,
        hint=f"the first line must name the columns: {others}",
    )


def _field_problem(
    file: str, number: int, line: str, columns: list[str], row: TraceRow, error: _FieldError
) -> InputProblem:
    at = columns.index(error.column)
    cells = line.split(",")
    column = 1 + sum(len(cell) + 1 for cell in cells[:at]) if len(cells) == len(columns) else 1
    value = row[error.column]
    return InputProblem(
        code="bad-row",
        message=f"{error.column}: expected {error.expected}, found {repr(value) if value else 'an empty field'}",
        position=Position(file, number, column),
        path=error.column,
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
    if not abs(value) <= _MAX_VALUE:  # rejects NaN too
        raise _FieldError(column, f"a number <= {_MAX_VALUE:,}")
    return value


def _integer(row: TraceRow, column: str, most: int = _MAX_VALUE) -> int:
    value = _number(row, column)
    if value != int(value) or not 0 <= value <= most:
        raise _FieldError(column, f"an integer from 0 to {most:,}")
    return int(value)


def _amount(row: TraceRow, column: str, unit: int) -> int:
    """The value in the unit, rounded up."""
    value = _number(row, column)
    if value < 0:
        raise _FieldError(column, "a number >= 0")
    return -int(-value * unit // 1)


def _seconds(row: TraceRow, column: str) -> float | None:
    """A time in seconds; None if the column or its value is missing."""
    return _number(row, column) if row.get(column) else None
