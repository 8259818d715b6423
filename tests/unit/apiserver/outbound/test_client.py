"""Requests of the API server to other servers: how these are found, verified and called, and how failures read."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.apiserver.outbound import client as client_module
from allotment.apiserver.outbound.client import OutboundClient, Target
from allotment.apiserver.outbound.errors import CallFailed
from allotment.apiserver.outbound.http1 import OutboundRequest
from allotment.apiserver.outbound.tls import Trust, name_problem
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.apiserver.streams.kubelets import Connection, Kubelets
from allotment.model.trees import Tree
from allotment.node.kubelet import Kubelets as NodeKubelets
from allotment.node.runtimes.simulated_http import SimulatedHttpConnection, fixed_answer
from tests.webhook_server import Reply, WebhookServer, webhook_server

_NO_ADDRESS: Final = "because it doesn't contain any IP SANs"
_COMMON_NAME: Final = "certificate relies on legacy Common Name field, use SANs instead"
_PREVENTED: Final = "has prevented the request from succeeding"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    with webhook_server(tmp_path_factory.mktemp("pki"), ["web.shop.svc"]) as running:
        running.handlers["/echo"] = lambda body: {"got": body}
        yield running


def _posted(
    config: Tree, *objects: tuple[str, Tree], seconds: float = 10, times: int = 1, kubelets: Kubelets | None = None
) -> Any:
    """The answer to the last of the requests, or the text of its error."""

    async def scenario() -> Any:
        store = SqliteStore.open(None)
        for bucket, tree in objects:
            store.put(bucket, tree["metadata"].get("namespace", ""), tree["metadata"]["name"], tree)
        client = OutboundClient(store, kubelets)
        try:
            for _ in range(times):
                answer = await client.post(config, json.dumps({"a": 1}).encode(), seconds)
            return answer
        except CallFailed as error:
            return str(error)
        finally:
            await client.close()
            await store.close()

    return asyncio.run(scenario())


def _service(**spec: Any) -> tuple[str, Tree]:
    spec = {"clusterIP": "10.0.0.7", "type": "ClusterIP", "ports": [{"port": 443}], **spec}
    return "services", {"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}


def _slice(port: int, of: str = "web", **endpoint: Any) -> tuple[str, Tree]:
    labels = {"kubernetes.io/service-name": of}
    return "endpointslices.discovery.k8s.io", {
        "kind": "EndpointSlice", "metadata": {"name": "web-1", "namespace": "shop", "labels": labels},
        "ports": [{"name": "", "port": port}], "endpoints": [{"addresses": ["127.0.0.1"], **endpoint}],
    }  # fmt: skip


def _config(server: WebhookServer, **service: Any) -> Tree:
    return {
        "service": {"namespace": "shop", "name": "web", "path": "/echo", **service}, "caBundle": server.ca_bundle,
    }  # fmt: skip


def test_a_url_is_called_with_its_timeout(server: WebhookServer) -> None:
    assert _posted(server.config("/echo")) == {"got": {"a": 1}}
    assert server.received[-1].target == "/echo?timeout=10s"


def test_connections_are_reused(server: WebhookServer) -> None:
    _posted(server.config("/echo"), times=2)
    assert server.received[-1].connection == server.received[-2].connection


def test_a_service_is_reached_through_its_endpoints(server: WebhookServer) -> None:
    assert _posted(_config(server), _service(), _slice(server.port)) == {"got": {"a": 1}}


def test_a_service_of_type_external_name_is_a_host(server: WebhookServer) -> None:
    named = _service(type="ExternalName", externalName="127.0.0.1", clusterIP="")
    assert _posted(_config(server, port=server.port), named) == {"got": {"a": 1}}


@pytest.mark.parametrize(
    ("objects", "cause"),
    [
        ([], 'service "web" not found'),
        ([_service(ports=[{"port": 80}])], 'no service port 443 found for service "web"'),
        ([_service(clusterIP="None")], 'cannot route to service with ClusterIP "None"'),
        ([_service()], "dial tcp 10.0.0.7:443: connect: connection refused"),
        ([_service(), _slice(1, of="other")], "dial tcp 10.0.0.7:443: connect: connection refused"),
        ([_service(), _slice(1, conditions={"ready": False})], "dial tcp 10.0.0.7:443: connect: connection refused"),
        ([_service(), _slice(1)], "dial tcp 127.0.0.1:1: connect: connection refused"),
    ],
)
def test_services_that_cannot_be_reached(server: WebhookServer, objects: list[Any], cause: str) -> None:
    assert _posted(_config(server), *objects) == f'Post "https://web.shop.svc:443/echo?timeout=10s": {cause}'


def test_the_name_in_the_certificate_is_that_of_the_service(tmp_path: Path) -> None:
    with webhook_server(tmp_path, ["other.shop.svc"]) as other:
        answer = _posted(_config(other), _service(), _slice(other.port))
    assert answer.startswith(
        'Post "https://web.shop.svc:443/echo?timeout=10s": tls: failed to verify certificate: x509: '
        "certificate is valid for "
    )
    assert answer.endswith(", not web.shop.svc")


def test_the_certificate_is_verified_with_the_bundle(server: WebhookServer, tmp_path: Path) -> None:
    with webhook_server(tmp_path) as other:
        config = {**server.config("/echo"), "caBundle": other.ca_bundle}
        assert _posted(config).endswith(
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        )


def test_a_bundle_without_certificates(server: WebhookServer) -> None:
    config = {**server.config("/echo"), "caBundle": "bm90aGluZw=="}
    assert "unable to load root certificates: unable to parse bytes as PEM block" in _posted(config)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(b"lost", 404, "text/plain"), "the server could not find the requested resource"),
        (Reply(b"on fire\n", 500, "text/plain"), 'an error on the server ("on fire") ' + _PREVENTED),
        (Reply(b"{}", 500), 'an error on the server ("unknown") ' + _PREVENTED),
        (Reply(b"", 200), "0-length response with status code: 200 and content type: application/json"),
        (Reply(b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "my own"}', 500), "my own"),
        (Reply(b"", 418), "the server responded with the status code 418 but did not return more information"),
    ],
)
def test_answers_with_errors(server: WebhookServer, reply: Reply, text: str) -> None:
    server.handlers["/error"] = lambda body: reply
    assert _posted(server.config("/error")) == text


def test_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {"url": f"https://127.0.0.1:{silent.getsockname()[1]}/x"}
        assert _posted(config, seconds=0.05).endswith('/x?timeout=0.05s": context deadline exceeded')


@pytest.mark.parametrize(
    ("limit", "cause"),
    [("_MAX_DIAL_SECONDS", "dial tcp 127.0.0.1:{}: i/o timeout"),
     ("_MAX_HANDSHAKE_SECONDS", "net/http: TLS handshake timeout")],
)  # fmt: skip
def test_connecting_has_a_time_limit(limit: str, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, limit, 0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert _posted({"url": f"https://127.0.0.1:{port}/x"}).endswith('/x?timeout=10s": ' + cause.format(port))


def test_a_server_without_tls() -> None:
    async def scenario() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            writer.close()

        plain = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = plain.sockets[0].getsockname()[1]
        store = SqliteStore.open(None)
        client = OutboundClient(store)
        with pytest.raises(CallFailed, match="http: server gave HTTP response to HTTPS client"):
            await client.post({"url": f"https://127.0.0.1:{port}"}, b"{}", 10)
        await client.close()
        await store.close()
        plain.close()

    asyncio.run(scenario())


def test_connections_to_many_servers_are_not_kept(server: WebhookServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_MAX_IDLE_SERVERS", 1)

    async def scenario() -> None:
        store = SqliteStore.open(None)
        client = OutboundClient(store)
        for host in ("127.0.0.1", "localhost", "127.0.0.1"):
            url = f"https://{host}:{server.port}/echo"
            await client.post({"url": url, "caBundle": server.ca_bundle}, b"{}", 10)
        await client.close()
        await store.close()

    first = len(server.received)
    asyncio.run(scenario())
    assert len({each.connection for each in server.received[first:]}) == 3


class _SimulatedPods(NodeKubelets):
    """Kubelets whose pods serve a page without TLS."""

    async def port(self, pod: Tree, port: int) -> Connection:
        assert pod["metadata"]["name"] == "web-0"
        return SimulatedHttpConnection(fixed_answer("page"))


def test_a_service_of_a_simulated_pod(server: WebhookServer) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop"}}
    slice_ = _slice(80, targetRef={"kind": "Pod", "name": "web-0"})
    answer = _posted(_config(server), ("pods", pod), _service(), slice_, kubelets=_SimulatedPods())
    assert answer.endswith("http: server gave HTTP response to HTTPS client")


def test_a_body_in_pieces(server: WebhookServer) -> None:
    server.handlers["/pieces"] = lambda body: Reply(b"x" * 200_000)

    async def scenario() -> tuple[int, int]:
        store = SqliteStore.open(None)
        client = OutboundClient(store)
        target = Target(("127.0.0.1", server.port), Trust(verify=False))
        answer = await client.send(target, OutboundRequest("POST", "/pieces", "web", (), b"{}"))
        size = sum([len(piece) async for piece in answer.body])
        await answer.close()
        await client.close()
        await store.close()
        return answer.head.code, size

    assert asyncio.run(scenario()) == (200, 200_000)


@pytest.mark.parametrize(
    ("certificate", "wanted", "problem"),
    [
        ({"subjectAltName": (("IP Address", "10.0.0.1"),)}, "10.0.0.1", ""),
        (
            {"subjectAltName": (("IP Address", "10.0.0.1"),)},
            "10.0.0.2",
            "certificate is valid for 10.0.0.1, not 10.0.0.2",
        ),
        (
            {"subjectAltName": (("DNS", "a.svc"),)},
            "10.0.0.2",
            f"cannot validate certificate for 10.0.0.2 {_NO_ADDRESS}",
        ),
        ({}, "a.svc", "certificate is not valid for any names, but wanted to match a.svc"),
        ({"subject": ((("commonName", "a.svc"),),)}, "a.svc", _COMMON_NAME),
        ({"subjectAltName": (("DNS", "*.svc"),)}, "a.b.svc", "certificate is valid for *.svc, not a.b.svc"),
    ],
)
def test_names_of_certificates(certificate: dict[str, Any], wanted: str, problem: str) -> None:
    assert name_problem(certificate, wanted) == problem
