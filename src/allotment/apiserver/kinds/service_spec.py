"""Validation of Services after allocation of addresses and ports, and warnings."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import duplicate, forbidden, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString, GoStruct

FAMILIES: Final = ("IPv4", "IPv6")
POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
NODE_PORT_TYPES: Final = ("NodePort", "LoadBalancer")
_SERVICE_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_TRAFFIC_POLICIES: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MAX_AFFINITY_SECONDS: Final = 86400
_SOURCE_RANGES_ANNOTATION: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
INVALID_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
INVALID_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LOAD_BALANCER_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"


def is_headless(spec: Tree) -> bool:
    """Whether the service has no cluster IP."""
    return spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None"


def is_external(spec: Tree) -> bool:
    """Whether the service can be reached from outside the cluster."""
    kind = spec.get("type")
    return kind in NODE_PORT_TYPES or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Tree) -> bool:
    """Whether load balancers need a health check port on each node."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def service_spec(tree: Tree) -> Errors:
    """Validate the spec of a Service."""
    spec = tree.get("spec") or {}
    kind, headless = spec.get("type") or "", is_headless(spec)
    ports: Sequence[Tree] = spec.get("ports") or ()
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if kind in NODE_PORT_TYPES and spec.get("clusterIP") == "None":
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        yield from _external_name(spec)
    yield from _ports(ports)
    yield from field_validation.labels(spec.get("selector") or {}, "spec.selector")
    yield from _affinity(spec)
    yield from addresses(spec)
    for index, text in enumerate(spec.get("externalIPs") or ()):
        yield from external_address(text, f"spec.externalIPs[{index}]")
    if kind not in _SERVICE_TYPES:
        yield not_supported("spec.type", GoNamedString(kind), _SERVICE_TYPES) if kind else required("spec.type")
    yield from _port_numbers(ports, kind)
    yield from _load_balancer(tree, spec)
    yield from _traffic(spec)


def _external_name(spec: Tree) -> Errors:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield forbidden(f"spec.{name}", "may not be set for ExternalName services")
    text = (spec.get("externalName") or "").removesuffix(".")
    yield from names.subdomain(text, "spec.externalName") if text else (required("spec.externalName"),)


def _ports(ports: Sequence[Tree]) -> Errors:
    seen: set[str] = set()
    for index, entry in enumerate(ports):
        path, name = f"spec.ports[{index}]", entry.get("name") or ""
        if name:
            yield from names.label(name, f"{path}.name")
            if name in seen:
                yield duplicate(f"{path}.name", name)
            seen.add(name)
        elif len(ports) > 1:
            yield required(f"{path}.name")
        yield from field_validation.port(entry.get("port") or 0, f"{path}.port")
        protocol = entry.get("protocol") or ""
        if protocol not in _PROTOCOLS:
            at_protocol = f"{path}.protocol"
            yield not_supported(at_protocol, GoNamedString(protocol), _PROTOCOLS) if protocol else required(at_protocol)
        target = entry.get("targetPort")
        yield from field_validation.port_or_name(target if target is not None else 0, f"{path}.targetPort")
        if entry.get("appProtocol") is not None:
            yield from names.label_key(entry["appProtocol"], f"{path}.appProtocol")


def _affinity(spec: Tree) -> Errors:
    affinity, config, path = (
        spec.get("sessionAffinity") or "",
        spec.get("sessionAffinityConfig"),
        "spec.sessionAffinity",
    )
    if affinity not in ("ClientIP", "None"):
        yield not_supported(path, GoNamedString(affinity), ("ClientIP", "None")) if affinity else required(path)
    path = "spec.sessionAffinityConfig"
    if affinity == "None" and config is not None:
        yield forbidden(path, "must not be set when session affinity is None")
    if affinity == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
        if seconds is not None and not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
            yield invalid(f"{path}.clientIP.timeoutSeconds", seconds, detail)


def addresses(spec: Tree) -> Errors:
    """Validate cluster IPs and IP families together."""
    if spec.get("type") == "ExternalName":
        return
    cluster_ip, cluster_ips = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    families, policy = spec.get("ipFamilies") or (), spec.get("ipFamilyPolicy")
    if cluster_ip and not cluster_ips:
        yield required("spec.clusterIPs")
    elif cluster_ip and cluster_ips[0] != cluster_ip:
        yield invalid("spec.clusterIPs", cluster_ips, "first value must match `clusterIP`")
    elif cluster_ips and not cluster_ip:
        yield invalid("spec.clusterIPs", cluster_ips, "must be empty when `clusterIP` is not specified")
    for index, family in enumerate(families):
        if family not in FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", GoNamedString(family), FAMILIES)
        if family in families[:index]:
            yield duplicate(f"spec.ipFamilies[{index}]", GoNamedString(family))
    if policy is not None and policy not in POLICIES:
        yield not_supported("spec.ipFamilyPolicy", GoNamedString(policy), POLICIES)
    wrong = False
    for index, text in enumerate(cluster_ips):
        if index == 0 and text == "None":
            if len(cluster_ips) > 1:
                wrong = True
                yield invalid("spec.clusterIPs", cluster_ips, "'None' must be the first and only value")
        elif not is_address(text):
            wrong = True
            yield invalid(f"spec.clusterIPs[{index}]", text, INVALID_ADDRESS)
    if len(cluster_ips) > 2:
        yield invalid("spec.clusterIPs", cluster_ips, "may only hold up to 2 values")
    if wrong:
        return
    address_families = [ip_family(text) for text in cluster_ips if text != "None"]
    if len(address_families) > 1 and sorted(address_families) != list(FAMILIES):
        yield invalid("spec.clusterIPs", cluster_ips, "may specify no more than one IP for each IP family")
    for index, (family, expected) in enumerate(zip(address_families, families, strict=False)):
        if expected in FAMILIES and family != expected:
            detail = f"expected an {expected} value as indicated by `ipFamilies[{index}]`"
            yield invalid(f"spec.clusterIPs[{index}]", cluster_ips[index], detail)


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def ip_family(text: str) -> str:
    return "IPv6" if ":" in text else "IPv4"


