"""Scores requests that the real API server answered: status code, causes and texts, and the object that comes back.

A row is one request with its answer. Rows that write to the resource API, or create a pod or workload, are answered by
us in memory; other rows only add what they create. Every feature gate of 1.36 is on, as in the recordings, but those
that a row names as ``gates_off``. A row may bring the object that is ``stored`` before it; objects of
``00-fixtures.jsonl.gz`` beside the file exist beforehand.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from allotment.cel.admission import validation_context
from allotment.model.defaults import with_defaults
from allotment.model.features import GATES, Features
from allotment.model.fields import GROUP
from allotment.model.meta import Object
from allotment.model.trees import to_value
from allotment.model.validation.answers import FOREIGN, RESOURCES, Answer, Request, World, answer
from allotment.model.validation.context import Context
from allotment.model.versions import to_v1
from tests.vectors.result import Result

RELEASE = "1.36"
EPOCH = "2026-01-01T00:00:00Z"
FIXTURES = "00-fixtures.jsonl.gz"
RECORDED = Path(__file__).parent / "data" / "validation.jsonl.gz"
WRITES = ("POST", "PUT", "PATCH")
#: What differs from run to run, or is not the resource API's own (managed fields are the store's).
MASKED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "timeAdded")

_OF_A_MAP = re.compile(r"[.](labels|annotations|attributes|capacity|counters|nodeAllocatableResourceMappings)\b")

Row = dict[str, Any]
Objects = dict[tuple[str, str, str], Object]


def score(path: Path) -> Iterator[Result]:
    """Answer every write of a recording and compare."""
    objects: Objects = {}
    namespaces: dict[str, Mapping[str, str]] = {}
    fixtures = path.with_name(FIXTURES)
    if fixtures.is_file() and fixtures != path:
        for row in _rows(fixtures):
            _remember(row, objects, namespaces)
    rows = list(_rows(path))
    for row, scored in _in_order(rows):
        if scored and _ours(row):
            yield _compared(row, _answered(row, objects, namespaces))
        _remember(row, objects, namespaces)


def _in_order(rows: list[Row]) -> Iterator[tuple[Row, bool]]:
    """The rows, and unscored between them what else was recorded in the same run: a file may be a part of it."""
    present = {(row["scenario"], row["seq"]) for row in rows}
    scenarios = {scenario for scenario, _ in present}
    others = [
        row for row in _rows(RECORDED) if row["scenario"] in scenarios and (row["scenario"], row["seq"]) not in present
    ]
    # Rows that one part holds in an order of its own stay so: the sort is stable.
    merged = [(row, True) for row in rows] + [(row, False) for row in others]
    yield from sorted(merged, key=lambda entry: entry[0]["seq"]) if others else merged


@cache
def _context(gates_off: tuple[str, ...]) -> Context:
    gates = {gate: gate not in gates_off for gate, releases in GATES.items() if RELEASE in releases}
    return validation_context(Features(RELEASE, gates))


def _rows(path: Path) -> Iterator[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _steps(row: Row) -> list[str]:
    path: str = row["request"]["path"]
    return urlsplit(path).path.strip("/").split("/")


def _ours(row: Row) -> bool:
    request, steps = row["request"], _steps(row)
    if request["method"] not in WRITES or "body" not in request:
        return False
    return (
        steps[:2] == ["apis", GROUP]
        or (steps[0] == "api" and FOREIGN.get((steps[1], steps[-1])) is not None)
        or (steps[0] == "apis" and FOREIGN.get(("/".join(steps[1:3]), steps[-1])) is not None)
    )


def _answered(row: Row, objects: Objects, namespaces: Mapping[str, Mapping[str, str]]) -> Answer:
    request, recorded, steps = row["request"], row["response"], _steps(row)
    place = steps.index("namespaces") + 1 if "namespaces" in steps else 0
    if stored := row.get("stored"):
        objects = _with(objects, stored, steps)
    world = World(
        _context(tuple(row.get("gates_off", ()))),
        now=_time_of(recorded),
        objects=objects,
        namespaces={steps[place]: namespaces.get(steps[place], {})} if place else None,
    )
    headers = {name.lower(): text for name, text in request.get("headers", {}).items()}
    content_type = headers.get("content-type", "application/json")
    return answer(Request(request["method"], request["path"], request["body"], content_type), world)


def _with(objects: Objects, stored: Row, steps: list[str]) -> Objects:
    """The objects and one more, with the defaults that it was stored with."""
    plural = next(step for step in steps[3:] if step in RESOURCES)
    value: Any = with_defaults(
        to_value(to_v1(stored), RESOURCES[plural].type), version=stored["apiVersion"].rpartition("/")[2], now=EPOCH
    )
    return {**objects, (plural, value.metadata.namespace, value.metadata.name): value}


def _time_of(recorded: Row) -> str:
    body = recorded.get("body") or {}
    return str(body.get("metadata", {}).get("creationTimestamp", EPOCH))


def _remember(row: Row, objects: Objects, namespaces: dict[str, Mapping[str, str]]) -> None:
    """Keep what the recorded server stored."""
    request, recorded, steps = row["request"], row["response"], _steps(row)
    body = recorded.get("body")
    if recorded["code"] not in (200, 201) or "dryRun" in parse_qs(urlsplit(request["path"]).query):
        return
    if not isinstance(body, dict) or request["method"] not in (*WRITES, "DELETE"):
        return
    meta = body.get("metadata", {})
    if body.get("kind") == "Namespace":
        namespaces[meta["name"]] = meta.get("labels", {})
    plural = next((step for step in steps[3:] if step in RESOURCES), "")
    if steps[:2] != ["apis", GROUP] or not plural or body.get("kind") != RESOURCES[plural].kind:
        return
    key = (plural, meta.get("namespace", ""), meta["name"])
    if request["method"] == "DELETE":
        objects.pop(key, None)
    else:
        objects[key] = to_value(to_v1(body), RESOURCES[plural].type)


# --- comparing -------------------------------------------------------------------------------------------------------


def _compared(row: Row, ours: Answer) -> Result:
    recorded = row["response"]
    body = recorded.get("body") or {}
    detail = ""
    if ours.code != recorded["code"]:
        texts = body.get("message", ""), ours.body.get("message", "")
        detail = f"expected {recorded['code']} {texts[0]}, answered {ours.code} {texts[1]}"
    elif body.get("kind") == "Status":
        detail = _difference(_essence(body), _essence(ours.body))
    elif ours.value is not None:
        detail = _difference(_masked(body), _masked(ours.body))
    return Result(row["name"], not detail, detail)


def _essence(status: Row) -> Any:
    """What must agree in a ``Status``; of a CEL syntax error the text up to its position."""
    causes = (status.get("details") or {}).get("causes", [])
    causes = [cause | {"message": _to_position(cause["message"])} for cause in causes]
    message = _to_position(status["message"])
    if any(_OF_A_MAP.search(cause["field"]) for cause in causes):
        # The real server walks maps in an order of chance; the message repeats the causes in the same order.
        causes.sort(key=lambda cause: (cause["field"], cause["message"]))
        message = message.partition(" is invalid: ")[0]
    return {"reason": status.get("reason"), "message": message, "causes": causes}


def _to_position(text: str) -> str:
    return re.sub(r"(ERROR: <input>:[0-9]+:[0-9]+: Syntax error: ).*", r"\1", text, flags=re.DOTALL)


def _masked(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _masked(item) for key, item in tree.items() if key not in MASKED}
    return [_masked(item) for item in tree] if isinstance(tree, list) else tree


def _difference(expected: Any, found: Any, path: str = "") -> str:
    """The first place where two trees differ; empty if they agree."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            missing = "nothing"
            if detail := _difference(expected.get(key, missing), found.get(key, missing), f"{path}.{key}"):
                return detail
        return ""
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, pair in enumerate(zip(expected, found, strict=True)):
            if detail := _difference(*pair, f"{path}[{index}]"):
                return detail
        return ""
    return "" if expected == found else f"{path}: expected {expected!r}, answered {found!r}"
