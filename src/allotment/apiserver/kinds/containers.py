"""Validation of containers, with the texts and in the order of Kubernetes.

The rules for Windows, SELinux, AppArmor and seccomp are left out, for a lab does not run containers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import msgspec

from allotment.apiserver.kinds import field_validation
from allotment.decoding import decodable
from allotment.model.core import ContainerResourceClaim
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.container_resources import container_resources
from allotment.model.validation.errors import Errors, duplicate, forbidden, invalid, not_found, required, too_many
from allotment.model.validation.pods import container_claims

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_TERMINATION_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_SIDECARS_ONLY: Final = "may not be set for init containers without restartPolicy=Always"
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBE_NUMBERS: Final = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
)  # fmt: skip
#: Fields allowed in ephemeral containers.
_EPHEMERAL_FIELDS: Final = frozenset(
    {"name", "image", "command", "args", "workingDir", "envFrom", "env", "volumeMounts", "volumeDevices",
     "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin", "stdinOnce",
     "tty", "targetContainerName"}
)  # fmt: skip
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ENV_FIELD_PATHS: Final = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
     "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
)  # fmt: skip


class ContainerContext(NamedTuple):
    """The names of valid volumes and of the pod's claims, which containers can refer to; and its restartPolicy."""

    volumes: AbstractSet[str]
    claims: AbstractSet[str]
    restart_policy: str


def containers(items: Sequence[Tree], context: ContainerContext, path: str) -> Errors:
    """Validate ``spec.containers``: at least one, with unique names."""
    if not items:
        yield required(path)
        return
    seen: set[str] = set()
    for index, item in enumerate(items):
        item_path = f"{path}[{index}]"
        yield from _common(item, context, item_path)
        name = item.get("name") or ""
        if name in seen:
            yield duplicate(f"{item_path}.name", name)
        seen.add(name)
        yield from _lifecycle_and_probes(item, item_path)
        yield from _restart_rules(item, item_path)
    yield from _host_ports(items, path)


def init_containers(items: Sequence[Tree], regular: Sequence[Tree], context: ContainerContext, path: str) -> Errors:
    """Validate ``spec.initContainers``; those with restartPolicy Always are sidecars and can have probes."""
    seen = {item.get("name") or "" for item in regular}
    for index, item in enumerate(items):
        item_path = f"{path}[{index}]"
        yield from _common(item, context, item_path)
        yield from _restart_rules(item, item_path)
        name = item.get("name") or ""
        if name in seen:
            yield duplicate(f"{item_path}.name", name)
        elif name:
            seen.add(name)
        yield from _host_ports((item,), path)
        if item.get("restartPolicy") == "Always":
            yield from _lifecycle_and_probes(item, item_path)
            continue
        for part in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if item.get(part) is not None:
                yield forbidden(f"{item_path}.{part}", _SIDECARS_ONLY)


def ephemeral_containers(
    items: Sequence[Tree], other_containers: Sequence[Tree], context: ContainerContext, path: str
) -> Errors:
    """Validate ``spec.ephemeralContainers``: no resources, ports or probes."""
    stable = {item.get("name") or "" for item in other_containers}
    seen = set(stable)
    for index, item in enumerate(items):
        item_path = f"{path}[{index}]"
        yield from _common(item, context, item_path)
        image = item.get("image") or ""
        if image != image.strip():
            yield invalid(f"{item_path}.image", image, "must not have leading or trailing whitespace")
        name = item.get("name") or ""
        if name in seen:
            yield duplicate(f"{item_path}.name", name)
        seen.add(name)
        target = item.get("targetContainerName")
        if target and target not in stable:
            yield not_found(f"{item_path}.targetContainerName", target)
        for part, value in item.items():
            if part not in _EPHEMERAL_FIELDS and value:
                yield forbidden(f"{item_path}.{part}", "cannot be set for an Ephemeral Container")
        for position, mount in enumerate(item.get("volumeMounts") or ()):
            for part in ("subPath", "subPathExpr"):
                if mount.get(part):
                    yield forbidden(
                        f"{item_path}.volumeMounts[{position}].{part}", "cannot be set for an Ephemeral Container"
                    )


