"""Other sites, other users and hostile requests get nothing, and every response forbids what browsers must not do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from allotment.api.cluster import Cluster
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView
from allotment.web.application import WebServer, application
from allotment.web.options import WebOptions
from allotment.web.security import MAX_BODY
from tests.web.clients import BEARER, TOKEN, client_of

PATHS = (
    "/", "/map", "/pending", "/pending/x", "/ask", "/objects", "/objects/node/t4-4x-pcie-1", "/what-if", "/money",
    "/history", "/api/v1/free", "/api/v1/openapi.json", "/nothing", "/static/nothing.js", "/healthz", "/readyz",
)  # fmt: skip
#: Addresses whose answers say something about the cluster.
ANSWERS = ("/map", "/pending", "/ask", "/objects", "/what-if", "/money", "/events", "/api/v1/free", "/?format=json")
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def client() -> Iterator[TestClient]:
    with client_of() as found:
        yield found


@pytest.fixture
def stranger() -> Iterator[TestClient]:
    with client_of(signed_in=False) as found:
        yield found


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ANSWERS)
@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], f"{TOKEN}x", "tökén"])
def test_without_the_token_there_is_no_answer(stranger: TestClient, path: str, token: str) -> None:
    response = stranger.get(path, headers={b"Authorization": f"Bearer {token}".encode()} if token else {})
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["www-authenticate"] == "Bearer"
    assert "t4" not in response.text


def test_without_the_token_the_page_is_served_but_says_nothing(stranger: TestClient) -> None:
    response = stranger.get("/map", headers={"Accept": "text/html"})
    assert response.status_code == 200
    assert "t4-4x" not in response.text


def test_the_token_of_the_address_becomes_a_cookie_and_leaves_the_address(stranger: TestClient) -> None:
    response = stranger.get(f"/pending?token={TOKEN}&limit=2", headers={"Accept": "text/html"})
    assert (response.status_code, response.headers["location"]) == (303, "/pending?limit=2")
    cookie = response.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert response.headers["cache-control"] == "no-store"
    assert stranger.get("/map").status_code == 200  # with the cookie


def test_a_redirect_stays_on_this_host(stranger: TestClient) -> None:
    response = stranger.get(f"http://127.0.0.1:8780//evil.example/?token={TOKEN}")
    assert response.status_code in (303, 401, 404)
    assert not response.headers.get("location", "/x").startswith(("//", "http"))


def test_a_wrong_token_in_the_address_shows_the_page_and_sets_no_cookie(stranger: TestClient) -> None:
    response = stranger.get("/?token=wrong", headers={"Accept": "text/html"})
    assert response.status_code == 401
    assert response.headers["content-type"].startswith("text/html")
    assert "set-cookie" not in response.headers


def test_a_token_can_be_typed_in(stranger: TestClient) -> None:
    assert stranger.post("/login", json={"token": "wrong"}).status_code == 401
    assert stranger.post("/login", json={"token": "a\r\nSet-Cookie: x=y"}).status_code == 401
    assert stranger.post("/login", content=b"\xff{").status_code == 400
    assert stranger.post("/login", json={"token": TOKEN}).status_code == 204
    assert stranger.get("/map").status_code == 200


def test_tokens_of_two_servers_on_one_host_do_not_replace_each_other() -> None:
    with client_of() as first, client_of() as second:
        assert first.post("/login", json={"token": TOKEN}).cookies.keys()
        assert second.get("/map").status_code == 200


def test_random_tokens_differ() -> None:
    watched = WatchedCluster.of_snapshot(Cluster())
    tokens = {WebServer(watched, WebOptions()).token for _ in range(3)}
    assert len(tokens) == 3
    assert min(map(len, tokens)) >= 32


# --- other sites -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8780", "127.0.0.1.evil.example", "localhost.evil.example", "a@127.0.0.1", "", "[",
     "127.0.0.1/x", "2130706433", "127.0.0.1%25.evil.example"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/map", "/static/x.js", "/healthz", "/api/v1/free", "/nothing"])
def test_names_of_other_sites_are_rejected(client: TestClient, host: str, path: str) -> None:
    response = client.get(path, headers={"Host": host})
    assert response.status_code == 421
    assert response.json()["type"] == "urn:allotment:problem:host"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9999", "[::1]:8780", "10.1.2.3:8780", "LOCALHOST"])
def test_names_and_addresses_of_this_machine_are_accepted(client: TestClient, host: str) -> None:
    assert client.get("/map", headers={"Host": host}).status_code == 200


def test_further_names_can_be_allowed() -> None:
    with client_of(allowed_hosts=("gpus.example.com",)) as client:
        assert client.get("/map", headers={"Host": "GPUs.example.com"}).status_code == 200
        assert client.get("/map", headers={"Host": "other.example.com"}).status_code == 421


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1:8781", "http://localhost:8780", "file://", "http://[::1",
     "//127.0.0.1:8780", "ftp://127.0.0.1:8780"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_of_other_sites_are_rejected(client: TestClient, origin: str, method: str) -> None:
    response = client.request(method, "/what-if", headers={"Origin": origin}, json={})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


def test_requests_of_the_page_are_accepted(client: TestClient) -> None:
    headers = {"Origin": "http://127.0.0.1:8780", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/what-if", headers=headers, json={"changes": []}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_can_link_to_the_page_but_not_read_or_post(client: TestClient, site: str) -> None:
    assert client.get("/map", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status_code == 200
    assert client.get("/map", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}).status_code == 403
    assert client.post("/try", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_forms_cannot_post(client: TestClient, kind: str) -> None:
    for path in ("/try", "/what-if", "/ask", "/lab/apply", "/lab/fault"):
        response = client.post(path, headers={"Content-Type": kind}, content=b"{}")
        assert response.status_code == 415


def test_an_allowed_site_may_read_with_a_token() -> None:
    with client_of(signed_in=False, allowed_origins=("http://localhost:4466",)) as client:
        headers = {"Origin": "http://localhost:4466"}
        preflight = client.options("/map", headers=headers)
        assert preflight.status_code == 204
        assert "Authorization" in preflight.headers["access-control-allow-headers"]
        assert client.get("/map", headers=headers).status_code == 401
        response = client.get("/map", headers={**headers, **BEARER})
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "http://localhost:4466"
        assert "Origin" in response.headers["vary"]
        assert "access-control-allow-credentials" not in response.headers  # cookies of this host are not for it


# --- headers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("accept", ["application/json", "text/html"])
@pytest.mark.parametrize("signed_in", [True, False])
def test_every_response_forbids_scripts_of_others_and_frames(path: str, accept: str, signed_in: bool) -> None:
    with client_of(signed_in=signed_in) as client:
        for method in ("GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS", "TRACE"):
            check_headers(client.request(method, path, headers={"Accept": accept}).headers)


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Content-Length": "99999999999"}]
)
def test_rejections_forbid_it_as_well(client: TestClient, headers: dict[str, str]) -> None:
    check_headers(client.get("/map", headers=headers).headers)


def check_headers(found: Mapping[str, str]) -> None:
    policy = dict(part.split(" ", 1) for part in found["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert found["x-frame-options"] == "DENY"
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "no-referrer"
    assert found["cross-origin-opener-policy"] == found["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in found


# --- paths and bodies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/static/../application.py", "/static/..%2fapplication.py", "/static/%2e%2e/application.py", "/static//etc/passwd",
     "/static/%2fetc%2fpasswd", "/static/....//x", "/static/index.html%00.js", "/static/..\\application.py", "/static/",
     "/static/.", "/static/__init__.py"],
)  # fmt: skip
def test_only_the_files_of_the_page_are_served(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert "import" not in response.text


@pytest.mark.parametrize("path", ["/ask", "/try", "/what-if", "/lab/apply", "/login", "/api/v1/check"])
def test_large_bodies_are_rejected_before_they_are_read(client: TestClient, path: str) -> None:
    response = client.post(path, content=b" " * (MAX_BODY + 1), headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    assert response.json()["detail"] == "expected at most 5 MiB"


@pytest.mark.parametrize("path", ["/ask", "/try", "/what-if", "/login", "/api/v1/check"])
def test_large_bodies_of_unknown_length_are_rejected(client: TestClient, path: str) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(6):
            yield b" " * 2**20

    response = client.post(path, content=parts(), headers={"Content-Type": "application/json"})
    assert response.status_code == 413


def test_a_body_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.web.security._PART_SECONDS", 0)
    app = application(WatchedCluster.of_snapshot(Cluster.fleet("t4-4x-pcie")), WebOptions(token=TOKEN))
    sent: list[Message] = []

    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nothing arrives")

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/login", "raw_path": b"/login", "query_string": b"",
             "headers": headers, "scheme": "http"}  # fmt: skip
    asyncio.run(_served(app, scope, never, send))
    assert sent[0]["status"] == 408


async def _served(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


def test_manifests_of_5_mb_are_answered(client: TestClient) -> None:
    comment = "# " + "x" * 97 + "\n"
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n" + comment * 50_000
    response = client.post("/ask", json={"text": text, "on": "cluster"})
    assert response.status_code == 200
    assert response.json()["check"] is not None


@pytest.mark.parametrize("field", ["replicas: 2000000000", "replicas: 2e9", "replicas: 0x77359400"])
def test_manifests_with_too_many_pods_are_rejected_at_once(client: TestClient, field: str) -> None:
    text = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {{{field}}}\n"
    message = "the manifests have 2,000,000,000 pods and claims: expected at most 2,000"
    for place in ("cluster", "none"):
        answer = client.post("/ask", json={"text": text, "on": place}).json()
        assert [problem["message"].partition(";")[0] for problem in answer["problems"]] == [message]
    for query in ("why", "would-fit", "check", "plan"):
        response = client.post(f"/api/v1/{query}", json={"manifests": text})
        assert (response.status_code, response.json()["detail"]) == (400, message)


@pytest.mark.parametrize("query", ["why", "check"])
def test_programs_without_the_token_learn_nothing_about_their_requests(stranger: TestClient, query: str) -> None:
    assert stranger.post(f"/api/v1/{query}", content=b"{", headers={"Content-Type": "x"}).status_code == 401


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"a":1}', b"\xff", b"[" * 100_000, b'{"changes": 1}'])
@pytest.mark.parametrize("path", ["/try", "/what-if", "/ask"])
def test_malformed_bodies_are_problems(client: TestClient, path: str, body: bytes) -> None:
    response = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 400)
    if response.status_code == 400:
        assert response.json()["type"] == "urn:allotment:problem:bad-input"


@pytest.mark.parametrize(
    "address",
    ["/map?since=x", "/map?since=-1", "/map?since=99999999999999999999", "/map?since=٣", "/map?at=x", "/map?node=%ff",
     "/pending?limit=1e9", "/pending/%3Cscript%3E", "/objects/node/%2e%2e", "/objects/%00/x", "/objects/secret/x/a",
     "/objects/node/a/b/c/d", "/what-if?change=x", "/what-if?change=drain:", "/money?plan=maybe", "/history",
     f"/objects?q={'x' * 5000}"],
)  # fmt: skip
def test_malformed_addresses_are_problems(client: TestClient, address: str) -> None:
    response = client.get(address)
    assert response.status_code in (200, 400, 404)
    if response.status_code != 200:
        assert response.headers["content-type"] == "application/problem+json"
        assert set(response.json()) >= {"type", "title", "status", "detail", "instance"}


# --- names and errors ------------------------------------------------------------------------------------------------


def test_names_with_markup_are_data() -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": MARKUP, "namespace": "\x1b[2Jns", "uid": "u", "labels": {"a": MARKUP}},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": [{"name": "g", "resourceClaimName": MARKUP}]},
    }  # fmt: skip
    watched = WatchedCluster.of_snapshot(Cluster.snapshot(pod))
    with client_of(watched) as client:
        for path in ("/pending", "/objects", "/map"):
            response = client.get(path)
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/json"
            assert response.json()["cluster"]
        page = client.get("/pending", headers={"Accept": "text/html"})
        assert MARKUP not in page.text


def test_the_page_interprets_nothing_of_the_address(client: TestClient) -> None:
    response = client.get(f"/pending/{MARKUP}?q={MARKUP}", headers={"Accept": "text/html"})
    assert (response.status_code, response.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert MARKUP not in response.text
    problem = client.get(f"/nothing{MARKUP}")
    assert problem.status_code == 404
    assert problem.headers["content-type"] == "application/problem+json"


def test_a_bug_is_logged_and_no_traceback_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: ClusterView) -> object:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr(ClusterView, "free", property(broken))
    with client_of() as client, caplog.at_level(logging.ERROR):
        response = client.get("/map")
    assert (response.status_code, response.json()["detail"]) == (500, "ZeroDivisionError")
    assert "Traceback" not in response.text
    assert "a secret detail" not in response.text
    check_headers(response.headers)
    assert "a secret detail" in caplog.text


def test_clusters_are_never_changed() -> None:
    with client_of() as client:
        for path in ("/lab/apply", "/lab/delete", "/lab/fault"):
            response = client.post(path, json={"text": "kind: Pod"})
            assert (response.status_code, response.json()["type"]) == (403, "urn:allotment:problem:read-only")
