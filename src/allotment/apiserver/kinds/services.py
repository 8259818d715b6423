"""Services: addresses from the cluster's range, and ports of the nodes, chosen before anything else is judged.

Addresses are chosen by chance, which is handed in; whether one is free is read from the services that exist. Upstream
chooses first and refuses at once what it cannot give; only then it looks at the rest. So does this.
"""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds.kind import Errors, Reader, Rules, Write
from allotment.apiserver.kinds.service_spec import (
    FAMILIES,
    WITH_PORTS,
    addresses,
    family_of,
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

RANGE: Final = ipaddress.IPv4Network("10.96.0.0/16")
_FIRST_PORT, _LAST_PORT = 30000, 32767
#: The start of the range is left to addresses that people choose (KEP-3070).
_STATIC: Final = 256
_HERE: Final = "IPv4"


def _others(reader: Reader, tree: Tree) -> list[Tree]:
    own = tree["metadata"].get("uid")
    return [entry.tree for entry in reader.list("services") if entry.tree["metadata"].get("uid") != own]


def _refuse(tree: Tree, errors: Iterable[FieldError]) -> None:
    found = list(errors)
    if found:
        raise StatusError(invalid_status("", "Service", tree["metadata"].get("name") or "", found))


def _created(tree: Tree, write: Write) -> Tree:
    spec: Tree = {**(tree.get("spec") or {})}
    tree = {**tree, "spec": spec, "status": {"loadBalancer": {}}}
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _allocate(tree, {}, write)
    return tree


def _allocate(tree: Tree, before: Tree, write: Write) -> None:
    """Fill in the copy of a spec that is in a tree; ``before`` is the spec as it was."""
    spec = tree["spec"]
    if spec.get("type") != "ExternalName":
        _families(tree, before)
        others: list[Tree] = _others(write.reader, tree)
        if spec.get("clusterIP") != "None":
            _address(tree, before, others, write)
        if spec.get("type") in WITH_PORTS:
            _node_ports(tree, before, others, write)


# --- addresses -------------------------------------------------------------------------------------------------------


def _families(tree: Tree, before: Tree) -> None:
    spec = tree["spec"]
    alone = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or ("RequireDualStack" if alone else "SingleStack")
    _refuse(tree, addresses(spec))
    policy, families = spec["ipFamilyPolicy"], list(spec.get("ipFamilies") or ())
    if before and policy == "SingleStack" and families == before.get("ipFamilies"):
        families = families[:1]
    _refuse(tree, _too_many(spec, families))
    for text in (spec.get("clusterIPs") or ())[len(families) :]:
        if text != "None":
            families.append(family_of(text))
    if alone:
        # Nobody knows what stands behind it, so it may be both.
        families = families or [_HERE]
        if len(families) < 2 and policy != "SingleStack":
            families += [family for family in FAMILIES if family not in families]
    else:
        _refuse(tree, _not_here(policy, families))
    spec["ipFamilies"] = families or [_HERE]


def _too_many(spec: Tree, families: Sequence[str]) -> Errors:
    policy = GoNamedString(spec["ipFamilyPolicy"])
    if policy != "SingleStack":
        return
    for what, listed in (("cluster IPs", spec.get("clusterIPs") or ()), ("IP families", families)):
        if len(listed) == 2:
            detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            yield invalid("spec.ipFamilyPolicy", policy, detail)


def _not_here(policy: str, families: Sequence[str]) -> Errors:
    """A lab has one family of addresses."""
    if policy == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        yield invalid("spec.ipFamilyPolicy", GoNamedString(policy), detail)
    for index, family in enumerate(families):
        if family != _HERE:
            yield invalid(f"spec.ipFamilies[{index}]", GoNamedString(family), "not configured on this cluster")


def _address(tree: Tree, before: Tree, others: Sequence[Tree], write: Write) -> None:
    spec = tree["spec"]
    asked = spec.get("clusterIP") or ""
    if not asked:
        spec["clusterIP"] = _free_address(others, write)
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif asked != before.get("clusterIP"):
        taken = {(other.get("spec") or {}).get("clusterIP") for other in others}
        if ipaddress.ip_address(asked) not in RANGE:
            why = f"the provided IP ({asked}) is not in the valid range. The range of valid IPs is {RANGE}"
        elif asked in taken:
            why = "provided IP is already allocated"
        else:
            return
        _refuse(tree, [invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {asked}: {why}")])


def _free_address(others: Sequence[Tree], write: Write) -> str:
    taken = {(other.get("spec") or {}).get("clusterIP") for other in others}
    span = RANGE.num_addresses - 1 - _STATIC
    start = zlib.crc32(write.suffix().encode()) % span
    for step in range(span):
        address = str(RANGE[_STATIC + (start + step) % span])
        if address not in taken:
            return address
    return ""


# --- ports of the nodes ----------------------------------------------------------------------------------------------


def _node_ports(tree: Tree, before: Tree, others: Sequence[Tree], write: Write) -> None:
    spec = tree["spec"]
    taken = {number for other in others for number in _numbers(other.get("spec") or {})}
    kept = set(_numbers(before))
    ports: list[Tree] = [dict(port) for port in spec.get("ports") or ()]
    if ports:
        spec["ports"] = ports
    for index, port in enumerate(ports):
        number = port.get("nodePort")
        if number and number not in kept:
            _refuse(tree, _not_free(number, f"spec.ports[{index}].nodePort", taken))
    taken |= {port["nodePort"] for port in ports if port.get("nodePort")}
    if spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False:
        chosen = {port.get("port"): port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
        for port in ports:
            if not port.get("nodePort"):
                # The same port under two protocols has one number outside.
                number = chosen.setdefault(port.get("port"), 0) or _free_port(taken, write)
                chosen[port.get("port")] = port["nodePort"] = number
                taken.add(number)
    if needs_health_check(spec):
        _health_check(spec, before, taken, write)


def _numbers(spec: Tree) -> Iterable[int]:
    yield from (port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


def _not_free(number: int, path: str, taken: set[int]) -> Errors:
    if not _FIRST_PORT <= number <= _LAST_PORT:
        detail = f"provided port is not in the valid range. The range of valid ports is {_FIRST_PORT}-{_LAST_PORT}"
        yield invalid(path, number, detail)
    elif number in taken:
        yield invalid(path, number, "provided port is already allocated")


def _health_check(spec: Tree, before: Tree, taken: set[int], write: Write) -> None:
    asked = spec.get("healthCheckNodePort") or 0
    if not asked:
        spec["healthCheckNodePort"] = _free_port(taken, write)
    elif asked != before.get("healthCheckNodePort"):
        for error in _not_free(asked, "", taken):
            why = f"failed to allocate requested HealthCheck NodePort {asked}: {error.detail}"
            raise StatusError(failure_status(500, "InternalError", f"Internal error occurred: {why}", _cause(why)))


def _cause(why: str) -> Tree:
    return {"causes": [{"message": why}]}


def _free_port(taken: set[int], write: Write) -> int:
    span = _LAST_PORT - _FIRST_PORT + 1
    start = zlib.crc32(write.suffix().encode()) % span
    return next((p for i in range(span) if (p := _FIRST_PORT + (start + i) % span) not in taken), 0)


# --- changes ---------------------------------------------------------------------------------------------------------


def _update_prepared(new: Tree, old: Tree, write: Write) -> Tree:
    """What the server chose stays chosen, though a manifest that is applied again does not name it."""
    if write.subresource:
        return new
    spec: Tree = {**(new.get("spec") or {})}
    new = {**new, "spec": spec}
    before: Tree = old.get("spec") or {}
    if spec.get("ports"):
        spec["ports"] = [dict(port) for port in spec["ports"]]
    _drop(spec, before)
    if spec.get("type") != "LoadBalancer":
        new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        same = spec.get("clusterIP") or before.get("clusterIP")
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = same
        if not spec.get("clusterIPs"):
            spec["clusterIPs"] = before.get("clusterIPs") if same == before.get("clusterIP") else [same]
        elif same != before.get("clusterIP") and spec["clusterIPs"] == before.get("clusterIPs"):
            spec["clusterIPs"] = [same]
        if not spec.get("ipFamilies") and before.get("ipFamilies"):
            spec["ipFamilies"] = before["ipFamilies"]
    elif spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec.get("type") in WITH_PORTS and before.get("type") in WITH_PORTS:
        _keep_ports(spec, before)
    _allocate(new, before, write)
    return new


def _drop(spec: Tree, before: Tree) -> None:
    """What another type has no use for goes, if it is as it was."""

    def same(*fields: str) -> bool:
        return all(spec.get(field) == before.get(field) for field in fields)

    def drop(*fields: str) -> None:
        for field in fields:
            spec.pop(field, None)

    was, now = before.get("type"), spec.get("type")
    if was != "ExternalName" and now == "ExternalName":
        for fields in (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",)):
            if same(*fields):
                drop(*fields)
    if was in WITH_PORTS and now not in WITH_PORTS:
        kept = [port.get("nodePort") for port in before.get("ports") or ()]
        if [port.get("nodePort") for port in spec.get("ports") or ()] == kept:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if needs_health_check(before) and not needs_health_check(spec) and same("healthCheckNodePort"):
        drop("healthCheckNodePort")
    if was == "LoadBalancer" and now != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if same(field):
                drop(field)
    if is_external(before) and not is_external(spec) and same("externalTrafficPolicy"):
        drop("externalTrafficPolicy")


def _keep_ports(spec: Tree, before: Tree) -> None:
    """Numbers of the nodes' ports by the ports' names."""
    used = set(_numbers({"ports": before.get("ports")})) & set(_numbers({"ports": spec.get("ports")}))
    known = {port.get("name") or "": port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        number = known.get(port.get("name") or "")
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
    yield from _kept(new.get("spec") or {}, old.get("spec") or {})
    yield from _validate(new, write)


def _kept(after: Tree, before: Tree) -> Errors:
    if "ExternalName" not in (after.get("type"), before.get("type")):
        if not (is_headless(after) and is_headless(before)):
            listed = after.get("clusterIPs") or []
            for index, text in enumerate(before.get("clusterIPs") or ()):
                if index < len(listed) and listed[index] != text:
                    yield invalid(f"spec.clusterIPs[{index}]", listed, "may not change once set")
    if before.get("type") == after.get("type") == "LoadBalancer":
        if after.get("loadBalancerClass") != before.get("loadBalancerClass"):
            yield invalid("spec.loadBalancerClass", after.get("loadBalancerClass"), "may not change once set")
    if needs_health_check(before) and needs_health_check(after):
        if after.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
            yield forbidden("spec.healthCheckNodePort", "field is immutable")


RULES: Final[Mapping[str, Rules]] = {
    "services": Rules(
        prepare_create=_created, validate_create=_validate, prepare_update=_update_prepared,
        validate_update=_validate_update, name=names.label_problems,  # KEP-5311: a digit may come first since 1.36
    )
}  # fmt: skip
