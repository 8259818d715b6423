"""Rows of a recording, in the order in which they were recorded.

A file may contain a part of what was recorded together: the known rows in between are replayed, too, and not scored.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]

DATA = Path(__file__).parent.parent / "data"
#: Every recording starts with these objects: classes, nodes and their slices.
FIXTURES = DATA / "apiserver" / "00-fixtures.jsonl.gz"
#: What a row must have to be replayed: a request or a flow.
_OF_REQUESTS = ("scenario", "seq", "name", "request", "response")
_OF_FLOWS = ("flow", "namespace", "steps", "snapshots")


def rows(path: Path) -> Iterator[Row]:
    """The rows of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


class Recording(NamedTuple):
    """The rows of a file: requests, flows, and the reasons for rows that are neither, by line."""

    requests: Sequence[Row]
    flows: Sequence[Row]
    unusable: Sequence[tuple[str, str]]


def read(path: Path) -> Recording:
    """Read a file; raises ValueError if no line of it is a row."""
    requests: list[Row] = []
    flows: list[Row] = []
    unusable: list[tuple[str, str]] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                unusable.append((f"line {number}", f"not JSON: {error}"))
                continue
            keys = row if isinstance(row, dict) else ()
            expected = _OF_FLOWS if "flow" in keys else _OF_REQUESTS
            if missing := [key for key in expected if key not in keys]:
                unusable.append((f"line {number}", f"a row without {', '.join(missing)}"))
            elif "flow" not in row and not isinstance(row["seq"], int):
                unusable.append((f"line {number}", f"not a number: seq {row['seq']!r}"))
            else:
                (flows if "flow" in keys else requests).append(row)
    if unusable and not requests and not flows:
        raise ValueError(f"{unusable[0][0]}: {unusable[0][1]}")
    return Recording(requests, flows, unusable)


def in_order(scored: Sequence[Row]) -> list[tuple[Row, bool]]:
    """The rows by scenario and number, with known rows between them that are only replayed (``False``)."""
    present = {(row["scenario"], row["seq"]) for row in scored}
    scenarios = {scenario for scenario, _ in present}
    known = [
        row
        for path in sorted([*(DATA / "apiserver").glob("*.jsonl.gz"), DATA / "validation.jsonl.gz"])
        for row in rows(path)
        if row.get("scenario") in scenarios and (row["scenario"], row["seq"]) not in present
    ]
    marked = [(row, True) for row in scored] + [(row, False) for row in known]
    return sorted(marked, key=lambda entry: (entry[0]["scenario"], entry[0]["seq"]))