def external_address(text: str, path: str) -> Errors:
    """An IP address that is valid outside its machine: not unspecified, loopback or link-local."""
    if not is_address(text):
        yield invalid(path, text, INVALID_ADDRESS)
        return
    address = ipaddress.ip_address(text)
    if address.is_unspecified:
        yield invalid(path, text, f"may not be unspecified ({text})")
    if address.is_loopback:
        yield invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if address in ipaddress.ip_network("224.0.0.0/24" if address.version == 4 else "ff02::/16"):
        yield invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def _port_numbers(ports: Sequence[Tree], kind: str) -> Errors:
    if kind == "ClusterIP":
        for index, entry in enumerate(ports):
            if entry.get("nodePort"):
                yield forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
    node_ports: set[tuple[str, int]] = set()
    for index, entry in enumerate(ports):
        key = (entry.get("protocol") or "", entry.get("nodePort") or 0)
        if key[1] and key in node_ports:
            yield duplicate(f"spec.ports[{index}].nodePort", key[1])
        node_ports.add(key)
    ports_seen: set[tuple[str, int]] = set()
    for index, entry in enumerate(ports):
        key = (entry.get("protocol") or "", entry.get("port") or 0)
        if key in ports_seen:
            port_value = GoStruct(Name="", Protocol=key[0], AppProtocol=None, Port=key[1], TargetPort=0, NodePort=0)
            yield duplicate(f"spec.ports[{index}]", port_value)
        ports_seen.add(key)


def _load_balancer(tree: Tree, spec: Tree) -> Errors:
    is_load_balancer = spec.get("type") == "LoadBalancer"
    ranges: Sequence[str] = spec.get("loadBalancerSourceRanges") or ()
    annotations: Mapping[str, str] = tree["metadata"].get("annotations") or {}
    if ranges:
        path = "spec.LoadBalancerSourceRanges"
        if not is_load_balancer:
            yield forbidden(path, _LOAD_BALANCER_ONLY)
        for index, text in enumerate(ranges):
            yield from _cidr(text.strip(), f"{path}[{index}]")
    elif _SOURCE_RANGES_ANNOTATION in annotations:
        path = f"metadata.annotations[{_SOURCE_RANGES_ANNOTATION}]"
        if not is_load_balancer:
            yield forbidden(path, _LOAD_BALANCER_ONLY)
        for text in filter(None, annotations[_SOURCE_RANGES_ANNOTATION].strip().split(",")):
            yield from _cidr(text.strip(), path)
    if spec.get("allocateLoadBalancerNodePorts") is not None and not is_load_balancer:
        yield forbidden("spec.allocateLoadBalancerNodePorts", _LOAD_BALANCER_ONLY)
    if (name := spec.get("loadBalancerClass")) is not None:
        path = "spec.loadBalancerClass"
        yield from names.label_key(name, path) if is_load_balancer else (forbidden(path, _LOAD_BALANCER_ONLY),)


def _cidr(text: str, path: str) -> Errors:
    if not is_cidr(text):
        yield invalid(path, text, INVALID_CIDR)


def is_cidr(text: str) -> bool:
    """Whether a string is an IP range in CIDR notation."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _traffic(spec: Tree) -> Errors:
    policy, path = spec.get("externalTrafficPolicy") or "", "spec.externalTrafficPolicy"
    if not is_external(spec):
        if policy:
            yield invalid(path, GoNamedString(policy), "may only be set for externally-accessible services")
    elif policy not in _TRAFFIC_POLICIES:
        yield not_supported(path, GoNamedString(policy), _TRAFFIC_POLICIES) if policy else required(path)
    port, path = spec.get("healthCheckNodePort") or 0, "spec.healthCheckNodePort"
    if port and not needs_health_check(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid(path, port, detail)
    internal_policy, path = spec.get("internalTrafficPolicy"), "spec.internalTrafficPolicy"
    if internal_policy is not None and internal_policy not in _TRAFFIC_POLICIES:
        yield not_supported(path, GoNamedString(internal_policy), _TRAFFIC_POLICIES)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        yield not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def warnings(spec: Tree) -> Iterable[str]:
    """Yield warnings about settings that are ignored, ambiguous or deprecated."""
    external, kind = spec.get("externalIPs"), spec.get("type")
    if is_headless(spec):
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if external:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    elif external and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    for index, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from _ambiguous(text.strip(), f"spec.loadBalancerSourceRanges[{index}]")
    if kind == "ExternalName" and external:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _ambiguous(text: str, path: str) -> Iterable[str]:
    network = ipaddress.ip_network(text, strict=False)
    address = text.partition("/")[0]
    if ipaddress.ip_address(address) != network.network_address:
        single_address = quote(f"{address}/{network.max_prefixlen}")
        yield (
            f"{path}: CIDR value {quote(text)} is ambiguous in this context "
            f"(should be {quote(str(network))} or {single_address}?)"
        )
