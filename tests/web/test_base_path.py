"""Behind a proxy, all addresses of the page begin with a path, whether or not the proxy removes it from requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from allotment.errors import InputError
from allotment.web.options import base_path
from tests.web.clients import TOKEN, client_of

BASE = "/tools/allotment"
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(base_path=BASE) as found:
        yield found


@pytest.fixture(params=[BASE, ""], ids=["kept", "removed"])
def prefix(request: pytest.FixtureRequest) -> str:
    """The beginning of a path as it arrives."""
    return str(request.param)


def test_the_page_refers_to_its_parts_and_states_the_path(client: TestClient, prefix: str) -> None:
    page = client.get(f"{prefix}/map", headers=HTML).text
    assert f'<meta name="allotment-base" content="{BASE}">' in page
    assert '="/static/' not in page
    for part in page.split(f'="{BASE}')[1:]:
        assert client.get(prefix + part.partition('"')[0]).status_code == 200


def test_the_path_itself_is_the_page(client: TestClient) -> None:
    assert client.get(BASE, headers=HTML).status_code == 200
    assert client.get(f"{BASE}/", headers=HTML).status_code == 200


@pytest.mark.parametrize("path", ["/map", "/pending", "/objects", "/api/v1/free", "/api/v1/openapi.json", "/healthz"])
def test_answers(client: TestClient, prefix: str, path: str) -> None:
    assert client.get(prefix + path).status_code == 200


def test_programs_learn_the_path_from_the_description(client: TestClient) -> None:
    assert client.get(f"{BASE}/api/v1/openapi.json").json()["servers"] == [{"url": BASE}]


def test_names_of_objects_are_what_follows_the_path(client: TestClient, prefix: str) -> None:
    names = [node["name"] for node in client.get("/map").json()["nodes"]]
    assert client.get(f"{prefix}/objects/node/{names[0]}").json()["name"] == names[0]


def test_tokens_of_the_address_and_their_cookies_stay_below_the_path(client: TestClient, prefix: str) -> None:
    response = client.get(f"{prefix}/map?token={TOKEN}&q=a", headers=HTML)
    assert (response.status_code, response.headers["location"]) == (303, f"{BASE}/map?q=a")
    assert f"Path={BASE};" in response.headers["set-cookie"]


def test_without_the_option_nothing_is_below_a_path() -> None:
    with client_of() as client:
        assert client.get(f"{BASE}/map").status_code == 404
        assert "allotment-base" not in client.get("/map", headers=HTML).text


@pytest.mark.parametrize("text", ["allotment", "/a b", "/a//b", '/a"b', "/../a", "/a/..", "/%41", "/a?b"])
def test_other_paths_are_rejected(text: str) -> None:
    with pytest.raises(InputError, match="--base-path: expected a path such as /allotment"):
        base_path(text)
