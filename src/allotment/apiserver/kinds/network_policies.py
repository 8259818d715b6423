"""Validation of NetworkPolicies, which a lab stores but does not enforce."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.service_spec import INVALID_CIDR, is_cidr
from allotment.model.trees import Tree
from allotment.model.validation.errors import forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString

_POLICY_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_PEERS: Final = ("podSelector", "namespaceSelector", "ipBlock")


def _policy(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    yield from field_validation.label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for position, port in enumerate(rule.get("ports") or ()):
                yield from _port(port, f"{path}.ports[{position}]")
            for position, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(peer, f"{path}.{peers}[{position}]")
    policy_types = spec.get("policyTypes") or ()
    if len(policy_types) > len(_POLICY_TYPES):
        yield invalid("spec.policyTypes", policy_types, "may not specify more than two policyTypes")
        return
    for index, policy_type in enumerate(policy_types):
        if policy_type not in _POLICY_TYPES:
            yield not_supported(f"spec.policyTypes[{index}]", GoNamedString(policy_type), _POLICY_TYPES)


def _policy_update(new: Tree, old: Tree, write: Write) -> Errors:
    return _policy(new, write)


def _port(entry: Tree, path: str) -> Errors:
    protocol, port, end_port = entry.get("protocol"), entry.get("port"), entry.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", GoNamedString(protocol), _PROTOCOLS)
    item_path = f"{path}.endPort"
    if isinstance(port, int):
        yield from field_validation.port(port, f"{path}.port")
        if end_port is not None:
            if end_port < port:
                yield invalid(item_path, port, "must be greater than or equal to `port`")
            yield from field_validation.port(end_port, item_path)
    else:
        if end_port is not None:
            why = "is not specified" if port is None else "is non-numeric"
            yield invalid(item_path, end_port, f"may not be specified when `port` {why}")
        if port is not None:
            yield from field_validation.port_or_name(port, f"{path}.port")


def _peer(peer: Tree, path: str) -> Errors:
    present = [part for part in _PEERS if peer.get(part) is not None]
    for part in present:
        if part == "ipBlock":
            yield from _ip_block(peer[part], f"{path}.{part}")
        else:
            yield from field_validation.label_selector(peer[part], f"{path}.{part}")
    if not present:
        yield required(path, "must specify a peer")
    elif len(present) > 1 and "ipBlock" in present:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _ip_block(block: Tree, path: str) -> Errors:
    cidr = block.get("cidr") or ""
    if not cidr:
        yield required(f"{path}.cidr")
        return
    if not is_cidr(cidr):
        yield invalid(f"{path}.cidr", cidr, INVALID_CIDR)
        return
    network = ipaddress.ip_network(cidr, strict=False)
    for index, text in enumerate(block.get("except") or ()):
        item_path = f"{path}.except[{index}]"
        if not is_cidr(text):
            yield invalid(item_path, text, INVALID_CIDR)
            continue
        excluded = ipaddress.ip_network(text, strict=False)
        if excluded.network_address not in network or network.prefixlen >= excluded.prefixlen:
            yield invalid(item_path, text, "must be a strict subset of `cidr`")


RULES: Final[Mapping[str, KindRules]] = {
    "networkpolicies.networking.k8s.io": KindRules(
        validate_create=_policy, validate_update=_policy_update, has_generation=True
    )
}
