"""Availability of aggregated API servers: the checks of kube-aggregator, with its reasons and messages."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from allotment.apiserver.kinds.kind import StoreReader
from allotment.apiserver.outbound.client import OutboundClient, Target
from allotment.apiserver.outbound.errors import CallFailed, timed_out
from allotment.apiserver.outbound.http1 import OutboundRequest
from allotment.apiserver.outbound.services import Service, endpoint_slices
from allotment.apiserver.outbound.tls import Trust
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_SECONDS: Final = 5.0
_MAX_BODY: Final = 16 << 20
#: The identity with which the server calls others for itself.
_HEADERS: Final = (("x-remote-user", "system:kube-aggregator"), ("x-remote-group", "system:masters"))


class AggregatedApi(NamedTuple):
    """A version of a group that another server serves."""

    name: str
    group: str
    version: str
    group_priority: int
    version_priority: int
    target: Target

    @property
    def path(self) -> str:
        """The path of the version."""
        return f"/apis/{self.group}/{self.version}"


class Outcome(NamedTuple):
    """The result of a check; ``resources``: what the server lists, None if it is not available."""

    reason: str
    message: str
    resources: Sequence[Tree] | None = None

    @property
    def is_available(self) -> bool:
        """Whether the server can be used."""
        return self.resources is not None


def aggregated_api(tree: Tree, identity: tuple[str, str] | None) -> AggregatedApi | None:
    """The API of an APIService; None if this server serves it. ``identity``: files of the certificate to show."""
    spec = tree["spec"]
    service = spec.get("service")
    if service is None:
        return None
    try:
        authority = base64.b64decode(spec.get("caBundle") or "")
    except binascii.Error:
        authority = b""
    trust = Trust(authority, not spec.get("insecureSkipTLSVerify"), identity)
    target = Target(Service(service["namespace"], service["name"], service.get("port") or 443), trust)
    return AggregatedApi(
        tree["metadata"]["name"], spec.get("group") or "", spec["version"], spec["groupPriorityMinimum"],
        spec["versionPriority"], target,
    )  # fmt: skip


async def check(api: AggregatedApi, reader: StoreReader, client: OutboundClient) -> Outcome:
    """Check the Service, its endpoints, and the response of the server."""
    assert isinstance(api.target.server, Service), "APIs are behind Services"
    problem = _service_problem(api.target.server, reader)
    return problem if problem is not None else await _discovered(api, api.target.server, reader, client)


def _service_problem(service: Service, reader: StoreReader) -> Outcome | None:
    described = f"service/{service.name} in {quote(service.namespace)}"
    entry = reader.get("services", service.namespace, service.name)
    if entry is None:
        return Outcome("ServiceNotFound", f"{described} is not present")
    spec = entry.tree.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return None
    port = next((port for port in spec.get("ports") or () if port["port"] == service.port), None)
    if port is None:
        return Outcome("ServicePortError", f"{described} is not listening on port {service.port}")
    slices = list(endpoint_slices(service, reader))
    if not slices:
        return Outcome("EndpointsNotFound", f"cannot find endpointslices for {described}")
    name = port.get("name") or ""
    if not any(_has_address(each, name) for each in slices):
        return Outcome("MissingEndpoints", f"endpoints for {described} have no addresses with port name {quote(name)}")
    return None


def _has_address(endpoint_slice: Tree, port: str) -> bool:
    if all((each.get("name") or "") != port for each in endpoint_slice.get("ports") or ()):
        return False
    endpoints = endpoint_slice.get("endpoints") or ()
    return any((each.get("conditions") or {}).get("ready", True) and each.get("addresses") for each in endpoints)


async def _discovered(api: AggregatedApi, service: Service, reader: StoreReader, client: OutboundClient) -> Outcome:
    url = f"https://{_address(service, reader)}{api.path}"
    request = OutboundRequest("GET", api.path, service.host, (*_HEADERS, ("accept", "application/json")))
    try:
        async with asyncio.timeout(_SECONDS):
            answer = await client.send(api.target, request)
            body = await answer.read(_MAX_BODY)
    except TimeoutError:
        return _failed(url, str(timed_out().during("GET", url)))
    except CallFailed as error:
        return _failed(url, str(error.during("GET", url)))
    code = answer.head.code
    if not 200 <= code < 300:
        return _failed(url, f"bad status from {url}: {code}")
    return Outcome("Passed", "all checks passed", _resources(body))


def _failed(url: str, problem: str) -> Outcome:
    return Outcome("FailedDiscoveryCheck", f"failing or missing response from {url}: {problem}")


def _address(service: Service, reader: StoreReader) -> str:
    """The address of a Service in messages."""
    entry = reader.get("services", service.namespace, service.name)
    spec: Mapping[str, str] = {} if entry is None else entry.tree.get("spec") or {}
    return f"{spec.get('externalName') or spec.get('clusterIP') or service.host}:{service.port}"


def _resources(body: bytes) -> Sequence[Tree]:
    try:
        tree = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ()
    listed = tree.get("resources") if isinstance(tree, dict) else None
    return [each for each in listed or () if isinstance(each, dict) and each.get("name") and each.get("kind")]
