"""Proxy settings from the environment, with the rules of Go's programs such as kubectl.

``HTTPS_PROXY`` or ``HTTP_PROXY`` by the server's scheme, in upper or lower case; ``NO_PROXY`` lists hosts, domains with
their subdomains, addresses and networks (``10.0.0.0/8``), optionally with a port. Loopback addresses never use a proxy.
Python's own implementation does not support networks, which usually except cluster addresses.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def proxy_for(server: str, environment: Mapping[str, str] = os.environ) -> str:
    """The URL of the proxy for a server; empty if there is none.

    >>> some = {"https_proxy": "proxy:3128", "NO_PROXY": ".internal,10.0.0.0/8"}
    >>> [proxy_for(f"https://{host}", some) for host in ("a.example:6443", "10.1.2.3:6443", "k8s.internal")]
    ['http://proxy:3128', '', '']
    """
    parts = urlsplit(server)
    found = _value(environment, f"{parts.scheme}_proxy")
    # In CGI programs, the request header Proxy: sets this variable, so Go ignores it there.
    if not found or (parts.scheme == "http" and environment.get("REQUEST_METHOD")):
        return ""
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    if _local(host) or any(_excepts(entry.strip(), host, port) for entry in _exceptions(environment)):
        return ""
    return found if "://" in found else f"http://{found}"


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _exceptions(environment: Mapping[str, str]) -> list[str]:
    return _value(environment, "no_proxy").split(",")


def _local(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _excepts(entry: str, host: str, port: int) -> bool:
    if entry in ("", "*"):
        return entry == "*"
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name = entry.lower()
    if _address(name) is None:
        parts = urlsplit(f"//{name}")
        try:
            if parts.port is not None:
                if parts.port != port:
                    return False
                name = parts.hostname or ""
        except ValueError:
            return False
    if address is not None:
        return _address(name) == address
    # "example.com" matches the host and its subdomains, ".example.com" only the subdomains.
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")
