"""Every address is the page for people and JSON for programs, of the state that the server has seen last."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files

import pytest
from starlette.testclient import TestClient

from allotment.api.cluster import Cluster
from allotment.screens.device_map import device_map
from allotment.watched.cluster import WatchedCluster, view_of
from allotment.watched.view import NodeChanges
from allotment.web.compression import Content, compressed
from allotment.web.problems import rejected
from allotment.web.revisions import revisions
from allotment.web.screen_answers import SCREENS, object_name
from tests.unit.cluster import idle
from tests.web.clients import client_of

PENDING = """
apiVersion: v1
kind: Pod
metadata: {name: trainer, namespace: ml, uid: u, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  containers: [{name: c, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: missing}]
status: {phase: Pending}
"""


@pytest.fixture
def client() -> Iterator[TestClient]:
    with client_of() as found:
        yield found


@pytest.mark.parametrize("path", sorted({path for path in SCREENS if "{" not in path} - {"/history"}))
def test_each_screen_is_a_page_and_json(client: TestClient, path: str) -> None:
    page = client.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    found = client.get(path)
    assert found.json()["cluster"]["name"] == "t4-4x-pcie:2"
    assert found.json()["command"].startswith("allot ")
    assert client.get(f"{path}?format=json", headers={"Accept": "text/html"}).json() == found.json()
    assert "Accept" in found.headers["vary"]


def test_the_map_is_that_of_the_screen(client: TestClient) -> None:
    view = view_of(Cluster.fleet("t4-4x-pcie:2"))
    assert client.get("/map").json() == device_map(view).to_dict()
    assert [node["name"] for node in client.get("/map?node=t4-4x-pcie-2").json()["nodes"]] == ["t4-4x-pcie-2"]


def test_a_group_of_pending_pods_has_an_address() -> None:
    with client_of(WatchedCluster.of_snapshot(Cluster.snapshot(PENDING))) as client:
        group = client.get("/pending?limit=1").json()["groups"][0]
        detail = client.get(f"/pending/{group['id']}?pod=ml/trainer").json()
        assert detail["answer"]["name"] == "ml/trainer"
        response = client.get("/pending/unknown")
        assert (response.status_code, response.json()["detail"]) == (400, "id: these pods are no longer pending")


def test_objects_have_addresses(client: TestClient) -> None:
    assert client.get("/objects/node/t4-4x-pcie-1").json()["name"] == "t4-4x-pcie-1"
    assert client.get("/objects/device/t4-4x-pcie-1/gpu-0").json()["name"] == "gpu-0"
    response = client.get("/objects/node/other")
    assert (response.status_code, response.json()["detail"]) == (404, "name: no node 'other'")


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("workload", "ml/Deployment%2Fweb", ("ml", "Deployment/web")),
        ("workload", "ml/Deployment/web", ("ml", "Deployment/web")),
        ("pool", "gpu.nvidia.com/a%2Fb", ("gpu.nvidia.com", "a/b")),
        ("device", "a%2Fb/gpu-0", ("a/b", "gpu-0")),
        ("node", "a", ("", "a")),
    ],
)
def test_slashes_in_names_are_encoded(kind: str, path: str, expected: tuple[str, str]) -> None:
    assert object_name(kind, path) == expected


def test_changes_can_be_part_of_the_address(client: TestClient) -> None:
    by_address = client.get("/what-if?change=drain:t4-4x-pcie-1").json()
    change = {"action": "drain", "target": "t4-4x-pcie-1"}
    assert client.post("/what-if", json={"changes": [change]}).json() == by_address


def test_questions_are_posted(client: TestClient) -> None:
    answer = client.post("/ask", json={"text": PENDING, "on": "cluster"}).json()
    assert answer["explanation"]["answers"][0]["outcome"] == "refused"
    problem = client.post("/try", json={"pod": "ml/none"})
    assert (problem.status_code, problem.headers["content-type"]) == (400, "application/problem+json")


def test_only_a_lab_has_a_history(client: TestClient) -> None:
    assert client.get("/history").status_code == 404
    lab = WatchedCluster(replace(view_of(Cluster.fleet("t4-4x-pcie")), place="lab"))
    with client_of(lab) as lab_client:
        assert len(lab_client.get("/history").json()["revisions"]) == 1
        assert lab_client.get("/map?at=1").json()["totals"] == {"free": 4}
        assert lab_client.get("/map?at=7").status_code == 404


# --- caching ---------------------------------------------------------------------------------------------------------


def test_an_unchanged_answer_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/map")
    assert first.headers["cache-control"] == "private, no-cache"
    again = client.get("/map", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_another_revision_or_another_server_is_another_answer(client: TestClient) -> None:
    watched = WatchedCluster.of_snapshot(Cluster.fleet("t4-4x-pcie:2"))
    with client_of(watched) as other:
        tag = other.get("/map").headers["etag"]
        assert client.get("/map", headers={"If-None-Match": tag}).status_code == 200
        watched.publish(replace(watched.view(), revision=2))
        assert other.get("/map", headers={"If-None-Match": tag}).status_code == 200


def test_answers_are_compressed_for_clients_that_accept_it() -> None:
    with client_of(WatchedCluster.of_snapshot(Cluster.fleet("t4-4x-pcie:20"))) as client:
        with client.stream("GET", "/map", headers={"Accept-Encoding": "gzip"}) as response:
            raw = b"".join(response.iter_raw())
        assert response.headers["content-encoding"] == "gzip"
        plain = client.get("/map", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert json.loads(gzip.decompress(raw)) == plain.json()
        assert len(raw) < len(plain.content) / 4


def test_a_map_is_computed_once_for_all_pages(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []

    def counted(plain: bytes) -> Content:
        computed.append(1)
        return compressed(plain)

    monkeypatch.setattr("allotment.web.screen_answers.compressed", counted)
    for _ in range(5):
        client.get("/map")
    assert len(computed) == 1


def test_only_the_changed_nodes_are_sent() -> None:
    watched = WatchedCluster.of_snapshot(Cluster.fleet("t4-4x-pcie:3"))
    view = watched.view()
    watched.publish(replace(view, revision=2, changes=(NodeChanges(2, frozenset({"t4-4x-pcie-2"})),)))
    with client_of(watched) as client:
        found = client.get("/map?since=1").json()
        assert ([node["name"] for node in found["nodes"]], found["since"]) == (["t4-4x-pcie-2"], 1)
        assert len(client.get("/map?since=12345").json()["nodes"]) == 3


def test_the_parts_of_the_page_are_kept_for_ever_and_the_page_is_not(client: TestClient) -> None:
    names = [file.name for file in (files("allotment.web") / "static").iterdir() if file.name != "index.html"]
    assert names
    for name in names:
        response = client.get(f"/static/{name}")
        assert (response.status_code, response.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
    page = client.get("/", headers={"Accept": "text/html"})
    assert page.headers["cache-control"] == "no-cache"
    assert all(f"/static/{name}" in page.text for name in names if name.startswith("app-"))


# --- the stream of revisions -----------------------------------------------------------------------------------------


async def nothing() -> None:
    """Accept the visitor."""


def data_of(message: bytes) -> dict[str, object]:
    line = next(line for line in message.splitlines() if line.startswith(b"data: "))
    found: dict[str, object] = json.loads(line.removeprefix(b"data: "))
    return found


def test_pages_learn_of_each_new_revision() -> None:
    async def scenario() -> None:
        watched = WatchedCluster.of_snapshot(Cluster())
        stream = revisions(watched, nothing, asyncio.Event())
        first = data_of(await anext(stream))
        assert first == {"revision": 1, "connected": True, "seenAt": "", "error": ""}
        watched.publish(replace(watched.view(), revision=2, connected=False, error="away", seen_at="t"))
        second = data_of(await anext(stream))
        assert second == {"revision": 2, "connected": False, "seenAt": "t", "error": "away"}
        await stream.aclose()

    idle.run(scenario())


def test_a_slow_page_skips_revisions() -> None:
    async def scenario() -> None:
        watched = WatchedCluster.of_snapshot(Cluster())
        stream = revisions(watched, nothing, asyncio.Event())
        await anext(stream)
        for revision in range(2, 50):
            watched.publish(replace(watched.view(), revision=revision))
        assert data_of(await anext(stream))["revision"] == 49
        await stream.aclose()

    idle.run(scenario())


def test_a_silent_stream_says_that_it_is_alive() -> None:
    async def scenario() -> None:
        stream = revisions(WatchedCluster.of_snapshot(Cluster()), nothing, asyncio.Event())
        await anext(stream)
        assert await anext(stream) == b": the stream is alive\n\n"
        await stream.aclose()

    idle.run(scenario())


def test_a_stream_ends_when_the_visitor_loses_his_rights() -> None:
    async def scenario() -> None:
        async def reject() -> None:
            raise rejected(401, "unauthorized", "The token is missing or wrong", "the token has expired")

        watched = WatchedCluster.of_snapshot(Cluster())
        stream = revisions(watched, reject, asyncio.Event())
        await anext(stream)
        await asyncio.sleep(60)
        watched.publish(replace(watched.view(), revision=2))  # also a busy cluster is not shown any longer
        assert [message async for message in stream] == []

    idle.run(scenario())


def test_a_stream_ends_with_the_server() -> None:
    async def scenario() -> None:
        stopping = asyncio.Event()
        stream = revisions(WatchedCluster.of_snapshot(Cluster()), nothing, stopping)
        await anext(stream)
        stopping.set()
        assert [message async for message in stream if b"data" in message] == []

    idle.run(scenario())
