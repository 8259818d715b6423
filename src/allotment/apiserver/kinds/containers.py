"""Validation of containers: what a user may write wrong in one, in Kubernetes' words and order.

Upstream's rules for Windows, SELinux, AppArmor and seccomp are not here: nothing in a lab runs containers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import msgspec

from allotment.apiserver.kinds import field_validation
from allotment.model.core import ContainerResourceClaim
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, duplicate, forbidden, invalid, not_found, required, too_many
from allotment.model.validation.pods import container_claims

_PULL: Final = ("Always", "IfNotPresent", "Never")
_TERMINATION: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_RESTART: Final = ("Always", "Never", "OnFailure")
_NO_SIDECAR: Final = "may not be set for init containers without restartPolicy=Always"
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_NUMBERS_OF_PROBES: Final = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
)  # fmt: skip
#: What a container for debugging may have.
_EPHEMERAL: Final = frozenset(
    {"name", "image", "command", "args", "workingDir", "envFrom", "env", "volumeMounts", "volumeDevices",
     "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin", "stdinOnce",
     "tty", "targetContainerName"}
)  # fmt: skip
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELDS_FOR_ENV: Final = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
     "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
)  # fmt: skip


class Surroundings(NamedTuple):
    """What containers may refer to: names of valid volumes and of the pod's claims; and its restart policy."""

    volumes: AbstractSet[str]
    claims: AbstractSet[str]
    restart_policy: str


def containers(items: Sequence[Tree], around: Surroundings, path: str) -> Errors:
    """``spec.containers``: at least one, names differ."""
    if not items:
        yield required(path)
        return
    seen: set[str] = set()
    for index, item in enumerate(items):
        at = f"{path}[{index}]"
        yield from _common(item, around, at)
        name = item.get("name") or ""
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        yield from _life(item, at)
        yield from _restart(item, at)
    yield from _host_ports(items, path)


def init_containers(items: Sequence[Tree], regular: Sequence[Tree], around: Surroundings, path: str) -> Errors:
    """``spec.initContainers``; one that restarts always is a sidecar and may have probes."""
    seen = {item.get("name") or "" for item in regular}
    for index, item in enumerate(items):
        at = f"{path}[{index}]"
        yield from _common(item, around, at)
        yield from _restart(item, at)
        name = item.get("name") or ""
        if name in seen:
            yield duplicate(f"{at}.name", name)
        elif name:
            seen.add(name)
        yield from _host_ports((item,), path)
        if item.get("restartPolicy") == "Always":
            yield from _life(item, at)
            continue
        for part in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if item.get(part) is not None:
                yield forbidden(f"{at}.{part}", _NO_SIDECAR)


def ephemeral_containers(items: Sequence[Tree], others: Sequence[Tree], around: Surroundings, path: str) -> Errors:
    """``spec.ephemeralContainers``: no resources, ports or probes."""
    stable = {item.get("name") or "" for item in others}
    seen = set(stable)
    for index, item in enumerate(items):
        at = f"{path}[{index}]"
        yield from _common(item, around, at)
        image = item.get("image") or ""
        if image != image.strip():
            yield invalid(f"{at}.image", image, "must not have leading or trailing whitespace")
        name = item.get("name") or ""
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        target = item.get("targetContainerName")
        if target and target not in stable:
            yield not_found(f"{at}.targetContainerName", target)
        for part, value in item.items():
            if part not in _EPHEMERAL and value:
                yield forbidden(f"{at}.{part}", "cannot be set for an Ephemeral Container")
        for position, mount in enumerate(item.get("volumeMounts") or ()):
            for part in ("subPath", "subPathExpr"):
                if mount.get(part):
                    yield forbidden(f"{at}.volumeMounts[{position}].{part}", "cannot be set for an Ephemeral Container")


