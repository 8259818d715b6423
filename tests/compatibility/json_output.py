"""JSON Schemas of ``-o json``, derived from the output for sample input.

A property is required if every output has it. Objects whose keys are names (of nodes, attributes, labels) are maps: all
values have one schema.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from allotment.cli.main import main
from allotment.cli.plan import progress
from tests.step_limit import short_searches

Schema = dict[str, Any]

ROOT: Final = Path(__file__).resolve().parents[2]
_CORPUS: Final = ROOT / "tests" / "corpus"
_EXAMPLES: Final = ROOT / "src" / "allotment" / "examples"
_PLAN: Final = ROOT / "tests" / "packaging" / "mixed-pods.yaml"
_FLEET: Final = ("--fleet", "dgx-a100-40gb:2,t4-4x-pcie")
#: Commands that print data of the package, with their arguments.
_WITHOUT_OBJECTS: Final = (
    "metrics list:", "rule:", "rule: S102", "vocabulary:", "fleet list:", "fleet show: dgx-a100-40gb",
    "catalog list: aws/g5.*", "catalog show: aws/g5.xlarge", "examples list:", "version:",
)  # fmt: skip
#: The name of the schema for the output of all commands if their input is invalid.
INVALID_INPUT: Final = "invalid input"
#: Properties whose keys are names.
_MAPS: Final = frozenset(
    {
        "attributes",
        "capacity",
        "counters",
        "labels",
        "annotations",
        "requests",
        "limits",
        "files",
        "assumed",
        "kept",
        "becomes",
    }
)
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def samples() -> Iterator[tuple[str, Sequence[str]]]:
    """Command lines with ``-o json`` for each command that prints JSON about files, other than Kubernetes objects."""
    scenarios = sorted(map(str, _CORPUS.glob("*.yaml")))
    examples = sorted(map(str, _EXAMPLES.glob("*.yaml")))
    for file in scenarios:
        yield "explain", ("explain", "--cluster", file)
    for file in scenarios[::4]:
        yield "free", ("free", "--cluster", file)
    for file in examples:
        yield "explain", ("explain", "-f", file, *_FLEET)
        yield "check", ("check", "--isolated", file, *_FLEET)
        yield "claim show", ("claim", "show", file)
    for file in scenarios[::8]:
        yield "doctor", ("doctor", "--cluster", file)
    for file in sorted(map(str, (_CORPUS / "migrate" / "before").glob("*.yaml"))):
        yield "migrate", ("migrate", file, *_FLEET)
    yield "free", ("free", *_FLEET)
    yield "plan", ("plan", str(_PLAN), "--catalog", "aws")
    for line in _WITHOUT_OBJECTS:
        command, _, names = line.partition(":")
        yield command, [*command.split(), *names.split()]


def output(words: Sequence[str]) -> Any:
    """The output of a command line with ``-o json``."""
    printed = io.StringIO()
    with (
        patch.dict(os.environ, HOME="/nonexistent", KUBECONFIG="/nonexistent"),
        patch.object(progress, "monotonic", lambda: 0.0),  # the steps of the search decide, not the time
        short_searches(),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        main([*words, "-o", "json"])
    return json.loads(printed.getvalue())


def outputs() -> dict[str, list[Any]]:
    """The outputs of all samples, by command; those of every command for invalid input have one schema."""
    found: dict[str, list[Any]] = {}
    for command, words in samples():
        value = output(words)
        is_error = isinstance(value, dict) and "problems" in value
        found.setdefault(INVALID_INPUT if is_error else command, []).append(value)
    return found


def schema_of(values: Sequence[Any], is_map: bool = False) -> Schema:
    """The narrowest schema of these values, in terms of types, properties and items."""
    types = sorted({_TYPES.get(type(value), "") for value in values} - {""})
    if "integer" in types and "number" in types:
        types.remove("integer")
    schema: Schema = {}
    objects = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    if objects:
        types.append("object")
        schema |= _map_schema(objects) if is_map else _object_schema(objects)
    if lists:
        types.append("array")
        items = [item for value in lists for item in value]
        schema |= {"items": schema_of(items)} if items else {}
    return {"type": types[0] if len(types) == 1 else types, **schema}


def _object_schema(objects: Sequence[Mapping[str, Any]]) -> Schema:
    names = sorted({name for value in objects for name in value})
    properties = {name: schema_of([value[name] for value in objects if name in value], name in _MAPS) for name in names}
    required = [name for name in names if all(name in value for value in objects)]
    return {"properties": properties, **({"required": required} if required else {})}


def _map_schema(objects: Sequence[Mapping[str, Any]]) -> Schema:
    values = [item for value in objects for item in value.values()]
    return {"additionalProperties": schema_of(values)} if values else {}
