"""Network policies: kept, and judged, though nothing in a lab enforces them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.apiserver.kinds.service_spec import NO_RANGE, is_range
from allotment.model.trees import Tree
from allotment.model.validation.errors import forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString

_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_PEERS: Final = ("podSelector", "namespaceSelector", "ipBlock")


def _policy(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    yield from field_validation.label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            at = f"spec.{direction}[{index}]"
            for position, port in enumerate(rule.get("ports") or ()):
                yield from _port(port, f"{at}.ports[{position}]")
            for position, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(peer, f"{at}.{peers}[{position}]")
    kinds = spec.get("policyTypes") or ()
    if len(kinds) > len(_TYPES):
        yield invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(kinds):
        if kind not in _TYPES:
            yield not_supported(f"spec.policyTypes[{index}]", GoNamedString(kind), _TYPES)


def _updated(new: Tree, old: Tree, write: Write) -> Errors:
    return _policy(new, write)


def _port(entry: Tree, path: str) -> Errors:
    protocol, port, last = entry.get("protocol"), entry.get("port"), entry.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", GoNamedString(protocol), _PROTOCOLS)
    at = f"{path}.endPort"
    if isinstance(port, int):
        yield from field_validation.port(port, f"{path}.port")
        if last is not None:
            if last < port:
                yield invalid(at, port, "must be greater than or equal to `port`")
            yield from field_validation.port(last, at)
    else:
        if last is not None:
            why = "is not specified" if port is None else "is non-numeric"
            yield invalid(at, last, f"may not be specified when `port` {why}")
        if port is not None:
            yield from field_validation.port_or_name(port, f"{path}.port")


def _peer(peer: Tree, path: str) -> Errors:
    given = [part for part in _PEERS if peer.get(part) is not None]
    for part in given:
        if part == "ipBlock":
            yield from _block(peer[part], f"{path}.{part}")
        else:
            yield from field_validation.label_selector(peer[part], f"{path}.{part}")
    if not given:
        yield required(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _block(block: Tree, path: str) -> Errors:
    whole = block.get("cidr") or ""
    if not whole:
        yield required(f"{path}.cidr")
        return
    if not is_range(whole):
        yield invalid(f"{path}.cidr", whole, NO_RANGE)
        return
    network = ipaddress.ip_network(whole, strict=False)
    for index, text in enumerate(block.get("except") or ()):
        at = f"{path}.except[{index}]"
        if not is_range(text):
            yield invalid(at, text, NO_RANGE)
            continue
        part = ipaddress.ip_network(text, strict=False)
        if part.network_address not in network or network.prefixlen >= part.prefixlen:
            yield invalid(at, text, "must be a strict subset of `cidr`")


RULES: Final[Mapping[str, Rules]] = {
    "networkpolicies.networking.k8s.io": Rules(validate_create=_policy, validate_update=_updated, has_generation=True)
}
