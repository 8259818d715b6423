"""Writes the JSON Schemas of the reference: ``python -m tests.compatibility``; with ``--release`` also the description
with which later changes are compared."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.compatibility.json_output import ROOT, outputs, schema_of
from tests.compatibility.public import description

SCHEMAS: Final = ROOT / "docs" / "reference" / "schemas"
#: The description of the last release.
RELEASED: Final = Path(__file__).with_name("released.json")
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schemas(printed: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """The schema of each command, from what it printed."""
    return {
        command: {"$schema": DIALECT, "title": f"JSON output of allot: {command}", **schema_of(values)}
        for command, values in printed.items()
    }


def file_of(command: str) -> Path:
    return SCHEMAS / f"{command.replace(' ', '-')}.json"


def text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    found = schemas(outputs())
    SCHEMAS.mkdir(exist_ok=True)
    for command, schema in found.items():
        file_of(command).write_text(text(schema))
    if sys.argv[1:] == ["--release"]:
        RELEASED.write_text(text({**description(), "json": found}))
