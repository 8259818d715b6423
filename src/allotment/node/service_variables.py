"""The environment variables through which containers find the Services of their namespace (kubelet's ``envvars``).

A Service that is created later appears only in containers that start after it. Programs find the API server by the
variables of the Service ``kubernetes``, so every container has those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from allotment.model.trees import Tree

#: The namespace and the names of the Services that the containers of all namespaces know.
_SHARED_NAMESPACE: Final = "default"
_SHARED: Final = ("kubernetes",)


def service_variables(pod: Tree, services: Callable[[str], Iterable[Tree]]) -> dict[str, str]:
    """The variables of a pod's containers. ``services(namespace)``: the Services of a namespace."""
    shared = {
        service["metadata"]["name"]: service
        for service in services(_SHARED_NAMESPACE)
        if service["metadata"]["name"] in _SHARED
    }
    own: dict[str, Tree] = {}
    if pod["spec"].get("enableServiceLinks") is not False:
        namespace = pod["metadata"].get("namespace", "")
        own = {service["metadata"]["name"]: service for service in services(namespace) if _has_address(service)}
    known = {name: service for name, service in shared.items() if _has_address(service)} | own
    return {name: value for _, service in sorted(known.items()) for name, value in _variables(service)}


def _has_address(service: Tree) -> bool:
    return (service.get("spec") or {}).get("clusterIP") not in (None, "", "None")


def _variables(service: Tree) -> Iterator[tuple[str, str]]:
    """The variables of one Service: Kubernetes' own, then those of Docker's links.

    >>> ports = [{"name": "https", "port": 443, "protocol": "TCP"}]
    >>> tree = {"metadata": {"name": "my-web"}, "spec": {"clusterIP": "10.96.0.7", "ports": ports}}
    >>> for name, value in _variables(tree):
    ...     print(f"{name}={value}")
    MY_WEB_SERVICE_HOST=10.96.0.7
    MY_WEB_SERVICE_PORT=443
    MY_WEB_SERVICE_PORT_HTTPS=443
    MY_WEB_PORT=tcp://10.96.0.7:443
    MY_WEB_PORT_443_TCP=tcp://10.96.0.7:443
    MY_WEB_PORT_443_TCP_PROTO=tcp
    MY_WEB_PORT_443_TCP_PORT=443
    MY_WEB_PORT_443_TCP_ADDR=10.96.0.7
    """
    name, address = _variable_name(service["metadata"]["name"]), service["spec"]["clusterIP"]
    host = f"[{address}]" if ":" in address else address
    ports = service["spec"].get("ports") or ()
    yield f"{name}_SERVICE_HOST", address
    if ports:
        yield f"{name}_SERVICE_PORT", str(ports[0]["port"])
    for port in ports:
        if port.get("name"):
            yield f"{name}_SERVICE_PORT_{_variable_name(port['name'])}", str(port["port"])
    for position, port in enumerate(ports):
        number, protocol = port["port"], port.get("protocol") or "TCP"
        url = f"{protocol.lower()}://{host}:{number}"
        if position == 0:
            yield f"{name}_PORT", url
        prefix = f"{name}_PORT_{number}_{protocol.upper()}"
        yield prefix, url
        yield f"{prefix}_PROTO", protocol.lower()
        yield f"{prefix}_PORT", str(number)
        yield f"{prefix}_ADDR", address


def _variable_name(name: str) -> str:
    return str(name).replace("-", "_").upper()
