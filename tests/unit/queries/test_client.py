"""The client in Python returns what the functions return, and raises their exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

import allotment
from allotment import Cluster, WebClient
from allotment.watched.cluster import view_of
from tests.program_server import ProgramServer
from tests.unit.queries.manifests import APP, BROKEN, CLASS

FLEET = Cluster.fleet("dgx-a100-40gb:2")


@pytest.fixture(scope="module")
def server() -> Iterator[ProgramServer]:
    with ProgramServer(view_of(FLEET)) as found:
        yield found


@pytest.fixture(scope="module")
def web(server: ProgramServer) -> WebClient:
    return allotment.connect(f"{server.url}/?token=secret")


def test_explanations_are_those_of_the_function(web: WebClient) -> None:
    assert web.explain(APP) == allotment.explain(APP, FLEET)
    assert web.explain().fits


def test_manifests_may_be_files_dicts_and_several_sources(web: WebClient, tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(APP)
    template, pod = allotment.load(APP)
    for source in (tmp_path / "app.yaml", tmp_path, [template.tree, pod.tree], allotment.load(APP)):
        assert web.explain(source).answers[0].name == "default/train"


def test_classes_have_a_method_of_their_own(web: WebClient) -> None:
    (selected,) = web.explain_classes(CLASS).classes
    assert (selected.name, selected.matched, selected.devices) == ("any", 16, 16)
    with pytest.raises(allotment.InputError, match="use explain_classes"):
        web.explain(CLASS)
    with pytest.raises(allotment.InputError, match="use explain"):
        web.explain_classes(APP)


def test_free_devices_are_those_of_the_function(web: WebClient) -> None:
    assert web.free() == allotment.free(FLEET)
    assert web.free(tolerations="a=b:NoSchedule").count("free") == 16


def test_what_would_fit(web: WebClient) -> None:
    found = web.would_fit(gpus=8, copies=3)
    assert (found.fits, found.pods, found.fitting) == (False, 3, 2)
    assert [each.code for each in found.refused] == ["devices-in-use"]
    assert [each.node for each in found.placements] == ["dgx-a100-40gb-1", "dgx-a100-40gb-2"]
    assert not web.would_fit(APP).fits


def test_findings_name_the_files_of_the_client(web: WebClient, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(APP)
    expected = allotment.check(file, cluster=FLEET, isolated=True)
    found = web.check(file)
    assert [(each.code, each.file, each.line) for each in found.findings] == [
        (each.code, each.where.file, each.where.line) for each in expected.findings
    ]
    assert found.summary.fits is False


def test_fixed_texts_are_returned_and_no_file_is_written(web: WebClient, tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(APP)
    found = web.fix(file, unsafe=True)
    assert found.texts == {str(file): APP.replace("9", "8")}
    assert [each.code for each in found.fixed] == ["P501"]
    assert file.read_text() == APP


def test_plans_are_those_of_the_function(web: WebClient) -> None:
    more = APP.replace("9", "8") + "\n---\n" + APP.replace("9", "8").replace("train", "more").replace("gpus", "mores")
    found = web.plan(more, catalog="aws", types=["aws/p4d.*"], max_machines=5)
    expected = allotment.plan(more, FLEET, catalog=["aws"], types=["aws/p4d.*"], max_machines=5)
    assert (found.verdict, found.total, found.bound) == (expected.verdict, expected.total, expected.bound)
    assert isinstance(found.total, Decimal)
    assert (found.machines, found.existing) == (expected.machines, expected.existing)


def test_what_happens_after_changes(web: WebClient) -> None:
    found = web.what_if("drain:dgx-a100-40gb-1", "add-machines:t4-4x-pcie")
    assert len(found.changes) == 2
    assert found.after == {"free": 12, "unschedulable": 8}
    with pytest.raises(allotment.InputError, match="no node 'x'"):
        web.what_if("drain:x")


def test_codes(web: WebClient) -> None:
    assert web.explain_code("m401").name == "all-devices"
    assert web.explain_code("devices-in-use").kubernetes == "cannot allocate all claims"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda web: web.explain(BROKEN), allotment.InvalidManifests, "<text>:2:1: invalid YAML"),
        (lambda web: web.explain(name="nope"), allotment.InputError, "pod or claim not found: 'nope'"),
        (lambda web: web.plan(APP, catalog="abc"), allotment.InputError, "catalog: unknown provider 'abc'"),
        (lambda web: web.explain_code("x"), allotment.InputError, "code: unknown code 'x'"),
        (lambda web: web.check("missing.yaml"), allotment.InvalidManifests, "missing.yaml"),
    ],
)
def test_errors_are_those_of_the_functions(
    call: Callable[[WebClient], object], error: type[Exception], message: str, web: WebClient
) -> None:
    with pytest.raises(error) as raised:
        call(web)
    assert str(raised.value).startswith(message)


def test_problems_of_manifests_have_their_places(web: WebClient) -> None:
    with pytest.raises(allotment.InvalidManifests) as raised:
        web.explain("kind: Pod\n---\nkind: Pod\n")
    assert [(each.position.line, each.code) for each in raised.value.problems] == [(1, "no-kind"), (3, "no-kind")]


def test_a_server_that_does_not_respond() -> None:
    with pytest.raises(allotment.Unreachable, match=r"http://127\.0\.0\.1:1/api/v1/free: "):
        allotment.connect("http://127.0.0.1:1").free()


def test_another_server(server: ProgramServer) -> None:
    with pytest.raises(allotment.StatusError) as raised:
        allotment.connect(f"{server.url}/elsewhere").free()
    assert raised.value.code == 404


def test_no_proxy_is_used_for_this_machine(
    web: WebClient, monkeypatch: pytest.MonkeyPatch, server: ProgramServer
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert allotment.connect(server.url).free().count("free") == 16


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("text/html; charset=utf-8", b"<!doctype html>", "its answer is text/html"),
        ("application/json", b"<html>", "JSON is malformed"),
        ("application/json", b"[]", "Expected `object`, got `array`"),
        ("application/json", b"{}", "Object missing required field `code`"),
    ],
)
def test_the_answers_of_another_server_are_errors_of_the_url(kind: str, body: bytes, reason: str) -> None:
    with fixed_response(200, {"Content-Type": kind}, body) as other, pytest.raises(allotment.InputError) as raised:
        allotment.connect(other.url).explain_code("M401")
    assert raised.value.message.startswith(f"url: {other.url} is not a page of allot web: {reason}")


def test_redirects_are_not_followed_because_they_would_get_the_token() -> None:
    with fixed_response(302, {"Location": "/stolen"}) as other:
        with pytest.raises(allotment.StatusError) as raised:
            allotment.connect(other.url, "secret").free()
        assert raised.value.code == 302
        assert other.paths == ["/api/v1/free"]


class OtherServer(NamedTuple):
    """A server that is not Allotment's, and the paths of the requests that it received."""

    url: str
    paths: list[str]


@contextmanager
def fixed_response(status: int, headers: Mapping[str, str], body: bytes = b"") -> Iterator[OtherServer]:
    """A server that responds to every request in the same way."""
    paths: list[str] = []

    class Fixed(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - the name that http.server calls

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Fixed) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield OtherServer(f"http://127.0.0.1:{server.server_port}", paths)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("url", ["ftp://host", "host:8780", "", "file:///etc/passwd"])
def test_other_urls_are_rejected(url: str) -> None:
    with pytest.raises(allotment.InputError, match="expected a URL"):
        allotment.connect(url)
