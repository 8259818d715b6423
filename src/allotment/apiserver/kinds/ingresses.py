"""Validation of Ingresses and IngressClasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.service_spec import is_address
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import forbidden, immutable, invalid, not_supported, required, too_long
from allotment.model.validation.gotext import GoNamedString

_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_SCOPES: Final = ("Cluster", "Namespace")
_FORBIDDEN_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_ENDINGS: Final = ("/..", "/.")
_MAX_CONTROLLER_LENGTH: Final = 250
_INVALID_WILDCARD: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    r"regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def _ingress(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    rules = spec.get("rules")
    if not rules and spec.get("defaultBackend") is None:
        yield invalid("spec", rules, "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(rules or ()):
        yield from _rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        path = f"spec.tls[{index}]"
        for position, host in enumerate(tls.get("hosts") or ()):
            yield from _host(host, f"{path}.hosts[{position}]")
        if tls.get("secretName"):
            yield from names.subdomain(tls["secretName"], f"{path}.secretName")
    if spec.get("ingressClassName") is not None:
        yield from names.subdomain(spec["ingressClassName"], "spec.ingressClassName")


def _admit(tree: Tree, write: Write) -> Tree:
    """Set the default class of an Ingress without class and class annotation: the newest of several."""
    meta = tree["metadata"]
    spec = tree.get("spec") or {}
    if spec.get("ingressClassName") is not None or _CLASS_ANNOTATION in (meta.get("annotations") or {}):
        return tree
    if "DefaultIngressClass" in write.disabled_plugins:
        return tree
    classes = (entry.tree["metadata"] for entry in write.reader.list("ingressclasses.networking.k8s.io"))
    defaults = [each for each in classes if (each.get("annotations") or {}).get(_DEFAULT_CLASS) == "true"]
    if not defaults:
        return tree
    newest = max(each["creationTimestamp"] for each in defaults)
    name = min(each["name"] for each in defaults if each["creationTimestamp"] == newest)
    return {**tree, "spec": {**spec, "ingressClassName": name}}


def _validate_create(tree: Tree, write: Write) -> Errors:
    yield from _ingress(tree, write)
    annotated_class = (tree["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    if annotated_class is None:
        return
    write.warn(f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead")
    if (tree.get("spec") or {}).get("ingressClassName") not in (None, annotated_class):
        yield invalid(
            f"annotations.{_CLASS_ANNOTATION}", annotated_class, "must match `ingressClassName` when both are specified"
        )


def _validate_update(new: Tree, old: Tree, write: Write) -> Errors:
    return () if write.subresource else _ingress(new, write)


def _rule(rule: Tree, path: str) -> Errors:
    host, http = rule.get("host") or "", rule.get("http")
    if host:
        if is_address(host):
            yield invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        yield from _host(host, f"{path}.host")
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{path}.http.paths")
    for index, entry in enumerate(http.get("paths") or ()):
        yield from _path(entry, f"{path}.http.paths[{index}]")


def _host(host: str, path: str) -> Errors:
    if "*" not in host:
        yield from names.subdomain(host, path)
    elif not host.startswith("*.") or names.subdomain_problems(host[2:]):
        yield invalid(path, host, _INVALID_WILDCARD)


def _path(entry: Tree, path: str) -> Errors:
    kind, text, item_path = entry.get("pathType"), entry.get("path") or "", f"{path}.path"
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(f"{path}.pathType", GoNamedString(kind), _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(item_path, text, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        yield from (invalid(item_path, text, f"must not contain '{part}'") for part in _FORBIDDEN_PARTS if part in text)
        yield from (
            invalid(item_path, text, f"cannot end with '{end}'") for end in _FORBIDDEN_ENDINGS if text.endswith(end)
        )
    yield from _backend(entry.get("backend") or {}, f"{path}.backend")


def _backend(backend: Tree, path: str) -> Errors:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _reference(resource, f"{path}.resource")
    elif service is None:
        yield invalid(path, "", "resource or service backend is required")
    else:
        name, port = service.get("name") or "", service.get("port") or {}
        yield from names.label(name, f"{path}.service.name") if name else (required(f"{path}.service.name"),)
        if port.get("name") and port.get("number"):
            yield invalid(path, "", "cannot set both port name & port number")
        elif port.get("name"):
            for problem in field_validation.port_name_problems(port["name"]):
                yield invalid(f"{path}.service.port.name", port["name"], problem)
        elif port.get("number"):
            yield from field_validation.port(port["number"], f"{path}.service.port.number")
        else:
            yield required(path, "port name or number is required")


def _reference(reference: Tree, path: str) -> Errors:
    if reference.get("apiGroup") is not None:
        yield from names.subdomain(reference["apiGroup"], f"{path}.apiGroup")
    for part in ("kind", "name"):
        yield from field_validation.path_segment(reference.get(part) or "", f"{path}.{part}")


def _ingress_class(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    controller, parameters = spec.get("controller") or "", spec.get("parameters")
    if len(controller) > _MAX_CONTROLLER_LENGTH:
        yield too_long("spec.controller", _MAX_CONTROLLER_LENGTH)
    yield from field_validation.domain_prefixed_path(controller, "spec.controller")
    if parameters is None:
        return
    path, scope, namespace = "spec.parameters", parameters.get("scope"), parameters.get("namespace")
    yield from _reference(parameters, path)
    if scope is None:
        yield required(f"{path}.scope")
    elif scope not in _SCOPES:
        yield not_supported(f"{path}.scope", scope, _SCOPES)
    elif scope == "Namespace":
        if not namespace:
            yield required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            yield from names.label(namespace, f"{path}.namespace")
    elif namespace is not None:
        yield forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


def _ingress_class_update(new: Tree, old: Tree, write: Write) -> Errors:
    after, before = ((tree.get("spec") or {}).get("controller") or "" for tree in (new, old))
    if after != before:
        yield immutable("spec.controller", after)
    yield from _ingress_class(new, write)


RULES: Final[Mapping[str, KindRules]] = {
    "ingresses.networking.k8s.io": KindRules(
        admit=_admit, validate_create=_validate_create, validate_update=_validate_update, has_generation=True
    ),
    "ingressclasses.networking.k8s.io": KindRules(
        validate_create=_ingress_class, validate_update=_ingress_class_update, has_generation=True
    ),
}  # fmt: skip
