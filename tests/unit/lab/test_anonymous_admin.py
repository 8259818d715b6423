from datetime import UTC, datetime

import pytest

from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.http_messages import Request
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.cluster.errors import StatusError
from allotment.lab.anonymous_admin import AnonymousAdmin

ROOT = User("root", ("system:masters", "system:authenticated"))


def sent(**headers: str) -> User | None:
    store = SqliteStore.open(None)
    now = datetime(2026, 1, 2, tzinfo=UTC)
    authenticator = AnonymousAdmin(
        store, clock=lambda: now, key=b"k" * 32, authorize=Authorizer(store), administrator=ROOT, host="gpu.example.org"
    )
    return authenticator(
        Request("GET", "/", headers={name.replace("_", "-"): value for name, value in headers.items()})
    )


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8001", "localhost:8001", "[::1]:8001", "10.1.2.3", "lab:8001", "GPU.example.org:8001", ""]
)
def test_anonymous_requests_are_the_administrator(host: str) -> None:
    assert sent(host=host) == ROOT
    assert sent(host=host, origin=f"http://{host}") == ROOT


def test_an_invalid_token_is_rejected() -> None:
    assert sent(host="localhost:8001", authorization="Bearer nope") is None


def test_the_administrator_can_impersonate() -> None:
    assert sent(host="localhost:8001", impersonate_user="eve") == User("eve", ("system:authenticated",))


@pytest.mark.parametrize(
    ("host", "origin", "message"),
    [
        ("localhost:8001", "https://evil.example.com", "web pages with the origin https://evil.example.com"),
        ("localhost:8001", "http://localhost:3000", "web pages with the origin http://localhost:3000"),
        ("localhost:8001", "null", "web pages with the origin null"),
        ("evil.example.com:8001", "http://evil.example.com:8001", "the host name evil.example.com"),
        ("evil.example.com:8001", None, "the host name evil.example.com"),
        ("[", None, r"the host name \["),
    ],
)
def test_requests_of_other_origins_are_rejected(host: str, origin: str | None, message: str) -> None:
    with pytest.raises(StatusError, match=message):
        sent(host=host, **({} if origin is None else {"origin": origin}))
