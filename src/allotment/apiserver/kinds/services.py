"""Services: allocation of cluster IPs and node ports before validation, and updates.

Allocation is random, with the random value as input; addresses in use are read from the stored services. As upstream,
a request for an address or port that is not available is rejected before the other fields are validated.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds.kind import Errors, KindRules, StoreReader, Write
from allotment.apiserver.kinds.service_spec import (
    FAMILIES,
    NODE_PORT_TYPES,
    addresses,
    ip_family,
    is_external,
    is_headless,
    needs_health_check,
    service_spec,
    warnings,
)
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import FieldError, failure_status, forbidden, invalid, invalid_status
from allotment.model.validation.gotext import GoNamedString

SERVICE_CIDR: Final = ipaddress.IPv4Network("10.96.0.0/16")
_FIRST_PORT, _LAST_PORT = 30000, 32767
#: The start of the range is reserved for static addresses (KEP-3070).
_STATIC_RANGE_SIZE: Final = 256
_CLUSTER_FAMILY: Final = "IPv4"


def _other_services(reader: StoreReader, tree: Tree) -> list[Tree]:
    uid = tree["metadata"].get("uid")
    return [entry.tree for entry in reader.list("services") if entry.tree["metadata"].get("uid") != uid]


def _raise_if_invalid(tree: Tree, errors: Iterable[FieldError]) -> None:
    problems = list(errors)
    if problems:
        raise StatusError(invalid_status("", "Service", tree["metadata"].get("name") or "", problems))


def _prepare_create(tree: Tree, write: Write) -> Tree:
    spec: Tree = {**(tree.get("spec") or {})}
    tree = {**tree, "spec": spec, "status": {"loadBalancer": {}}}
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _allocate(tree, {}, write)
    return tree


def _allocate(tree: Tree, before: Tree, write: Write) -> None:
    """Set addresses and ports in the tree's spec, a copy; ``before`` is the old spec."""
    spec = tree["spec"]
    if spec.get("type") != "ExternalName":
        _allocate_families(tree, before)
        other_services: list[Tree] = _other_services(write.reader, tree)
        if spec.get("clusterIP") != "None":
            _allocate_address(tree, before, other_services, write)
        if spec.get("type") in NODE_PORT_TYPES:
            _allocate_node_ports(tree, before, other_services, write)


# --- addresses -------------------------------------------------------------------------------------------------------


def _allocate_families(tree: Tree, before: Tree) -> None:
    spec = tree["spec"]
    has_external_endpoints = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or (
            "RequireDualStack" if has_external_endpoints else "SingleStack"
        )
    _raise_if_invalid(tree, addresses(spec))
    policy, families = spec["ipFamilyPolicy"], list(spec.get("ipFamilies") or ())
    if before and policy == "SingleStack" and families == before.get("ipFamilies"):
        families = families[:1]
    _raise_if_invalid(tree, _multiple_families(spec, families))
    for text in (spec.get("clusterIPs") or ())[len(families) :]:
        if text != "None":
            families.append(ip_family(text))
    if has_external_endpoints:
        # Its endpoints are unknown, so both families are possible.
        families = families or [_CLUSTER_FAMILY]
        if len(families) < 2 and policy != "SingleStack":
            families += [family for family in FAMILIES if family not in families]
    else:
        _raise_if_invalid(tree, _unsupported_families(policy, families))
    spec["ipFamilies"] = families or [_CLUSTER_FAMILY]


def _multiple_families(spec: Tree, families: Sequence[str]) -> Errors:
    policy = GoNamedString(spec["ipFamilyPolicy"])
    if policy != "SingleStack":
        return
    for noun, values in (("cluster IPs", spec.get("clusterIPs") or ()), ("IP families", families)):
        if len(values) == 2:
            detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {noun} are specified"
            yield invalid("spec.ipFamilyPolicy", policy, detail)


def _unsupported_families(policy: str, families: Sequence[str]) -> Errors:
    """A lab supports one IP family."""
    if policy == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        yield invalid("spec.ipFamilyPolicy", GoNamedString(policy), detail)
    for index, family in enumerate(families):
        if family != _CLUSTER_FAMILY:
            yield invalid(f"spec.ipFamilies[{index}]", GoNamedString(family), "not configured on this cluster")


