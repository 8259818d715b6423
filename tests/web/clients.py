"""Requests to the server of the page in this process, without sockets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from starlette.testclient import TestClient

from allotment.api.cluster import Cluster
from allotment.watched.cluster import WatchedCluster
from allotment.web.application import application
from allotment.web.options import WebOptions

TOKEN: Final = "test-token"
BEARER: Final[Mapping[str, str]] = {"Authorization": f"Bearer {TOKEN}"}
JSON: Final[Mapping[str, str]] = {"Accept": "application/json"}


@contextmanager
def client_of(
    watched: WatchedCluster | None = None, *, host: str = "127.0.0.1", signed_in: bool = True, **options: Any
) -> Iterator[TestClient]:
    """A client of a server, by default of two servers with T4 GPUs; redirects are not followed."""
    watched = watched or WatchedCluster.of_snapshot(Cluster.fleet("t4-4x-pcie:2"))
    app = application(watched, WebOptions(token=TOKEN, **options))
    headers = {**JSON, **(BEARER if signed_in else {})}
    with TestClient(app, f"http://{host}:8780", follow_redirects=False, headers=headers) as client:
        yield client