def _common(item: Tree, around: Surroundings, path: str) -> Errors:
    name = item.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        yield from names.label(name, f"{path}.name")
    if not item.get("image"):
        yield required(f"{path}.image")
    policy = item.get("terminationMessagePolicy")
    if policy not in _TERMINATION:
        yield from field_validation.choice(policy, f"{path}.terminationMessagePolicy", _TERMINATION)
    if ports := item.get("ports"):
        yield from _ports(ports, f"{path}.ports")
    if env := item.get("env"):
        yield from _env(env, f"{path}.env")
    if sources := item.get("envFrom"):
        yield from _env_from(sources, f"{path}.envFrom")
    if mounts := item.get("volumeMounts"):
        yield from _mounts(mounts, around.volumes, f"{path}.volumeMounts")
    pull = item.get("imagePullPolicy")
    if pull not in _PULL:
        yield from field_validation.choice(pull, f"{path}.imagePullPolicy", _PULL)
    if resources := item.get("resources"):
        yield from requirements(resources, around.claims, f"{path}.resources")
    if policies := item.get("resizePolicy"):
        yield from _resize(policies, around.restart_policy, f"{path}.resizePolicy")
    if item.get("securityContext"):
        yield from _security(item["securityContext"], f"{path}.securityContext")


# --- ports, environment, mounts --------------------------------------------------------------------------------------


def _ports(ports: Sequence[Tree], path: str) -> Errors:
    seen: set[str] = set()
    for index, entry in enumerate(ports):
        at, name = f"{path}[{index}]", entry.get("name")
        if name:
            problems = field_validation.port_name_problems(name)
            for problem in problems:
                yield invalid(f"{at}.name", name, problem)
            if not problems and name in seen:
                yield duplicate(f"{at}.name", name)
            seen.add(name)
        if not entry.get("containerPort"):
            yield required(f"{at}.containerPort")
        else:
            yield from field_validation.port(entry["containerPort"], f"{at}.containerPort")
        if entry.get("hostPort"):
            yield from field_validation.port(entry["hostPort"], f"{at}.hostPort")
        yield from field_validation.choice(entry.get("protocol"), f"{at}.protocol", _PROTOCOLS)


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
        at, name = f"{path}[{index}]", variable.get("name")
        if not name:
            yield required(f"{at}.name")
        else:
            for problem in field_validation.env_name_problems(name):
                yield invalid(f"{at}.name", name, problem)
        source = variable.get("valueFrom")
        if source is not None:
            yield from _env_source(source, bool(variable.get("value")), f"{at}.valueFrom")


def _env_source(source: Tree, has_value: bool, path: str) -> Errors:
    given = [name for name in _SOURCES if source.get(name) is not None]
    for name in given:
        yield from _env_reference(name, source[name], f"{path}.{name}")
    if not given:
        yield invalid(
            path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
            "`fileKeyRef`",
        )  # fmt: skip
    elif has_value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _env_reference(sort: str, reference: Tree, path: str) -> Errors:
    if sort == "fieldRef":
        field = reference.get("fieldPath") or ""
        if not field:
            yield required(f"{path}.fieldPath")
        elif field not in _FIELDS_FOR_ENV and not field.startswith(("metadata.labels[", "metadata.annotations[")):
            yield invalid(f"{path}.fieldPath", field, "error converting fieldPath: field label not supported: " + field)
    elif sort in ("configMapKeyRef", "secretKeyRef"):
        if not reference.get("name"):
            yield required(f"{path}.name")
        key = reference.get("key") or ""
        if not key:
            yield required(f"{path}.key")
        else:
            for problem in field_validation.config_key_problems(key):
                yield invalid(f"{path}.key", key, problem)
    elif sort == "resourceFieldRef" and not reference.get("resource"):
        yield required(f"{path}.resource")