def _allocate_address(tree: Tree, before: Tree, other_services: Sequence[Tree], write: Write) -> None:
    spec = tree["spec"]
    requested = spec.get("clusterIP") or ""
    if not requested:
        spec["clusterIP"] = _free_address(other_services, write)
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif requested != before.get("clusterIP"):
        used_addresses = {(other.get("spec") or {}).get("clusterIP") for other in other_services}
        if ipaddress.ip_address(requested) not in SERVICE_CIDR:
            reason = "the provided network does not match the current range"
        elif requested in used_addresses:
            reason = "provided IP is already allocated"
        else:
            return
        _raise_if_invalid(
            tree, [invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {requested}: {reason}")]
        )


def _free_address(other_services: Sequence[Tree], write: Write) -> str:
    used_addresses = {(other.get("spec") or {}).get("clusterIP") for other in other_services}
    span = SERVICE_CIDR.num_addresses - 1 - _STATIC_RANGE_SIZE
    start = zlib.crc32(write.suffix().encode()) % span
    for step in range(span):
        address = str(SERVICE_CIDR[_STATIC_RANGE_SIZE + (start + step) % span])
        if address not in used_addresses:
            return address
    return ""


# --- node ports ------------------------------------------------------------------------------------------------------


def _allocate_node_ports(tree: Tree, before: Tree, other_services: Sequence[Tree], write: Write) -> None:
    spec = tree["spec"]
    used_ports = {number for other in other_services for number in _used_ports(other.get("spec") or {})}
    old_ports = set(_used_ports(before))
    ports: list[Tree] = [dict(port) for port in spec.get("ports") or ()]
    if ports:
        spec["ports"] = ports
    for index, port in enumerate(ports):
        number = port.get("nodePort")
        if number and number not in old_ports:
            _raise_if_invalid(tree, _unavailable_port(number, f"spec.ports[{index}].nodePort", used_ports))
    used_ports |= {port["nodePort"] for port in ports if port.get("nodePort")}
    if spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False:
        assigned = {port.get("port"): port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
        for port in ports:
            if not port.get("nodePort"):
                # A port with two protocols gets one node port.
                number = assigned.setdefault(port.get("port"), 0) or _free_port(used_ports, write)
                assigned[port.get("port")] = port["nodePort"] = number
                used_ports.add(number)
    if needs_health_check(spec):
        _allocate_health_check_port(spec, before, used_ports, write)


def _used_ports(spec: Tree) -> Iterable[int]:
    yield from (port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


def _unavailable_port(number: int, path: str, used_ports: set[int]) -> Errors:
    if not _FIRST_PORT <= number <= _LAST_PORT:
        detail = f"provided port is not in the valid range. The range of valid ports is {_FIRST_PORT}-{_LAST_PORT}"
        yield invalid(path, number, detail)
    elif number in used_ports:
        yield invalid(path, number, "provided port is already allocated")


def _allocate_health_check_port(spec: Tree, before: Tree, used_ports: set[int], write: Write) -> None:
    requested = spec.get("healthCheckNodePort") or 0
    if not requested:
        spec["healthCheckNodePort"] = _free_port(used_ports, write)
    elif requested != before.get("healthCheckNodePort"):
        for error in _unavailable_port(requested, "", used_ports):
            message = f"failed to allocate requested HealthCheck NodePort {requested}: {error.detail}"
            raise StatusError(
                failure_status(500, "InternalError", f"Internal error occurred: {message}", _cause_details(message))
            )


def _cause_details(message: str) -> Tree:
    return {"causes": [{"message": message}]}


def _free_port(used_ports: set[int], write: Write) -> int:
    span = _LAST_PORT - _FIRST_PORT + 1
    start = zlib.crc32(write.suffix().encode()) % span
    return next((port for step in range(span) if (port := _FIRST_PORT + (start + step) % span) not in used_ports), 0)


# --- updates ---------------------------------------------------------------------------------------------------------


def _prepare_update(new: Tree, old: Tree, write: Write) -> Tree:
    """Keep allocated addresses and ports if the new manifest does not set them."""
    if write.subresource:
        return new
    spec: Tree = {**(new.get("spec") or {})}
    new = {**new, "spec": spec}
    before: Tree = old.get("spec") or {}
    if spec.get("ports"):
        spec["ports"] = [dict(port) for port in spec["ports"]]
    _drop_unused_fields(spec, before)
    if spec.get("type") != "LoadBalancer":
        new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        cluster_ip = spec.get("clusterIP") or before.get("clusterIP")
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = cluster_ip
        if not spec.get("clusterIPs"):
            spec["clusterIPs"] = before.get("clusterIPs") if cluster_ip == before.get("clusterIP") else [cluster_ip]
        elif cluster_ip != before.get("clusterIP") and spec["clusterIPs"] == before.get("clusterIPs"):
            spec["clusterIPs"] = [cluster_ip]
        if not spec.get("ipFamilies") and before.get("ipFamilies"):
            spec["ipFamilies"] = before["ipFamilies"]
    elif spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec.get("type") in NODE_PORT_TYPES and before.get("type") in NODE_PORT_TYPES:
        _keep_node_ports(spec, before)
    _allocate(new, before, write)
    return new


def _drop_unused_fields(spec: Tree, before: Tree) -> None:
    """Drop unchanged fields that do not apply to the new type."""

    def unchanged(*fields: str) -> bool:
        return all(spec.get(field) == before.get(field) for field in fields)

    def drop(*fields: str) -> None:
        for field in fields:
            spec.pop(field, None)

    old_type, new_type = before.get("type"), spec.get("type")
    if old_type != "ExternalName" and new_type == "ExternalName":
        for fields in (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",)):
            if unchanged(*fields):
                drop(*fields)
    if old_type in NODE_PORT_TYPES and new_type not in NODE_PORT_TYPES:
        old_ports = [port.get("nodePort") for port in before.get("ports") or ()]
        if [port.get("nodePort") for port in spec.get("ports") or ()] == old_ports:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if needs_health_check(before) and not needs_health_check(spec) and unchanged("healthCheckNodePort"):
        drop("healthCheckNodePort")
    if old_type == "LoadBalancer" and new_type != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if unchanged(field):
                drop(field)
    if is_external(before) and not is_external(spec) and unchanged("externalTrafficPolicy"):
        drop("externalTrafficPolicy")


def _keep_node_ports(spec: Tree, before: Tree) -> None:
    """Keep node ports, matched by port name."""
    used = set(_used_ports({"ports": before.get("ports")})) & set(_used_ports({"ports": spec.get("ports")}))
    node_ports = {port.get("name") or "": port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        number = node_ports.get(port.get("name") or "")
        if not port.get("nodePort") and number and number not in used:
            port["nodePort"] = number
    if needs_health_check(spec) and needs_health_check(before) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort")


def _validate(tree: Tree, write: Write) -> Errors:
    errors = list(service_spec(tree))
    if not errors:
        for text in warnings(tree.get("spec") or {}):
            write.warn(text)
    return iter(errors)


def _validate_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource:
        return
    yield from _immutable_fields(new.get("spec") or {}, old.get("spec") or {})
    yield from _validate(new, write)


def _immutable_fields(after: Tree, before: Tree) -> Errors:
    if "ExternalName" not in (after.get("type"), before.get("type")):
        if not (is_headless(after) and is_headless(before)):
            cluster_ips = after.get("clusterIPs") or []
            for index, text in enumerate(before.get("clusterIPs") or ()):
                if index < len(cluster_ips) and cluster_ips[index] != text:
                    yield invalid(f"spec.clusterIPs[{index}]", cluster_ips, "may not change once set")
    if before.get("type") == after.get("type") == "LoadBalancer":
        if after.get("loadBalancerClass") != before.get("loadBalancerClass"):
            yield invalid("spec.loadBalancerClass", after.get("loadBalancerClass"), "may not change once set")
    if needs_health_check(before) and needs_health_check(after):
        if after.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
            yield forbidden("spec.healthCheckNodePort", "field is immutable")


RULES: Final[Mapping[str, KindRules]] = {
    "services": KindRules(
        prepare_create=_prepare_create, validate_create=_validate, prepare_update=_prepare_update,
        validate_update=_validate_update, name=names.label_problems,  # KEP-5311: can start with a digit since 1.36
    )
}  # fmt: skip
