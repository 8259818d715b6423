"""Validation of EndpointSlices and Endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.service_spec import INVALID_ADDRESS, external_address, ip_family, is_address
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import duplicate, immutable, invalid, not_supported, required, too_many
from allotment.model.validation.gotext import GoNamedString

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MAX_ENDPOINTS: Final = 1000
_MAX_PORTS: Final = 20000
_MAX_ADDRESSES: Final = 100


# --- EndpointSlices --------------------------------------------------------------------------------------------------


def _slice(tree: Tree, write: Write) -> Errors:
    kind = tree.get("addressType") or ""
    if kind not in _ADDRESS_TYPES:
        yield not_supported("addressType", GoNamedString(kind), _ADDRESS_TYPES) if kind else required("addressType")
    yield from _ports(tree.get("ports") or ())
    endpoints: Sequence[Tree] = tree.get("endpoints") or ()
    if len(endpoints) > _MAX_ENDPOINTS:
        yield too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        yield from _endpoint(endpoint, kind, f"endpoints[{index}]")


def _slice_update(new: Tree, old: Tree, write: Write) -> Errors:
    yield from _slice(new, write)
    if new.get("addressType") != old.get("addressType"):
        yield immutable("addressType", GoNamedString(new.get("addressType") or ""))


def _ports(ports: Sequence[Tree]) -> Errors:
    if len(ports) > _MAX_PORTS:
        yield too_many("ports", len(ports), _MAX_PORTS)
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name") or ""
        if name:
            yield from names.label(name, f"{path}.name")
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
        yield from _protocol(port, path)


def _protocol(port: Tree, path: str) -> Errors:
    protocol, item_path = port.get("protocol") or "", f"{path}.protocol"
    if protocol not in _PROTOCOLS:
        yield not_supported(item_path, GoNamedString(protocol), _PROTOCOLS) if protocol else required(item_path)
    if port.get("appProtocol") is not None:
        yield from names.label_key(port["appProtocol"], f"{path}.appProtocol")


def _endpoint(endpoint: Tree, kind: str, path: str) -> Errors:
    addresses: Sequence[str] = endpoint.get("addresses") or ()
    if not addresses:
        yield required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MAX_ADDRESSES:
        yield too_many(f"{path}.addresses", len(addresses), _MAX_ADDRESSES)
    for index, text in enumerate(addresses):
        item_path = f"{path}.addresses[{index}]"
        if kind in ("IPv4", "IPv6"):
            if not is_address(text):
                yield invalid(item_path, text, INVALID_ADDRESS)
                continue
            if ip_family(text) != kind:
                yield invalid(f"{path}.addresses", text, f"must be an {kind} address")
            yield from external_address(text, item_path)
        elif kind == "FQDN":
            yield from names.subdomain(text.removesuffix("."), item_path)
    if endpoint.get("nodeName") is not None:
        yield from names.subdomain(endpoint["nodeName"], f"{path}.nodeName")
    yield from field_validation.labels(endpoint.get("deprecatedTopology") or {}, f"{path}.deprecatedTopology")
    if endpoint.get("hostname") is not None:
        yield from names.label(endpoint["hostname"], f"{path}.hostname")


# --- Endpoints -------------------------------------------------------------------------------------------------------


def _endpoints(tree: Tree, write: Write) -> Errors:
    for index, subset in enumerate(tree.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for part in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(part) or ()):
                yield from _endpoint_address(address, f"{path}.{part}[{position}]")
        ports: Sequence[Tree] = subset.get("ports") or ()
        for position, port in enumerate(ports):
            yield from _endpoint_port(port, f"{path}.ports[{position}]", needs_name=len(ports) > 1)


def _endpoints_update(new: Tree, old: Tree, write: Write) -> Errors:
    return _endpoints(new, write)


def _endpoint_address(address: Tree, path: str) -> Errors:
    text = address.get("ip") or ""
    if not is_address(text):
        yield invalid(f"{path}.ip", text, INVALID_ADDRESS)
    if address.get("hostname"):
        yield from names.label(address["hostname"], f"{path}.hostname")
    if address.get("nodeName") is not None:
        yield from names.subdomain(address["nodeName"], f"{path}.nodeName")
    if not is_address(text):
        yield invalid(f"{path}.ip", text, "must be a valid IP address")
    else:
        yield from external_address(text, f"{path}.ip")


def _endpoint_port(port: Tree, path: str, *, needs_name: bool) -> Errors:
    name = port.get("name") or ""
    if name:
        yield from names.label(name, f"{path}.name")
    elif needs_name:
        yield required(f"{path}.name")
    yield from field_validation.port(port.get("port") or 0, f"{path}.port")
    yield from _protocol(port, path)


RULES: Final[Mapping[str, KindRules]] = {
    "endpoints": KindRules(validate_create=_endpoints, validate_update=_endpoints_update),
    "endpointslices.discovery.k8s.io": KindRules(
        validate_create=_slice, validate_update=_slice_update, has_generation=True, generation_counts=("labels",)
    ),
}
