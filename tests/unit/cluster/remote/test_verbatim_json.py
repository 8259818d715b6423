from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.http_messages import AnyResponse, Request, Response
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.verbatim_json import PROTOBUF, as_stored, encoded
from allotment.lab.http_server import Server

CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
JSON = (("Content-Type", "application/json"),)
IMMUTABLE = "spec: Invalid value: {}: field is immutable"
#: The message about an allocation since Kubernetes 1.37.
SET_ONCE = "status.allocation: Invalid value: null: field cannot be modified once set"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def claim(parameters: Any) -> dict[str, Any]:
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": parameters}}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"devices": {"config": config}}}  # fmt: skip


@given(parameters=st.dictionaries(st.text(max_size=4), VALUES, max_size=3), spaces=st.booleans())
def test_stored_values_are_sent_back_byte_for_byte(parameters: dict[str, Any], spaces: bool) -> None:
    text = json.dumps(parameters, indent=2 if spaces else None, ensure_ascii=spaces).encode("utf-8", "surrogatepass")
    sent = as_stored(claim(json.loads(text)), b"\n\x05some" + text + b"\x12\x00")
    assert b'"parameters":' + text + b"}" in sent or parameters == {}
    assert json.loads(sent) == claim(parameters)


@given(value=VALUES)
def test_json_is_encoded_as_in_go(value: Any) -> None:
    text = encoded({"value": value})
    assert json.loads(text) == {"value": value}
    assert not set(b"<>&") & set(text)
    assert encoded(json.loads(text)) == text


class Careful:
    """A server that keeps one claim, and refuses to change a byte of its parameters."""

    def __init__(self, text: str, *, speaks_protobuf: bool = True, message: str = IMMUTABLE) -> None:
        self.text = text
        self.message = message
        self.speaks_protobuf = speaks_protobuf
        self.requests: list[str] = []

    async def __call__(self, request: Request) -> AnyResponse:
        self.requests.append(f"{request.method} {request.path}")
        if request.method == "GET":
            assert request.headers["accept"] == PROTOBUF
            if self.speaks_protobuf:
                return Response(200, (("Content-Type", PROTOBUF),), b"k8s\0 and a claim with " + self.text.encode())
            return Response(406, JSON, b'{"kind": "Status", "message": "only JSON", "code": 406}')
        if self.text.encode() in request.body:
            return Response(200, JSON, request.body)
        status = {"kind": "Status", "message": self.message, "reason": "Invalid", "code": 422}
        return Response(422, JSON, json.dumps(status).encode())


def updated(server: Careful, tree: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        serving = Server(server)
        port = await serving.listen("127.0.0.1", 0)
        try:
            async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}"), retry_seconds=0) as client:
                return await client.update(CLAIMS, tree, subresource=subresource)
        finally:
            await serving.stop(1)

    return asyncio.run(main())


@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize("text", ['{ "b": 1,  "a": "x & y" }', '{"b":{},"a":1.0}', '{"a": "\\u00fc"}'])
def test_an_update_keeps_the_bytes_of_opaque_parameters(text: str, subresource: str) -> None:
    server = Careful(text, message=SET_ONCE if subresource else IMMUTABLE)
    assert updated(server, claim(json.loads(text)), subresource) == claim(json.loads(text))
    path = "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/a"
    put = f"PUT {path}/{subresource}".rstrip("/")
    assert server.requests == [put, f"GET {path}", put]


def test_changing_opaque_parameters_is_an_error() -> None:
    server = Careful('{"a": 1}')
    with pytest.raises(StatusError, match="field is immutable"):
        updated(server, claim({"a": 2}))
    assert len(server.requests) == 3
    server = Careful('{"a": 1}', speaks_protobuf=False)
    with pytest.raises(StatusError, match="field is immutable"):
        updated(server, claim({"a": 1}))
    assert len(server.requests) == 2
