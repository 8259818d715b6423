"""Scores requests that the real API server answered: status code, causes and texts, and the returned object.

A row is one request with its answer. Rows that write to the resource API, or create a pod or workload, are answered by
an API of their own, on a store with the recorded server's objects; other rows only add the objects that they create.
Every feature gate of 1.36 is on, as in the recordings, except for a row's ``gates_off``. A row may contain the object
that is ``stored`` before it; objects of ``00-fixtures.jsonl.gz`` in the same folder exist beforehand.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from allotment.apiserver.access.authentication import Authenticator
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.access.reviews import AccessControl
from allotment.apiserver.api import Api
from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.apiserver.http_messages import Peer, Request, Response
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.model.defaults import with_defaults
from allotment.model.features import GATES, Features
from allotment.model.fields import GROUP, shape_of
from allotment.model.normal_form import normalize
from allotment.model.trees import to_tree, to_value
from allotment.model.validation.admission import VALIDATORS
from allotment.model.versions import to_v1
from tests.vectors.result import Result

RELEASE = "1.36"
EPOCH = "2026-01-01T00:00:00Z"
FIXTURES = "00-fixtures.jsonl.gz"
RECORDED = Path(__file__).parent / "data" / "validation.jsonl.gz"
WRITES = ("POST", "PUT", "PATCH")
#: Fields that differ from run to run, or are not the resource API's own (managed fields are the store's).
MASKED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "timeAdded")
#: Resources of other groups that can contain claims.
HOLDERS: Final = frozenset({"pods", "jobs", "cronjobs", "deployments", "replicasets", "statefulsets", "daemonsets"})
#: Recorded from the code of one kind, which does not check whether the kind is served: for its own rows the gate is on.
SERVED_BY: Final = {"devicetaintrules": "DRADeviceTaintRules", "resourcepoolstatusrequests": "DRAResourcePoolStatus"}
ADMIN: Final = Peer("recorder", ("system:masters",))

_OF_A_MAP = re.compile(r"[.](labels|annotations|attributes|capacity|counters|nodeAllocatableResourceMappings)\b")
_TYPES: Final = {kind.__name__: kind for kind in VALIDATORS}
#: The stored version of kinds that have no v1.
_NEWEST: Final = {"DeviceTaintRule": "v1beta2", "ResourcePoolStatusRequest": "v1alpha3"}

Row = dict[str, Any]
#: By bucket, namespace and name, as in the store.
Objects = dict[tuple[str, str, str], Row]


class Answer(NamedTuple):
    """Allotment's answer."""

    code: int
    body: Row


def score(path: Path) -> Iterator[Result]:
    """Answer every write of a recording and compare."""
    return iter(asyncio.run(_scored(path)))


async def _scored(path: Path) -> list[Result]:
    objects: Objects = {}
    fixtures = path.with_name(FIXTURES)
    if fixtures.is_file() and fixtures != path:
        for row in _rows(fixtures):
            _store(row, objects)
    results = []
    for row, scored in _in_order(list(_rows(path))):
        if scored and _answer_row(row):
            results.append(_compared(row, await _answer(row, objects)))
        _store(row, objects)
    return results


def _in_order(rows: list[Row]) -> Iterator[tuple[Row, bool]]:
    """The rows, and between them the unscored rows that were recorded in the same run: a file may be a part of it."""
    present = {(row["scenario"], row["seq"]) for row in rows}
    scenarios = {scenario for scenario, _ in present}
    others = [
        row for row in _rows(RECORDED) if row["scenario"] in scenarios and (row["scenario"], row["seq"]) not in present
    ]
    # Rows that one part has in an order of its own keep it, because the sort is stable.
    merged = [(row, True) for row in rows] + [(row, False) for row in others]
    yield from sorted(merged, key=lambda entry: entry[0]["seq"]) if others else merged


