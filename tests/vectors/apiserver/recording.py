"""Rows of a recording, in the order in which they were recorded.

A file may contain a part of what was recorded together: the known rows in between are replayed, too, and not scored.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]

DATA = Path(__file__).parent.parent / "data"
#: Every recording starts with these objects: classes, nodes and their slices.
FIXTURES = DATA / "apiserver" / "00-fixtures.jsonl.gz"


def rows(path: Path) -> Iterator[Row]:
    """The rows of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def in_order(scored: list[Row]) -> list[tuple[Row, bool]]:
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
