"""Resolves a Service to an address, as kube-proxy routes its cluster IP: to one of its ready endpoints."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from allotment.apiserver.access.bootstrap import MACHINE
from allotment.apiserver.kinds.kind import StoreReader
from allotment.apiserver.outbound.errors import CallFailed, dial_failed
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_SERVICES: Final = "services"
_SLICES: Final = "endpointslices.discovery.k8s.io"
_SERVICE_NAME: Final = "kubernetes.io/service-name"
#: Where processes of this machine listen, which endpoints cannot name.
_LOOPBACK: Final = "127.0.0.1"


class Service(NamedTuple):
    """A port of a Service."""

    namespace: str
    name: str
    port: int = 443

    @property
    def host(self) -> str:
        """The name in the certificate of its server."""
        return f"{self.name}.{self.namespace}.svc"


class Endpoint(NamedTuple):
    """An address to connect to; ``pod``: the pod of the lab that has it. ``shown``: the address in errors."""

    host: str
    port: int
    shown: str
    pod: Tree | None = None


def resolve(service: Service, reader: StoreReader) -> Endpoint:
    """One of the ready endpoints of a Service. Raises CallFailed in the words of kube-apiserver."""
    entry = reader.get(_SERVICES, service.namespace, service.name)
    if entry is None:
        raise CallFailed(f"service {quote(service.name)} not found")
    spec = entry.tree.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return Endpoint(spec["externalName"], service.port, joined(spec["externalName"], service.port))
    cluster_ip = spec.get("clusterIP") or ""
    if cluster_ip in ("", "None"):
        raise CallFailed('cannot route to service with ClusterIP "None"')
    declared = next((port for port in spec.get("ports") or () if port["port"] == service.port), None)
    if declared is None:
        raise CallFailed(f"no service port {service.port} found for service {quote(service.name)}")
    shown = joined(cluster_ip, service.port)
    found = list(_endpoints(service, declared.get("name") or "", shown, reader))
    if not found:  # kube-proxy rejects connections to a Service without endpoints
        raise dial_failed(shown, "connection refused")
    return random.choice(found)


def endpoint_slices(service: Service, reader: StoreReader) -> Iterator[Tree]:
    """The EndpointSlices of a Service."""
    for entry in reader.list(_SLICES, service.namespace):
        if (entry.tree["metadata"].get("labels") or {}).get(_SERVICE_NAME) == service.name:
            yield entry.tree


def _endpoints(service: Service, port_name: str, shown: str, reader: StoreReader) -> Iterator[Endpoint]:
    for tree in endpoint_slices(service, reader):
        port = next((p["port"] for p in tree.get("ports") or () if (p.get("name") or "") == port_name), None)
        if port is None:
            continue
        for endpoint in tree.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                host = _LOOPBACK if endpoint["addresses"][0] == MACHINE else endpoint["addresses"][0]
                yield Endpoint(host, port, shown, _pod(endpoint, service.namespace, reader))


def _pod(endpoint: Tree, namespace: str, reader: StoreReader) -> Tree | None:
    reference = endpoint.get("targetRef") or {}
    if reference.get("kind") != "Pod":
        return None
    entry = reader.get("pods", reference.get("namespace") or namespace, reference.get("name") or "")
    return None if entry is None else entry.tree


def joined(host: str, port: int) -> str:
    """Host and port as in a URL.

    >>> joined("::1", 443)
    '[::1]:443'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