def _env_from(sources: Sequence[Tree], path: str) -> Errors:
    for index, source in enumerate(sources):
        at, prefix = f"{path}[{index}]", source.get("prefix")
        if prefix:
            for problem in field_validation.env_name_problems(prefix):
                yield invalid(f"{at}.prefix", prefix, problem)
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            if not source[name].get("name"):
                yield required(f"{at}.{name}.name")
        if not given:
            yield invalid(at, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(at, "", "may not have more than one field specified at a time")


def _mounts(mounts: Sequence[Tree], volumes: AbstractSet[str], path: str) -> Errors:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        at, name, where = f"{path}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{at}.name")
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        if not where:
            yield required(f"{at}.mountPath")
        if where in seen:
            yield invalid(f"{at}.mountPath", where, "must be unique")
        seen.add(where)
        for part in ("subPath", "subPathExpr"):
            if inside := mount.get(part):
                yield from descending(inside, f"{path}.{part}")


def descending(text: str, path: str) -> Errors:
    """A path below another one: relative, and it never climbs."""
    if text.startswith("/"):
        yield invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        yield invalid(path, text, "must not contain '..'")


# --- resources -------------------------------------------------------------------------------------------------------


def requirements(resources: Tree, claims: AbstractSet[str], path: str) -> Errors:
    """Requests within limits; devices and huge pages asked for exactly; claims that the pod has."""
    limits: Mapping[str, Any] = resources.get("limits") or {}
    requests: Mapping[str, Any] = resources.get("requests") or {}
    for name in sorted(limits):
        at = f"{path}.limits[{name}]"
        for problem in field_validation.container_resource_problems(name):
            yield invalid(at, name, problem)
        yield from field_validation.amount(name, limits[name], at)
    for name in sorted(requests):
        at = f"{path}.requests[{name}]"
        for problem in field_validation.container_resource_problems(name):
            yield invalid(at, name, problem)
        yield from field_validation.amount(name, requests[name], at)
        yield from _within(name, Quantity.parse(str(requests[name])), limits.get(name), path)
    huge = any(name.startswith("hugepages-") for name in (*limits, *requests))
    if huge and not any(name in ("cpu", "memory") for name in (*limits, *requests)):
        yield forbidden(path, "HugePages require cpu or memory")
    if uses := resources.get("claims"):
        yield from container_claims(msgspec.convert(uses, tuple[ContainerResourceClaim, ...]), claims, f"{path}.claims")


def _within(name: str, request: Quantity, limit_text: Any, path: str) -> Errors:
    shared = field_validation.overcommittable(name)
    if limit_text is None:
        if not shared:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    limit = Quantity.parse(str(limit_text))
    if request != limit and not shared:
        yield invalid(f"{path}.requests", str(request), f"must be equal to {name} limit of {limit}")
    elif request > limit:
        yield invalid(f"{path}.requests", str(request), f"must be less than or equal to {name} limit of {limit}")


def _resize(policies: Sequence[Tree], restart_policy: str, path: str) -> Errors:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, how = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)
        yield from field_validation.choice(name, path, ("cpu", "memory"))
        yield from field_validation.choice(how, path, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and how != "NotRequired":
            yield invalid(path, how, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


# --- life ------------------------------------------------------------------------------------------------------------


def _life(item: Tree, path: str) -> Errors:
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
    for number in _NUMBERS_OF_PROBES:
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
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        yield required(path, "must specify a handler type")
        return
    first = given[0]
    action, at = handler[first], f"{path}.{first}"
    if first == "exec" and not action.get("command"):
        yield required(f"{at}.command")
    if first == "httpGet":
        if not action.get("path"):
            yield required(f"{at}.path")
        yield from field_validation.port_or_name(action.get("port", 0), f"{at}.port")
        yield from field_validation.choice(action.get("scheme"), f"{at}.scheme", ("HTTP", "HTTPS"))
    if first in ("tcpSocket", "grpc"):
        yield from field_validation.port_or_name(action.get("port", 0), f"{at}.port")
    for name in given[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def _restart(item: Tree, path: str) -> Errors:
    policy, rules = item.get("restartPolicy"), item.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    else:
        yield from field_validation.choice(policy, f"{path}.restartPolicy", _RESTART)
    if len(rules) > 20:
        yield too_many(f"{path}.restartPolicyRules", len(rules), 20)


def _security(context: Tree, path: str) -> Errors:
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