def _rows(path: Path) -> Iterator[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _steps(row: Row) -> list[str]:
    path: str = row["request"]["path"]
    return urlsplit(path).path.strip("/").split("/")


def _answer_row(row: Row) -> bool:
    request, steps = row["request"], _steps(row)
    if request["method"] not in WRITES or "body" not in request:
        return False
    return steps[:2] == ["apis", GROUP] or (request["method"] == "POST" and steps[-1] in HOLDERS)


# --- answering -------------------------------------------------------------------------------------------------------


class _Ids:
    """The same ID for every object, because a row creates only one."""

    def uid(self) -> str:
        return "00000000-0000-4000-8000-000000000000"

    def suffix(self) -> str:
        return "xxxxx"


@cache
def _features(gates_off: tuple[str, ...]) -> Features:
    return Features(RELEASE, {gate: gate not in gates_off for gate, releases in GATES.items() if RELEASE in releases})


@cache
def _kinds(features: Features) -> tuple[ServedKind, ...]:
    return tuple(built_in_kinds(features, ("api/all=true",)))


def _api(features: Features, now: datetime, objects: Objects) -> Api:
    """A new API on a store with these objects."""
    store = SqliteStore.open(None)
    for key, tree in objects.items():
        store.put(*key, {**tree, "metadata": dict(tree["metadata"])})
    authorizer = Authorizer(store)
    authenticator = Authenticator(store, clock=lambda: now, key=b"", authorize=authorizer)
    return Api(
        store, _kinds(features), clock=lambda: now, ids=_Ids(), features=features,
        access=AccessControl(authenticator, authorizer),
    )  # fmt: skip


async def _answer(row: Row, objects: Objects) -> Answer:
    request, steps = row["request"], _steps(row)
    gates_off = tuple(gate for gate in row.get("gates_off", ()) if SERVED_BY.get(_plural(steps)) != gate)
    initial = _initial_objects(steps, objects)
    if stored := row.get("stored"):
        initial |= _stored(stored, steps)
    api = _api(_features(gates_off), datetime.fromisoformat(_time_of(row["response"])), initial)
    url = urlsplit(request["path"])
    headers = {name.lower(): text for name, text in request.get("headers", {}).items()}
    body = _with_stored_revision(request["body"], stored, api, steps)
    answer = await api(Request(request["method"], url.path, url.query, headers, json.dumps(body).encode(), ADMIN))
    assert isinstance(answer, Response), "no row watches"
    return Answer(answer.code, json.loads(answer.body))


def _plural(steps: list[str]) -> str:
    """The resource of the group that a path names; empty for other paths."""
    rest = steps[3:] if steps[:2] == ["apis", GROUP] else []
    return (*(rest[2:] if rest[:1] == ["namespaces"] else rest), "")[0]


def _initial_objects(steps: list[str], objects: Objects) -> Objects:
    """The stored objects, with the namespace of a path and the service account of its pods."""
    if "namespaces" not in steps[:-1]:
        return dict(objects)
    name = steps[steps.index("namespaces") + 1]
    account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": name}}
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
    return {("namespaces", "", name): namespace, ("serviceaccounts", name, "default"): account, **objects}


def _stored(tree: Row, steps: list[str]) -> Objects:
    """An object with the defaults that it was stored with."""
    version, kind = tree["apiVersion"].rpartition("/")[2], tree["kind"]
    value: Any = with_defaults(to_value(to_v1(tree), _TYPES[kind]), version=version, now=EPOCH)
    return _entry(to_tree(value, tree["apiVersion"], kind), steps)


def _entry(tree: Row, steps: list[str]) -> Objects:
    """An object of the group, given in v1, at its key."""
    version = f"{GROUP}/{_NEWEST.get(tree['kind'], 'v1')}"
    return {_key(tree, steps): normalize({**tree, "apiVersion": version}, shape_of(version, tree["kind"], RELEASE))}


def _key(tree: Row, steps: list[str]) -> tuple[str, str, str]:
    meta = tree["metadata"]
    return f"{_plural(steps)}.{GROUP}", meta.get("namespace", ""), meta["name"]


def _with_stored_revision(body: Any, stored: Row | None, api: Api, steps: list[str]) -> Any:
    """Replace the recorded revision in a body by that of the stored object, because the store assigns its own."""
    given = (body.get("metadata") or {}).get("resourceVersion") if isinstance(body, dict) else None
    if not stored or not given or given != stored["metadata"].get("resourceVersion"):
        return body
    entry = api.store.get(*_key(stored, steps))
    assert entry is not None
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(entry.revision)}}


def _time_of(recorded: Row) -> str:
    body = recorded.get("body") or {}
    return str(body.get("metadata", {}).get("creationTimestamp", EPOCH))


def _store(row: Row, objects: Objects) -> None:
    """Store the object that the recorded server stored."""
    request, recorded, steps = row["request"], row["response"], _steps(row)
    body = recorded.get("body")
    if recorded["code"] not in (200, 201) or "dryRun" in parse_qs(urlsplit(request["path"]).query):
        return
    if not isinstance(body, dict) or request["method"] not in (*WRITES, "DELETE"):
        return
    if body.get("kind") == "Namespace":
        objects["namespaces", "", body["metadata"]["name"]] = body
    elif _plural(steps) and body.get("kind") in _TYPES:
        if request["method"] == "DELETE":
            objects.pop(_key(body, steps), None)
        else:
            objects |= _entry(to_v1(body), steps)


# --- comparing -------------------------------------------------------------------------------------------------------


def _compared(row: Row, actual: Answer) -> Result:
    recorded = row["response"]
    body = recorded.get("body") or {}
    detail = ""
    if actual.code != recorded["code"]:
        texts = body.get("message", ""), actual.body.get("message", "")
        detail = f"expected {recorded['code']} {texts[0]}, answered {actual.code} {texts[1]}"
    elif body.get("kind") == "Status":
        detail = _difference(_compared_parts(body), _compared_parts(actual.body))
    elif _plural(_steps(row)):
        detail = _difference(_masked(body), _masked(actual.body))
    return Result(row["name"], not detail, detail)


def _compared_parts(status: Row) -> Any:
    """The compared parts of a ``Status``; of a CEL syntax error the text up to its position."""
    causes = (status.get("details") or {}).get("causes", [])
    causes = [cause | {"message": _to_position(cause["message"])} for cause in causes]
    message = _to_position(status["message"])
    if any(_OF_A_MAP.search(cause["field"]) for cause in causes):
        # The real server iterates over maps in random order; the message repeats the causes in the same order.
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
    """The first difference between two trees; empty if they agree."""
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
