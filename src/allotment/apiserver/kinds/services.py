"""Services: addresses from the cluster's range, node ports, and what may be wrong with either.

Addresses are chosen by chance, which is handed in; whether one is free is read from the services that exist.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.kinds import checks
from allotment.apiserver.kinds.kind import Errors, Reader, Rules, Write
from allotment.model.validation import names
from allotment.model.validation.errors import duplicate, forbidden, invalid, not_supported, required

Tree = dict[str, Any]

RANGE: Final = ipaddress.IPv4Network("10.96.0.0/16")
_FIRST_PORT, _LAST_PORT = 30000, 32767
#: The start of the range is left to addresses that people choose (KEP-3070).
_STATIC: Final = 256
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_WITH_PORTS: Final = ("NodePort", "LoadBalancer")


def _others(reader: Reader, tree: Tree) -> list[Tree]:
    own = tree["metadata"].get("uid")
    return [entry.tree for entry in reader.list("services") if entry.tree["metadata"].get("uid") != own]


def _allocate(tree: Tree, write: Write) -> Tree:
    spec: Tree = {**(tree.get("spec") or {})}
    tree = {**tree, "spec": spec}
    kind = spec.get("type") or "ClusterIP"
    if kind == "ExternalName":
        return tree
    others: list[Tree] | None = None
    if not spec.get("clusterIP"):
        others = _others(write.reader, tree)
        spec["clusterIP"] = _free_address(others, write)
    spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if kind in _WITH_PORTS and spec.get("allocateLoadBalancerNodePorts") is not False:
        ports: list[Tree] = [dict(port) for port in spec.get("ports") or ()]
        spec["ports"] = ports
        lacking = [port for port in ports if not port.get("nodePort")]
        if lacking:
            taken = _node_ports(others if others is not None else _others(write.reader, tree))
            taken |= {port["nodePort"] for port in ports if port.get("nodePort")}
            for port in lacking:
                port["nodePort"] = _free_port(taken, write)
                taken.add(port["nodePort"])
    return tree


def _new(tree: Tree, write: Write) -> Tree:
    return _allocate({**tree, "status": {"loadBalancer": {}}}, write)


def _free_address(others: Sequence[Tree], write: Write) -> str:
    taken = {(other.get("spec") or {}).get("clusterIP") for other in others}
    span = RANGE.num_addresses - 1 - _STATIC
    start = zlib.crc32(write.suffix().encode()) % span
    for step in range(span):
        address = str(RANGE[_STATIC + (start + step) % span])
        if address not in taken:
            return address
    return ""


def _node_ports(others: Sequence[Tree]) -> set[int]:
    return {
        port["nodePort"]
        for other in others
        for port in (other.get("spec") or {}).get("ports") or ()
        if port.get("nodePort")
    }


def _free_port(taken: set[int], write: Write) -> int:
    span = _LAST_PORT - _FIRST_PORT + 1
    start = zlib.crc32(write.suffix().encode()) % span
    return next((p for i in range(span) if (p := _FIRST_PORT + (start + i) % span) not in taken), 0)


# --- validation ------------------------------------------------------------------------------------------------------


def _validate(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    kind = spec.get("type") or ""
    ports: Sequence[Tree] = spec.get("ports") or ()
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if kind == "LoadBalancer" and headless:
        yield invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for LoadBalancer services")
    if kind == "NodePort" and headless:
        yield invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for NodePort services")
    if kind == "ExternalName":
        if not spec.get("externalName"):
            yield required("spec.externalName")
        else:
            yield from names.subdomain(spec["externalName"].removesuffix("."), "spec.externalName")
        if spec.get("clusterIP"):
            yield forbidden("spec.clusterIPs", "may not be set for ExternalName services")
    yield from _ports(ports, "spec.ports", headless=headless)
    for key, value in sorted((spec.get("selector") or {}).items()):
        yield from names.label_key(key, "spec.selector")
        yield from names.label_value(value, "spec.selector")
    affinity = spec.get("sessionAffinity")
    if affinity not in ("ClientIP", "None"):
        yield from checks.choice(affinity, "spec.sessionAffinity", ("ClientIP", "None"))
    if kind not in _TYPES:
        yield from checks.choice(kind, "spec.type", _TYPES)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        if not _is_address(address):
            yield invalid(
                f"spec.externalIPs[{index}]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            )
    policy = spec.get("externalTrafficPolicy")
    if policy is not None and kind in _WITH_PORTS and policy not in ("Cluster", "Local"):
        yield not_supported("spec.externalTrafficPolicy", policy, ("Cluster", "Local"))
    yield from _addresses(tree, spec, write)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _ports(ports: Sequence[Tree], path: str, *, headless: bool) -> Errors:
    seen: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, entry in enumerate(ports):
        at, name = f"{path}[{index}]", entry.get("name") or ""
        if not name:
            if len(ports) > 1:
                yield required(f"{at}.name")
        else:
            yield from names.label(name, f"{at}.name")
            if name in seen:
                yield duplicate(f"{at}.name", name)
            seen.add(name)
        yield from checks.port(entry.get("port") or 0, f"{at}.port")
        yield from checks.choice(entry.get("protocol"), f"{at}.protocol", _PROTOCOLS)
        target = entry.get("targetPort")
        if target not in (None, "", 0) or not headless:
            yield from checks.port_or_name(target if target is not None else 0, f"{at}.targetPort")
        key = (entry.get("protocol"), entry.get("port"))
        if key in numbers:
            yield duplicate(at, {"Port": entry.get("port"), "Protocol": entry.get("protocol")})
        numbers.add(key)
        node_port = entry.get("nodePort")
        if node_port is not None and not 0 <= node_port <= 65535:
            yield invalid(f"{at}.nodePort", node_port, "must be between 1 and 65535, inclusive")


def _addresses(tree: Tree, spec: Tree, write: Write) -> Errors:
    """What was asked for by number is in range and free."""
    address = spec.get("clusterIP")
    asked = [port for port in spec.get("ports") or () if port.get("nodePort")]
    if address in (None, "", "None") and not asked:
        return
    others = _others(write.reader, tree)
    if address not in (None, "", "None"):
        listed = spec.get("clusterIPs") or [address]
        if not _is_address(address):
            yield invalid(
                "spec.clusterIPs[0]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            )
        elif ipaddress.ip_address(address) not in RANGE:
            yield invalid(
                "spec.clusterIPs", listed,
                f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. The range of "
                f"valid IPs is {RANGE}",
            )  # fmt: skip
        elif any((other.get("spec") or {}).get("clusterIP") == address for other in others):
            yield invalid(
                "spec.clusterIPs", listed, f"failed to allocate IP {address}: provided IP is already allocated"
            )
    taken = _node_ports(others) if asked else set[int]()
    for index, port in enumerate(spec.get("ports") or ()):
        number = port.get("nodePort")
        if number and not _FIRST_PORT <= number <= _LAST_PORT:
            detail = f"provided port is not in the valid range. The range of valid ports is {_FIRST_PORT}-{_LAST_PORT}"
            yield invalid(f"spec.ports[{index}].nodePort", number, detail)
        elif number in taken:
            yield invalid(f"spec.ports[{index}].nodePort", number, "provided port is already allocated")


def _update_prepared(new: Tree, old: Tree, write: Write) -> Tree:
    """What the server chose stays chosen, though a manifest that is applied again does not name it."""
    if write.subresource:
        return new
    spec: Tree = {**(new.get("spec") or {})}
    new = {**new, "spec": spec}
    if spec.get("ports"):
        spec["ports"] = [dict(port) for port in spec["ports"]]
    before = old.get("spec") or {}
    if (spec.get("type") or "ClusterIP") == "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if before.get("type") != "ExternalName" and spec.get(name) == before.get(name):
                spec.pop(name, None)
        return new
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
        if not spec.get(name) and before.get(name):
            spec[name] = before[name]
    if spec.get("type") in _WITH_PORTS:
        known = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            kept = known.get((port.get("protocol"), port.get("port")))
            if not port.get("nodePort") and kept:
                port["nodePort"] = kept
    elif before.get("type") in _WITH_PORTS:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    return new


def _update_admitted(new: Tree, old: Tree, write: Write) -> Tree:
    return new if write.subresource else _allocate(new, write)


def _validate_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource:
        return
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" not in (after.get("type"), before.get("type")):
        if before.get("clusterIP") and after.get("clusterIP") != before["clusterIP"]:
            yield invalid("spec.clusterIPs[0]", after.get("clusterIPs") or [], "may not change once set")
    yield from _validate(new, write)


RULES: Final[Mapping[str, Rules]] = {
    "services": Rules(
        prepare_create=_new, validate_create=_validate, prepare_update=_update_prepared,
        admit_update=_update_admitted, validate_update=_validate_update,
        name=names.label_problems,  # KEP-5311: a digit may come first since 1.36
    )
}  # fmt: skip
