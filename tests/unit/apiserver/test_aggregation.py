"""Groups of other API servers are offered as the server's own."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.aggregation import registry
from allotment.apiserver.http_messages import Peer, Response, Streaming
from allotment.apiserver.outbound import client as client_module
from allotment.apiserver.outbound.http1 import HttpConnection
from allotment.model.trees import Tree
from tests.polling import until
from tests.unit.apiserver.aggregated_server import LONG, AggregatedServer, aggregated_server
from tests.unit.apiserver.served import PODS, Served, closed, pod

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
OWN = "/apis/own.example.com/v1"
SIZES = f"{OWN}/namespaces/shop/sizes"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def api_service(group: str = "own.example.com", **spec: Any) -> Tree:
    priorities = {"groupPriorityMinimum": 100, "versionPriority": 10}
    service = {"name": "own", "namespace": "shop"}
    fields = {"group": group, "version": "v1", **priorities, "service": service, **spec}
    return {"metadata": {"name": f"v1.{group}"}, "spec": fields}


@asynccontextmanager
async def started() -> AsyncIterator[Served]:
    served = await Served().started()
    served.api.aggregated.begin()
    try:
        yield served
    finally:
        await served.api.aggregated.close()
        await served.api.outbound.close()


async def expose(served: Served, port: int) -> None:
    """Create the Service ``own`` without a selector, whose endpoint is a process of this machine."""
    spec = {"ports": [{"name": "https", "port": 443, "targetPort": port}]}
    await served.post("/api/v1/namespaces/shop/services", {"metadata": {"name": "own"}, "spec": spec})
    endpoint_slice = {
        "metadata": {"name": "own", "labels": {"kubernetes.io/service-name": "own"}}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["172.18.0.1"]}], "ports": [{"name": "https", "port": port}],
    }  # fmt: skip
    response = await served.post("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", endpoint_slice)
    assert response.code == 201, response


async def condition(served: Served, name: str) -> tuple[str, str, str]:
    tree = (await served.get(f"{API_SERVICES}/{name}")).body
    for each in (tree.get("status") or {}).get("conditions") or ():
        if each["type"] == "Available":
            return each["status"], each["reason"], each["message"]
    return "", "", ""


async def available(served: Served, server: AggregatedServer) -> None:
    """Register the server and wait until it is available."""
    await expose(served, server.port)
    bundle = base64.b64encode(server.authority).decode()
    assert (await served.post(API_SERVICES, api_service(caBundle=bundle))).code == 201

    async def is_available() -> bool:
        return await condition(served, "v1.own.example.com") == ("True", "Passed", "all checks passed")

    await until(is_available)


def test_requests_are_passed_on_with_the_user(tmp_path: Path) -> None:
    async def scenario(server: AggregatedServer) -> None:
        async with started() as served:
            await available(served, server)
            found = await served.get(f"{SIZES}/a?x=1", authorization="Bearer none", x_remote_user="forged")
            assert (found.code, found.body) == (200, {"kind": "Size", "path": f"{SIZES}/a?x=1"})
            assert (await served.get(f"{SIZES}/missing")).code == 404
            assert (await served.post(SIZES, {"kind": "Size"})).code == 201
            stream = await served.send("GET", f"{SIZES}?watch=true")
            assert isinstance(stream, Streaming)
            assert [piece async for piece in stream.pieces] == [b'{"type":"ADDED"}\n', b'{"type":"DELETED"}\n']
            forbidden = await served.send("GET", SIZES, peer=Peer("ann", ()))
            assert isinstance(forbidden, Response)
            assert forbidden.code == 403
            assert (await served.get(OWN)).body["groupVersion"] == "own.example.com/v1"
            await served.delete(f"{API_SERVICES}/v1.own.example.com")
            await until(lambda: _is_unknown(served))

    with aggregated_server(tmp_path) as server:
        asyncio.run(scenario(server))
        method, path, headers, _ = server.requests[0]
        assert (method, path) == ("GET", f"{SIZES}/a?x=1")
        identity = [(name, value) for name, value in headers if name.startswith("x-remote-")]
        assert identity == [
            ("x-remote-user", "admin"), ("x-remote-group", "system:masters"), ("x-remote-group", "system:authenticated")
        ]  # fmt: skip
        assert "authorization" not in dict(headers)
        assert json.loads(server.requests[2][3]) == {"kind": "Size"}


async def _is_unknown(served: Served) -> bool:
    return (await served.get(OWN)).code == 404


def test_long_responses_are_streamed(tmp_path: Path) -> None:
    async def scenario(server: AggregatedServer) -> None:
        async with started() as served:
            await available(served, server)
            stream = await served.send("GET", f"{SIZES}/long")
            assert isinstance(stream, Streaming)
            assert (stream.code, "content-length" in dict(stream.headers)) == (200, False)
            pieces = [piece async for piece in stream.pieces]
            await closed(stream)
            assert len(pieces) > 1
            assert b"".join(pieces) == LONG

    with aggregated_server(tmp_path) as server:
        asyncio.run(scenario(server))


def test_a_response_that_ends_early_does_not_look_complete(tmp_path: Path) -> None:
    async def scenario(server: AggregatedServer) -> None:
        async with started() as served:
            await available(served, server)
            stream = await served.send("GET", f"{SIZES}/cut")
            assert isinstance(stream, Streaming)
            with pytest.raises(ConnectionError, match="unexpected EOF"):
                [piece async for piece in stream.pieces]
            await closed(stream)

    with aggregated_server(tmp_path) as server:
        asyncio.run(scenario(server))


def test_closing_a_response_before_its_first_piece_closes_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closings: list[HttpConnection] = []
    close = HttpConnection.close

    async def recorded(connection: HttpConnection) -> None:
        closings.append(connection)
        await close(connection)

    async def scenario(server: AggregatedServer) -> None:
        async with started() as served:
            await available(served, server)
            stream = await served.send("GET", f"{SIZES}/long")
            assert isinstance(stream, Streaming)
            monkeypatch.setattr(HttpConnection, "close", recorded)
            await closed(stream)
            assert len(closings) == 1

    with aggregated_server(tmp_path) as server:
        asyncio.run(scenario(server))


def test_a_server_that_does_not_establish_tls_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_MAX_HANDSHAKE_SECONDS", 0)

    async def scenario(port: int) -> None:
        served = await Served().started()
        await served.post(PODS, pod("web"))
        await served.patch(f"{PODS}/web/status", {"status": {"podIP": "127.0.0.1"}})
        response = await served.get(f"{PODS}/https:web:{port}/proxy/")
        cause = "net/http: TLS handshake timeout"
        assert (response.code, response.body) == (503, f"error trying to reach service: {cause}\n".encode())

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(scenario(silent.getsockname()[1]))


def test_discovery_contains_the_groups_of_other_servers(tmp_path: Path) -> None:
    async def scenario(server: AggregatedServer) -> None:
        async with started() as served:
            await available(served, server)
            versions = {"versions": [{"groupVersion": "own.example.com/v1", "version": "v1"}]}
            assert (await served.get("/apis")).body["groups"][-1]["name"] == "own.example.com"
            group = (await served.get("/apis/own.example.com")).body
            assert group["versions"] == versions["versions"]
            answer = await served.send("GET", "/apis", headers={"accept": AGGREGATED})
            assert isinstance(answer, Response)
            document = json.loads(answer.body)
            [found] = [item for item in document["items"] if item["metadata"]["name"] == "own.example.com"]
            kind = {"group": "own.example.com", "version": "v1", "kind": "Size"}
            assert found["versions"] == [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "sizes",
                            "responseKind": kind,
                            "scope": "Namespaced",
                            "singularResource": "size",
                            "verbs": ["get", "list", "watch"],
                            "shortNames": ["sz"],
                            "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["get"]}],
                        }
                    ],
                    "freshness": "Current",
                }
            ]

    with aggregated_server(tmp_path) as server:
        asyncio.run(scenario(server))


def test_an_api_that_is_not_available_is_reported_as_by_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without retries, each check is caused by a change of the Service or of its endpoints.
    monkeypatch.setattr(registry, "_FIRST_RETRY", 3600)
    monkeypatch.setattr(registry, "_INTERVAL", 3600)

    async def scenario() -> None:
        async with started() as served:

            async def expect(reason: str, message: str) -> None:
                async def is_expected() -> bool:
                    return await condition(served, "v1.own.example.com") == ("False", reason, message)

                await until(is_expected)

            await served.post(API_SERVICES, api_service(insecureSkipTLSVerify=True))
            await expect("ServiceNotFound", 'service/own in "shop" is not present')
            refused = await served.get(SIZES)
            assert (refused.code, refused.body) == (503, b"service unavailable\n")
            services = "/api/v1/namespaces/shop/services"
            ports = [{"name": "https", "port": 80}]
            created = await served.post(services, {"metadata": {"name": "own"}, "spec": {"ports": ports}})
            await expect("ServicePortError", 'service/own in "shop" is not listening on port 443')
            await served.patch(f"{services}/own", {"spec": {"ports": [{"name": "https", "port": 443}]}})
            await expect("EndpointsNotFound", 'cannot find endpointslices for service/own in "shop"')
            endpoint_slice = {
                "metadata": {"name": "own", "labels": {"kubernetes.io/service-name": "own"}}, "addressType": "IPv4",
                "endpoints": [], "ports": [{"name": "https", "port": 9}],
            }  # fmt: skip
            slices = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
            await served.post(slices, endpoint_slice)
            await expect(
                "MissingEndpoints", 'endpoints for service/own in "shop" have no addresses with port name "https"'
            )
            await served.patch(f"{slices}/own", {"endpoints": [{"addresses": ["172.18.0.1"]}]})
            address = f"https://{created.body['spec']['clusterIP']}:443{OWN}"

            async def has_failed() -> bool:
                _, reason, message = await condition(served, "v1.own.example.com")
                start = f'failing or missing response from {address}: Get "{address}": dial tcp '
                return reason == "FailedDiscoveryCheck" and message.startswith(start)

            await until(has_failed)

    asyncio.run(scenario())


def test_the_groups_of_the_server_have_api_services() -> None:
    async def scenario() -> None:
        async with started() as served:
            apps = (await served.get(f"{API_SERVICES}/v1.apps")).body
            assert apps["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
            priorities = {"groupPriorityMinimum": 17800, "versionPriority": 15}
            assert apps["spec"] == {"group": "apps", "version": "v1", **priorities}
            local = ("True", "Local", "Local APIServices are always available")
            assert await condition(served, "v1.apps") == local
            schema = {"type": "object"}
            version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            names = {"plural": "foos", "kind": "Foo"}
            spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": [version]}
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await served.post(definitions, {"metadata": {"name": "foos.x.io"}, "spec": spec})

            async def exists() -> bool:
                return (await served.get(f"{API_SERVICES}/v1.x.io")).code == 200

            await until(exists)
            served.api.definition_cleanup.begin()
            await served.delete(f"{definitions}/foos.x.io")

            async def is_gone() -> bool:
                return not await exists()

            await until(is_gone)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"service": None, "caBundle": "eA=="}, "spec.caBundle",
         'Invalid value: "1 bytes": local APIServices may not have a caBundle'),
        ({"service": None, "insecureSkipTLSVerify": True}, "spec.insecureSkipTLSVerify",
         "Invalid value: true: local APIServices may not have insecureSkipTLSVerify"),
        ({"service": {"name": "", "namespace": "a"}}, "spec.service.name", "Required value"),
        ({"service": {"name": "a", "namespace": "a", "port": 70000}}, "spec.service.port",
         "Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"),
        ({"caBundle": "eA==", "insecureSkipTLSVerify": True}, "spec.insecureSkipTLSVerify",
         "Invalid value: true: may not be true if caBundle is present"),
        ({"groupPriorityMinimum": 30000}, "spec.groupPriorityMinimum",
         "Invalid value: 30000: must be positive and less than 20000"),
        ({"versionPriority": 2000}, "spec.versionPriority",
         "Invalid value: 2000: must be positive and less than 1000"),
    ],
)  # fmt: skip
def test_invalid_api_services_are_refused_as_by_kubernetes(change: Tree, field: str, message: str) -> None:
    async def scenario() -> None:
        served = await Served().started()
        body = api_service(**change)
        refused = await served.post(API_SERVICES, body)
        assert refused.code == 422
        causes = {cause["field"]: cause["message"] for cause in refused.body["details"]["causes"]}
        assert causes[field] == message

    asyncio.run(scenario())