def _common(item: Tree, context: ContainerContext, path: str) -> Errors:
    name = item.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        yield from names.label(name, f"{path}.name")
    if not item.get("image"):
        yield required(f"{path}.image")
    policy = item.get("terminationMessagePolicy")
    if policy not in _TERMINATION_POLICIES:
        yield from field_validation.choice(policy, f"{path}.terminationMessagePolicy", _TERMINATION_POLICIES)
    if ports := item.get("ports"):
        yield from _ports(ports, f"{path}.ports")
    if env := item.get("env"):
        yield from _env(env, f"{path}.env")
    if sources := item.get("envFrom"):
        yield from _env_from(sources, f"{path}.envFrom")
    if mounts := item.get("volumeMounts"):
        yield from _mounts(mounts, context.volumes, f"{path}.volumeMounts")
    pull = item.get("imagePullPolicy")
    if pull not in _PULL_POLICIES:
        yield from field_validation.choice(pull, f"{path}.imagePullPolicy", _PULL_POLICIES)
    if resources := item.get("resources"):
        yield from resource_requirements(resources, context.claims, f"{path}.resources")
    if policies := item.get("resizePolicy"):
        yield from _resize_policies(policies, context.restart_policy, f"{path}.resizePolicy")
    if item.get("securityContext"):
        yield from _security_context(item["securityContext"], f"{path}.securityContext")


# --- ports, environment, mounts --------------------------------------------------------------------------------------


def _ports(ports: Sequence[Tree], path: str) -> Errors:
    seen: set[str] = set()
    for index, entry in enumerate(ports):
        item_path, name = f"{path}[{index}]", entry.get("name")
        if name:
            problems = field_validation.port_name_problems(name)
            for problem in problems:
                yield invalid(f"{item_path}.name", name, problem)
            if not problems and name in seen:
                yield duplicate(f"{item_path}.name", name)
            seen.add(name)
        if not entry.get("containerPort"):
            yield required(f"{item_path}.containerPort")
        else:
            yield from field_validation.port(entry["containerPort"], f"{item_path}.containerPort")
        if entry.get("hostPort"):
            yield from field_validation.port(entry["hostPort"], f"{item_path}.hostPort")
        yield from field_validation.choice(entry.get("protocol"), f"{item_path}.protocol", _PROTOCOLS)


def _host_ports(items: Sequence[Tree], path: str) -> Errors:
    seen: set[str] = set()
    for index, item in enumerate(items):
        for position, entry in enumerate(item.get("ports") or ()):
            host_port = entry.get("hostPort")
            if not host_port:
                continue
            key = f"{entry.get('protocol')}/{entry.get('hostIP') or ''}/{host_port}"
            if key in seen:
                yield duplicate(f"{path}[{index}].ports[{position}].hostPort", key)
            seen.add(key)


def _env(variables: Sequence[Tree], path: str) -> Errors:
    for index, variable in enumerate(variables):
        item_path, name = f"{path}[{index}]", variable.get("name")
        if not name:
            yield required(f"{item_path}.name")
        else:
            for problem in field_validation.env_name_problems(name):
                yield invalid(f"{item_path}.name", name, problem)
        source = variable.get("valueFrom")
        if source is not None:
            yield from _env_source(source, bool(variable.get("value")), f"{item_path}.valueFrom")


def _env_source(source: Tree, has_value: bool, path: str) -> Errors:
    present = [name for name in _SOURCES if source.get(name) is not None]
    for name in present:
        yield from _env_reference(name, source[name], f"{path}.{name}")
    if not present:
        yield invalid(
            path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
            "`fileKeyRef`",
        )  # fmt: skip
    elif has_value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(present) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _env_reference(source: str, reference: Tree, path: str) -> Errors:
    if source == "fieldRef":
        field = reference.get("fieldPath") or ""
        if not field:
            yield required(f"{path}.fieldPath")
        elif field not in _ENV_FIELD_PATHS and not field.startswith(("metadata.labels[", "metadata.annotations[")):
            yield invalid(f"{path}.fieldPath", field, "error converting fieldPath: field label not supported: " + field)
    elif source in ("configMapKeyRef", "secretKeyRef"):
        if not reference.get("name"):
            yield required(f"{path}.name")
        key = reference.get("key") or ""
        if not key:
            yield required(f"{path}.key")
        else:
            for problem in field_validation.config_key_problems(key):
                yield invalid(f"{path}.key", key, problem)
    elif source == "resourceFieldRef" and not reference.get("resource"):
        yield required(f"{path}.resource")


