"""Ingresses, network policies, endpoints and autoscalers: what a mistaken manifest of theirs gets told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from allotment.apiserver.kinds import checks
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.model.validation import names
from allotment.model.validation.errors import forbidden, immutable, invalid, not_supported, required

Tree = dict[str, Any]

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_POLICY_TYPES: Final = ("Egress", "Ingress")


def _unless_status(check: Callable[[Tree, Write], Errors]) -> Callable[[Tree, Tree, Write], Errors]:
    def update(new: Tree, old: Tree, write: Write) -> Errors:
        return () if write.subresource else check(new, write)

    return update


# --- ingresses -------------------------------------------------------------------------------------------------------


def _ingress(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield invalid("spec", spec, "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        at, host = f"spec.rules[{index}]", rule.get("host") or ""
        if host:
            yield from names.subdomain(host.removeprefix("*."), f"{at}.host")
        http = rule.get("http")
        if http is None:
            continue
        if not http.get("paths"):
            yield required(f"{at}.http.paths")
        for position, path in enumerate(http.get("paths") or ()):
            yield from _path(path, f"{at}.http.paths[{position}]")


def _path(path: Tree, at: str) -> Errors:
    kind, text = path.get("pathType"), path.get("path") or ""
    if kind is None:
        yield required(f"{at}.pathType", "pathType must be specified")
    elif kind not in _PATH_TYPES:
        yield not_supported(f"{at}.pathType", kind, _PATH_TYPES)
    if kind in ("Exact", "Prefix") and not text.startswith("/"):
        yield invalid(f"{at}.path", text, "must be an absolute path")
    yield from _backend(path.get("backend") or {}, f"{at}.backend")


def _backend(backend: Tree, at: str) -> Errors:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(at, "", "cannot set both resource and service backends")
    elif resource is None:
        service = service or {}
        if not service.get("name"):
            yield required(f"{at}.service.name")
        port = service.get("port") or {}
        if port.get("name") and port.get("number"):
            yield invalid(at, "", "cannot set both port name & port number")
        elif port.get("name"):
            for problem in checks.port_name_problems(port["name"]):
                yield invalid(f"{at}.service.port.name", port["name"], problem)
        elif not port.get("number"):
            yield required(at, "port name or number is required")
        else:
            yield from checks.port(port["number"], f"{at}.service.port.number")


def _network_policy(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    yield from checks.label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            for position, peer in enumerate(rule.get(peers) or ()):
                at = f"spec.{direction}[{index}].{peers}[{position}]"
                if not any(peer.get(part) is not None for part in ("podSelector", "namespaceSelector", "ipBlock")):
                    yield required(at, "must specify a peer")
                for part in ("podSelector", "namespaceSelector"):
                    yield from checks.label_selector(peer.get(part), f"{at}.{part}")
                if peer.get("ipBlock") is not None and len(peer) > 1:
                    yield forbidden(at, "may not specify both ipBlock and another peer")
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        if kind not in _POLICY_TYPES:
            yield not_supported(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES)


def _endpoint_slice(tree: Tree, write: Write) -> Errors:
    kinds = ("FQDN", "IPv4", "IPv6")
    if tree.get("addressType") not in kinds:
        yield from checks.choice(tree.get("addressType"), "addressType", kinds)
    for index, endpoint in enumerate(tree.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            yield required(f"endpoints[{index}].addresses", "must contain at least 1 address")


def _endpoint_slice_update(new: Tree, old: Tree, write: Write) -> Errors:
    if new.get("addressType") != old.get("addressType"):
        yield immutable("addressType", new.get("addressType"))
    yield from _endpoint_slice(new, write)


# --- autoscalers -----------------------------------------------------------------------------------------------------

_METRICS: Final = "autoscaling.alpha.kubernetes.io/metrics"


def _autoscaler(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    target, least, most = spec.get("scaleTargetRef") or {}, spec.get("minReplicas"), spec.get("maxReplicas") or 0
    for part in ("kind", "name"):
        if not target.get(part):
            yield required(f"spec.scaleTargetRef.{part}")
    if least is not None and least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _cpu_target(metric: Tree) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found = (resource.get("target") or {}).get("averageUtilization")
    return None if found is None else int(found)


def autoscaler_to_version(tree: Tree, version: str) -> Tree:
    """v1 knows one metric, the use of cpu; the others travel in an annotation."""
    if version != "v1":
        return {**tree, "apiVersion": f"autoscaling/{version}"}
    spec = {name: value for name, value in (tree.get("spec") or {}).items() if name not in ("metrics", "behavior")}
    others = []
    for metric in (tree.get("spec") or {}).get("metrics") or ():
        percent = _cpu_target(metric)
        if percent is not None and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = percent
        else:
            others.append(metric)
    metadata = tree.get("metadata") or {}
    if others:
        annotations = {**(metadata.get("annotations") or {}), _METRICS: json.dumps(others, separators=(",", ":"))}
        metadata = {**metadata, "annotations": annotations}
    status = {
        name: value
        for name, value in (tree.get("status") or {}).items()
        if name not in ("currentMetrics", "conditions")
    }
    return {**tree, "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def autoscaler_from_version(tree: Tree, version: str) -> Tree:
    """Back to the stored shape."""
    if version != "v1":
        return {**tree, "apiVersion": "autoscaling/v2"}
    spec = dict(tree.get("spec") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics: list[Any] = []
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    metadata = dict(tree.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    others = _listed(annotations.get(_METRICS, ""))
    if others:
        metrics += others
        del annotations[_METRICS]
        metadata["annotations"] = annotations
    if metrics:
        spec["metrics"] = metrics
    return {**tree, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec}


def _listed(metrics: str) -> list[Any]:
    """The metrics in an annotation; what somebody else wrote there may be none, and stays where it is."""
    try:
        found = json.loads(metrics)
    except ValueError:
        return []
    return found if isinstance(found, list) and all(isinstance(metric, dict) for metric in found) else []


RULES: Final[Mapping[str, Rules]] = {
    "ingresses.networking.k8s.io": Rules(
        validate_create=_ingress, validate_update=_unless_status(_ingress), has_generation=True
    ),
    "ingressclasses.networking.k8s.io": Rules(has_generation=True),
    "networkpolicies.networking.k8s.io": Rules(
        validate_create=_network_policy, validate_update=_unless_status(_network_policy), has_generation=True
    ),
    "endpointslices.discovery.k8s.io": Rules(
        validate_create=_endpoint_slice, validate_update=_endpoint_slice_update, has_generation=True,
        generation_counts=("labels",),
    ),
    "horizontalpodautoscalers.autoscaling": Rules(
        validate_create=_autoscaler, validate_update=_unless_status(_autoscaler)
    ),
}  # fmt: skip
