"""Users of a lab with the right to read parts of it, and the server of the page in a thread, as in a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.message import Message
from queue import Queue
from threading import Thread
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from allotment.api.cluster import Cluster
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import SERVICE_ACCOUNTS
from allotment.model.trees import Tree
from allotment.watched.cluster import WatchedCluster, view_of
from allotment.watched.kinds import KINDS
from allotment.watched.view import ClusterView
from allotment.web import lab_actions
from allotment.web.options import WebOptions
from allotment.web.server import serve
from tests.polling import wait_until

_TIMEOUT: Final = 120
_READ: Final = ["get", "list", "watch"]


class Reply(NamedTuple):
    """A response. ``everything``: all of its bytes, also those of the headers."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def everything(self) -> bytes:
        return repr(dict(self.headers)).encode() + self.body


class PageServer(NamedTuple):
    """A running server."""

    url: str

    def send(self, path: str, token: str = "", body: object = None, **headers: str) -> Reply:
        """Send a request: POST with a body."""
        given = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {}), **headers}
        data = None
        if body is not None:
            data, given = json.dumps(body).encode(), {**given, "Content-Type": "application/json"}
        try:
            with urlopen(Request(f"{self.url}{path}", data, given), timeout=_TIMEOUT) as response:
                return Reply(response.status, _lowered(response.headers), response.read())
        except HTTPError as error:
            return Reply(error.code, _lowered(error.headers), error.read())

    def first_event(self, token: str) -> bytes:
        """The first message of the stream of revisions."""
        request = Request(f"{self.url}/events", headers={"Authorization": f"Bearer {token}"})
        with urlopen(request, timeout=_TIMEOUT) as response:
            lines = [response.readline(), response.readline(), response.readline()]
        return b"".join(lines)


def wait_for(watched: WatchedCluster, holds: Callable[[ClusterView], bool]) -> ClusterView:
    """Wait for a view that a server in another thread publishes."""
    wait_until(lambda: holds(watched.view()))
    return watched.view()


def _lowered(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@contextmanager
def page_server(watched: WatchedCluster, options: WebOptions) -> Iterator[PageServer]:
    """Serve in a thread."""
    loop, addresses = asyncio.new_event_loop(), Queue[str]()
    stop = asyncio.Event()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve(watched, options, addresses.put, stop))

    thread = Thread(target=run)
    thread.start()
    try:
        yield PageServer(addresses.get(timeout=_TIMEOUT).partition("/?")[0].rstrip("/"))
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(_TIMEOUT)
        assert not thread.is_alive()


def rules(kinds: Sequence[str] = ()) -> list[Tree]:
    """Rules that allow to read kinds, by default all."""
    return [
        {"apiGroups": [kind.resource.group], "resources": [kind.resource.plural], "verbs": _READ}
        for kind in KINDS
        if not kinds or kind.resource.kind in kinds
    ]


def apply(target: ClusterTarget, *manifests: str | Tree) -> None:
    """Apply manifests as the user of a target."""
    texts = (each if isinstance(each, str) else json.dumps(each) for each in manifests)
    body = json.dumps({"text": "\n---\n".join(texts)}).encode()
    asyncio.run(lab_actions.apply(target, view_of(Cluster()), body))


class Visitors:
    """Service accounts of namespace ``visitors``, with roles. ``target``: the administrator."""

    def __init__(self, target: ClusterTarget) -> None:
        self._target = target
        apply(target, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "visitors"}})

    def add(self, name: str, everywhere: list[Tree], inside: Mapping[str, list[Tree]], seconds: int = 3600) -> str:
        """Create a user with rights everywhere, and more inside of namespaces; return a token."""
        metadata = {"name": name, "namespace": "visitors"}
        roles = [*self._role("ClusterRole", name, "", everywhere)] if everywhere else []
        for namespace, allowed in inside.items():
            roles += self._role("Role", name, namespace, allowed)
        apply(self._target, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, *roles)

        async def token() -> str:
            request = {"spec": {"audiences": [], "expirationSeconds": seconds}}
            async with HttpClient(self._target) as client:
                answer = await client.create(SERVICE_ACCOUNTS, request, "visitors", name=name, subresource="token")
            return str(answer["status"]["token"])

        return asyncio.run(token())

    def _role(self, kind: str, name: str, namespace: str, allowed: list[Tree]) -> Iterator[Tree]:
        api = "rbac.authorization.k8s.io"
        metadata = {"name": f"visitor-{name}", **({"namespace": namespace} if namespace else {})}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "visitors"}
        role = {"apiGroup": api, "kind": kind, "name": metadata["name"]}
        yield {"apiVersion": f"{api}/v1", "kind": kind, "metadata": metadata, "rules": allowed}
        yield {
            "apiVersion": f"{api}/v1", "kind": f"{kind}Binding", "metadata": metadata, "subjects": [subject],
            "roleRef": role,
        }  # fmt: skip