def _env_from(sources: Sequence[Tree], path: str) -> Errors:
    for index, source in enumerate(sources):
        item_path, prefix = f"{path}[{index}]", source.get("prefix")
        if prefix:
            for problem in field_validation.env_name_problems(prefix):
                yield invalid(f"{item_path}.prefix", prefix, problem)
        present = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in present:
            if not source[name].get("name"):
                yield required(f"{item_path}.{name}.name")
        if not present:
            yield invalid(item_path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(present) > 1:
            yield invalid(item_path, "", "may not have more than one field specified at a time")


def _mounts(mounts: Sequence[Tree], volumes: AbstractSet[str], path: str) -> Errors:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        item_path, name, mount_path = f"{path}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{item_path}.name")
        if name not in volumes:
            yield not_found(f"{item_path}.name", name)
        if not mount_path:
            yield required(f"{item_path}.mountPath")
        if mount_path in seen:
            yield invalid(f"{item_path}.mountPath", mount_path, "must be unique")
        seen.add(mount_path)
        for part in ("subPath", "subPathExpr"):
            if inside := mount.get(part):
                yield from descending_path(inside, f"{path}.{part}")


def descending_path(text: str, path: str) -> Errors:
    """A relative path without ``..``."""
    if text.startswith("/"):
        yield invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        yield invalid(path, text, "must not contain '..'")


# --- resources -------------------------------------------------------------------------------------------------------


def resource_requirements(resources: Tree, claims: AbstractSet[str], path: str) -> Errors:
    """Requests within limits, equal for extended resources and huge pages; claims that the pod has."""
    limits: Mapping[str, Any] = resources.get("limits") or {}
    requests: Mapping[str, Any] = resources.get("requests") or {}
    yield from container_resources(limits, requests, path)
    if uses := resources.get("claims"):
        used = msgspec.convert(uses, decodable(tuple[ContainerResourceClaim, ...]))
        yield from container_claims(used, claims, f"{path}.claims")


def _resize_policies(policies: Sequence[Tree], restart_policy: str, path: str) -> Errors:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)
        yield from field_validation.choice(name, path, ("cpu", "memory"))
        yield from field_validation.choice(restart, path, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


# --- lifecycle and probes --------------------------------------------------------------------------------------------


def _lifecycle_and_probes(item: Tree, path: str) -> Errors:
    for moment in ("postStart", "preStop"):
        handler = (item.get("lifecycle") or {}).get(moment)
        if handler is not None:
            yield from _handler(handler, f"{path}.lifecycle.{moment}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = item.get(name)
        if probe is not None:
            yield from _probe(name, probe, f"{path}.{name}")


def _probe(name: str, probe: Tree, path: str) -> Errors:
    yield from _handler(probe, path)
    for number in _PROBE_NUMBERS:
        yield from field_validation.non_negative(probe.get(number), f"{path}.{number}")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if name == "readinessProbe":
        if grace is not None:
            yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
    elif probe.get("successThreshold") != 1:
        yield invalid(f"{path}.successThreshold", probe.get("successThreshold") or 0, "must be 1")


def _handler(handler: Tree, path: str) -> Errors:
    present = [name for name in _HANDLERS if handler.get(name) is not None]
    if not present:
        yield required(path, "must specify a handler type")
        return
    handler_type = present[0]
    action, item_path = handler[handler_type], f"{path}.{handler_type}"
    if handler_type == "exec" and not action.get("command"):
        yield required(f"{item_path}.command")
    if handler_type == "httpGet":
        if not action.get("path"):
            yield required(f"{item_path}.path")
        yield from field_validation.port_or_name(action.get("port", 0), f"{item_path}.port")
        yield from field_validation.choice(action.get("scheme"), f"{item_path}.scheme", ("HTTP", "HTTPS"))
    if handler_type in ("tcpSocket", "grpc"):
        yield from field_validation.port_or_name(action.get("port", 0), f"{item_path}.port")
    for name in present[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def _restart_rules(item: Tree, path: str) -> Errors:
    policy, rules = item.get("restartPolicy"), item.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    else:
        yield from field_validation.choice(policy, f"{path}.restartPolicy", _RESTART_POLICIES)
    if len(rules) > 20:
        yield too_many(f"{path}.restartPolicyRules", len(rules), 20)


def _security_context(context: Tree, path: str) -> Errors:
    for name in ("runAsUser", "runAsGroup"):
        number = context.get(name)
        if number is not None and not 0 <= number <= 2**31 - 1:
            yield invalid(f"{path}.{name}", number, "must be between 0 and 2147483647, inclusive")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            yield invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        elif "SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            yield invalid(
                path, context,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            )  # fmt: skip
