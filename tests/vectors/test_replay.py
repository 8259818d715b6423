"""The replay of recordings of an API server: rows of scenarios that it never saw, and rows that cannot be replayed."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from allotment.model.trees import Tree
from tests.vectors.apiserver import flows, score
from tests.vectors.apiserver.flow_messages import missing_message
from tests.vectors.apiserver.recorded_servers import RecordedServer, recorded_server
from tests.vectors.apiserver.recording import read
from tests.vectors.apiserver.requests import missing_namespaces, replay
from tests.vectors.apiserver.step_requests import StepRequest, step_requests
from tests.vectors.apiserver.watch_writes import Write, writes

SERVER = RecordedServer("1.37")
MAPS = "/api/v1/namespaces/elsewhere/configmaps"


def row(seq: int, name: str, method: str, path: str, code: int = 200, **more: Any) -> Tree:
    """A row; ``more``: its request's ``user``, ``headers`` and ``sent``, its response's ``body`` and the like."""
    request = {"method": method, "path": path, "headers": more.pop("headers", {})}
    request |= {key: more.pop(key) for key in ("user",) if key in more}
    if "sent" in more:
        request["body"] = more.pop("sent")
    return {"scenario": "new", "seq": seq, "name": name, "request": request, "response": {"code": code, **more}}


def outcomes(*rows: Tree) -> dict[str, str]:
    """The detail of each row by its name; empty if it passed."""
    return {result.name.partition(" ")[2]: result.detail for result in asyncio.run(replay(list(rows), SERVER))}


def test_rows_of_an_unknown_scenario_are_replayed() -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = {
        **review,
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"userInfo": {"username": "jo", "groups": ["ops", "system:authenticated"]}},
    }
    forbidden = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": 'nodes is forbidden: User "jo" cannot list resource "nodes" in API group "" at the cluster scope',
        "details": {"kind": "nodes"},
    }  # fmt: skip
    two = {"metadata": {"name": "two"}, "data": {"a": "b"}, "x": 1, "y": 2}
    warned = '299 - "unknown field \\"x\\"", 299 - "unknown field \\"y\\""'
    json_type = "application/json"
    found = outcomes(
        row(5, "two warnings", "POST", f"{MAPS}?dryRun=All", 201, sent=two)
        | {"response": {"code": 201, "headers": {"content-type": json_type, "warning": warned}}},
        row(-1, "a setup row", "POST", "/api/v1/namespaces", 201, sent={"metadata": {"name": "own"}}),
        row(9, "another user", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", 201, sent=review,
            body=answer, headers={"Impersonate-User": "jo", "Impersonate-Group": ["ops"]}),
        row(10, "a user by name", "GET", "/api/v1/nodes", 403, body=forbidden, user="jo"),
        row(11, "an unknown namespace", "GET", "/api/v1/namespaces/gone/configmaps/x", 404),
    )  # fmt: skip
    assert found == dict.fromkeys(found, "")
    assert next(iter(found)) == "a setup row"


def test_a_row_that_cannot_be_replayed_has_failed_and_the_others_are_scored() -> None:
    no_method = row(0, "no method", "GET", MAPS)
    del no_method["request"]["method"]
    found = outcomes(no_method, row(1, "a version", "GET", "/version"), row(2, "wrong", "GET", "/version", 404))
    assert found["no method"] == "cannot be replayed: KeyError: 'method'"
    assert found["a version"] == ""
    assert found["wrong"].startswith("expected code 404, found 200")


def test_all_warnings_are_compared() -> None:
    two = {"metadata": {"name": "two"}, "x": 1, "y": 2}
    one = {"code": 201, "headers": {"warning": '299 - "unknown field \\"x\\""'}}
    found = outcomes(row(0, "one is missing", "POST", f"{MAPS}?dryRun=All", 201, sent=two) | {"response": one})
    assert found["one is missing"].startswith("header warning")


def test_a_lab_that_cannot_start_fails_all_rows() -> None:
    unknown = RecordedServer("1.37", {"NoSuchGate": True})
    [result] = asyncio.run(replay([row(0, "a version", "GET", "/version")], unknown))
    assert not result.passed
    assert "the scenario cannot be replayed: ValueError" in result.detail


def test_lines_that_are_no_rows_have_failed(tmp_path: Path) -> None:
    path = tmp_path / "137-90-new-p1.jsonl.gz"
    good = json.dumps(row(0, "a version", "GET", "/version"))
    lines = [good, "{", "[]", '{"flow": "f"}', json.dumps({**row(0, "n", "GET", "/"), "seq": "one"})]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    recording = read(path)
    assert len(recording.requests) == 1
    assert [line for line, _ in recording.unusable] == ["line 2", "line 3", "line 4", "line 5"]
    results = list(score(path))
    assert [(result.name, result.passed) for result in results[-2:]] == [("line 5", False), ("new#0 a version", True)]


def test_a_file_without_any_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n{"b": 2}\n'))
    with pytest.raises(ValueError, match="line 1: a row without scenario"):
        read(path)


def test_the_lab_is_that_of_the_recording() -> None:
    plain, everything, older = map(
        recorded_server, ("137-99-x-p1.jsonl.gz", "137-99-x-p2.jsonl.gz", "40-dra-validation.jsonl.gz")
    )
    assert (plain.release, plain.gates, plain.runtime_config) == ("1.37", {}, ())
    assert everything.features.enabled("CompositePodGroup")
    assert everything.runtime_config == ("api/all=true",)
    assert older.release == "1.36"
    assert "api/all=true" not in older.runtime_config


def test_namespaces_that_another_scenario_created_are_needed() -> None:
    def needed(*rows: Tree) -> list[str]:
        return missing_namespaces(rows)

    assert needed(row(0, "create", "POST", MAPS, 201)) == ["elsewhere"]
    assert needed(row(0, "invalid", "POST", MAPS, 422)) == ["elsewhere"]
    assert needed(row(0, "read", "GET", f"{MAPS}/x", 200)) == ["elsewhere"]
    assert needed(row(0, "list", "GET", MAPS, 200)) == []
    assert needed(row(0, "refused", "POST", MAPS, 404)) == []
    created = row(0, "namespace", "POST", "/api/v1/namespaces", 201, sent={"metadata": {"name": "elsewhere"}})
    assert needed(created, row(1, "create", "POST", MAPS, 201)) == []


def event(kind: str, name: str, namespace: str = "", **parts: Any) -> Tree:
    return {"type": kind, "object": {"metadata": {"name": name, "namespace": namespace}, **parts}}


def test_a_watch_of_all_namespaces_shows_the_writes_of_each() -> None:
    stream = [
        event("ADDED", "old", "a"),
        event("ADDED", "new", "b"),
        event("DELETED", "new", "b"),
        {"type": "BOOKMARK"},
    ]
    watch = row(0, "watch", "GET", "/api/v1/configmaps?watch=1", stream=stream)
    found = list(writes(watch, present=1))
    assert [(write.method, write.path) for write in found] == [
        ("POST", "/api/v1/namespaces/b/configmaps"),
        ("DELETE", "/api/v1/namespaces/b/configmaps/new"),
    ]


def test_a_changed_status_is_written_to_the_status() -> None:
    stream = [event("ADDED", "n", spec={}, status={}), event("MODIFIED", "n", spec={}, status={"phase": "x"})]
    [_, changed] = writes(row(0, "watch", "GET", "/api/v1/nodes?watch=1", stream=stream))
    assert (changed.method, changed.path) == ("PUT", "/api/v1/nodes/n/status")
    assert isinstance(changed, Write)


def test_steps_have_their_requests_since_1_37() -> None:
    sent = {"method": "DELETE", "path": "/api/v1/nodes/n", "code": 200}
    flow = {"flow": "f", "steps": [{"t": 0, "do": "rm", "requests": [sent, {"wait": 2}]}]}
    assert list(step_requests(flow, 0)) == [
        StepRequest("DELETE", "/api/v1/nodes/n", code=200),
        StepRequest("", "", wait_seconds=2),
    ]


def pod(name: str, message: str, group: str = "") -> Tree:
    spec = {"schedulingGroup": {"podGroupName": group}} if group else {}
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [{"message": message}]}}


def test_a_pod_of_a_group_may_have_the_message_of_another_one() -> None:
    snapshot = {"pods": [pod("a", "no device", "g"), pod("b", "the group waits", "g")], "events": []}
    assert missing_message(snapshot, [pod("a", "the group waits", "g"), pod("b", "the group waits", "g")], []) == ""
    assert missing_message(snapshot, [pod("a", "another", "g"), pod("b", "no device", "g")], []).startswith("pod a")
    alone = {"pods": [pod("a", "no device"), pod("b", "the group waits")], "events": []}
    assert missing_message(alone, [pod("a", "the group waits"), pod("b", "the group waits")], []).startswith("pod a")


def test_the_other_objects_of_a_flow_are_compared() -> None:
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    waiting = {**group, "status": {"conditions": [{"type": "T", "status": "False", "reason": "R", "message": "m"}]}}
    expected = flows._views(flows._State([], [], [], [waiting]), True)
    assert flows._views(flows._State([], [], [], [group]), True) != expected
    assert missing_message({"pods": [], "events": [], "others": [waiting]}, [], [], [group]).startswith("g: 'm'")


def test_equal_pods_and_the_pods_of_a_job_are_not_told_apart() -> None:
    def created(kind: str, name: str, spec: Tree) -> Tree:
        return {"do": "create", "object": {"kind": kind, "metadata": {"name": name}, "spec": spec}}

    steps = [
        created("Pod", "p0", {"x": 1}),
        created("Pod", "p1", {"x": 1}),
        created("Pod", "q", {}),
        created("Job", "j", {}),
    ]
    names = flows._equal_pods({"steps": steps})
    texts = ["p0-gpu-abcde", "p1", "p10", "q", "j-0-abcde", "j-pgt-0"]
    assert flows._nameless(texts, names) == ["ANY-gpu-abcde", "ANY", "p10", "q", "j-ANY-abcde", "j-pgt-0"]
