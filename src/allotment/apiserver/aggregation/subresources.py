"""The subresource ``proxy`` of pods and Services: requests to their HTTP servers through the API server."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.apiserver import api_errors
from allotment.apiserver.aggregation.proxy import forwarded, proxied
from allotment.apiserver.http_messages import AnyResponse, Request
from allotment.apiserver.kinds.kind import ServedKind, StoreReader
from allotment.apiserver.outbound.client import OutboundClient, Target
from allotment.apiserver.outbound.errors import CallFailed
from allotment.apiserver.outbound.services import Endpoint, Service, joined, resolve
from allotment.apiserver.outbound.tls import Trust
from allotment.apiserver.paths import ResourcePath
from allotment.model.quoting import quote
from allotment.model.trees import Tree

#: The buckets of the kinds with this subresource.
PROXIED: Final = ("pods", "services")
_SCHEMES: Final = ("", "http", "https")


class _Address(NamedTuple):
    """A name in a path with its scheme and port, each empty if the path has none: ``https:web:443``."""

    scheme: str
    name: str
    port: str


def _address(text: str, kind: str) -> _Address:
    """Parse a name. Raises 400."""
    parts = text.split(":")
    if len(parts) == 1:
        parts = ["", parts[0], ""]
    elif len(parts) == 2:
        parts = ["", *parts]
    if len(parts) != 3 or parts[0] not in _SCHEMES or not parts[1]:
        raise api_errors.bad_request(f"invalid {kind} request {quote(text)}")
    return _Address(*parts)


async def proxy_to(
    client: OutboundClient, reader: StoreReader, request: Request, kind: ServedKind, target: ResourcePath
) -> AnyResponse:
    """The response of a pod's or Service's HTTP server. Raises StatusError."""
    address = _address(target.name, kind.kind.lower())
    entry = reader.get(kind.bucket, target.namespace, address.name)
    if entry is None:
        raise api_errors.not_found(kind.group, kind.plural, address.name)
    endpoint = _pod(entry.tree, address) if kind.bucket == "pods" else _service(entry.tree, address, reader)
    trust = Trust(verify=False, is_encrypted=address.scheme == "https")
    return await proxied(client, Target(endpoint, trust), request, _rest(request.path), tuple(forwarded(request)))


def _rest(path: str) -> str:
    """What follows ``proxy`` in a path, percent-encoded as it is.

    >>> (
    ...     _rest("/api/v1/namespaces/proxy/pods/http%3Aweb%3A80/proxy/a%20b/"),
    ...     _rest("/api/v1/namespaces/shop/pods/web/proxy"),
    ... )
    ('/a%20b/', '/')
    """
    return "/" + "/".join(path.split("/")[8:])


def _pod(pod: Tree, address: _Address) -> Endpoint:
    """A port of a pod: the first one that it declares, unless the path has one."""
    declared = [
        port["containerPort"]
        for container in (pod.get("spec") or {}).get("containers") or ()
        for port in container.get("ports") or ()
    ]
    ip = (pod.get("status") or {}).get("podIP") or ""
    if not ip:
        raise api_errors.bad_request("address not allowed")
    if address.port and not address.port.isdigit():
        raise api_errors.bad_request(f"invalid pod request {quote(':'.join(filter(None, address)))}")
    port = int(address.port) if address.port else declared[0] if declared else _default_port(address)
    return Endpoint(ip, port, joined(ip, port), pod)


def _default_port(address: _Address) -> int:
    return 443 if address.scheme == "https" else 80


def _service(service: Tree, address: _Address, reader: StoreReader) -> Endpoint:
    """An endpoint of a Service's port, which the path has by name or number; none is the port without a name."""
    name = address.name
    if (service.get("spec") or {}).get("type") == "ExternalName":  # it has no endpoints; its host may be any
        raise api_errors.unavailable(f"no endpoints available for service {quote(name)}")
    ports = (service.get("spec") or {}).get("ports") or ()
    if address.port.isdigit():
        found = next((port for port in ports if port["port"] == int(address.port)), None)
        if found is None:
            raise api_errors.unavailable(f"no service port {address.port} found for service {quote(name)}")
    else:
        found = next((port for port in ports if (port.get("name") or "") == address.port), None)
    if found is None:
        raise api_errors.unavailable(f"no endpoints available for service {quote(name)}")
    try:
        return resolve(Service(service["metadata"]["namespace"], name, found["port"]), reader)
    except CallFailed:
        raise api_errors.unavailable(f"no endpoints available for service {quote(name)}") from None
