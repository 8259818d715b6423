"""Validation of PodSpecs, for pods and pod templates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.containers import (
    ContainerContext,
    containers,
    ephemeral_containers,
    init_containers,
    resource_requirements,
)
from allotment.apiserver.kinds.volumes import volumes
from allotment.decoding import decodable
from allotment.model.core import PodResourceClaim
from allotment.model.meta import ObjectMeta
from allotment.model.node_selectors import NodeSelector
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, duplicate, forbidden, invalid, not_supported, required
from allotment.model.validation.node_selectors import node_selector
from allotment.model.validation.pods import resource_claims

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAX_SYSCTL: Final = 253
_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
#: The sysctls of the namespaces that a pod shares with its host, by the field that shares them.
_HOST_SYSCTLS: Final = {"hostNetwork": ("net.",), "hostIPC": ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def pod_spec(spec: Tree, annotations: Mapping[str, str], path: str) -> Errors:
    """Validate a PodSpec; ``annotations`` are the pod's."""
    if spec.get("terminationGracePeriodSeconds") is None:
        yield required(f"{path}.terminationGracePeriodSeconds")
    mountable: set[str] = set()
    if spec.get("volumes"):
        yield from volumes(spec["volumes"], f"{path}.volumes", mountable)
    claims: Sequence[Tree] = spec.get("resourceClaims") or ()
    if claims:
        stated = msgspec.convert(claims, decodable(tuple[PodResourceClaim, ...]))
        yield from resource_claims(stated, ObjectMeta(annotations=dict(annotations)), path)
    restart_policy = spec.get("restartPolicy") or ""
    context = ContainerContext(mountable, {claim["name"] for claim in claims if claim.get("name")}, restart_policy)
    regular: Sequence[Tree] = spec.get("containers") or ()
    init: Sequence[Tree] = spec.get("initContainers") or ()
    yield from containers(regular, context, f"{path}.containers")
    if init:
        yield from init_containers(init, regular, context, f"{path}.initContainers")
    if ephemeral := spec.get("ephemeralContainers"):
        yield from ephemeral_containers(ephemeral, (*regular, *init), context, f"{path}.ephemeralContainers")
    if resources := spec.get("resources"):
        yield from _pod_resources(resources, f"{path}.resources")
    if restart_policy not in _RESTART_POLICIES:
        yield from field_validation.choice(restart_policy, f"{path}.restartPolicy", _RESTART_POLICIES)
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        yield from field_validation.choice(spec.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS_POLICIES)
    yield from field_validation.labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    if sysctls := (spec.get("securityContext") or {}).get("sysctls"):
        yield from _sysctls(sysctls, spec, f"{path}.securityContext.sysctls")
    if affinity := spec.get("affinity"):
        yield from _affinity(affinity, f"{path}.affinity")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        yield from names.label_key(gate.get("conditionType") or "", f"{path}.readinessGates[{index}].conditionType")
    if gates := spec.get("schedulingGates"):
        yield from _gates(gates, f"{path}.schedulingGates")
    if spread_constraints := spec.get("topologySpreadConstraints"):
        yield from _spread(spread_constraints, f"{path}.topologySpreadConstraints")
    yield from _names(spec, path)
    if tolerated := spec.get("tolerations"):
        yield from tolerations(tolerated, f"{path}.tolerations")
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        yield from field_validation.choice(policy, f"{path}.preemptionPolicy", ("PreemptLowerPriority", "Never"))
    if (group := spec.get("schedulingGroup")) is not None:
        yield from _scheduling_group(group, f"{path}.schedulingGroup.podGroupName")


def _sysctls(items: Sequence[Tree], spec: Tree, path: str) -> Errors:
    seen: set[str] = set()
    for index, item in enumerate(items):
        name, item_path = item.get("name") or "", f"{path}[{index}].name"
        if not name:
            yield required(item_path)
        elif len(name) > _MAX_SYSCTL or not _SYSCTL.fullmatch(name):
            yield invalid(
                item_path, name, f"must have at most {_MAX_SYSCTL} characters and match regex ^{_SYSCTL.pattern}$"
            )
        elif name in seen:
            yield duplicate(item_path, name)
        seen.add(name)
        for field, prefixes in _HOST_SYSCTLS.items():
            if spec.get(field) and _dotted(name).startswith(prefixes):
                yield invalid(item_path, name, f"may not be specified when '{field}' is true")


def _dotted(name: str) -> str:
    """A sysctl name with dots as separators, if its first separator is a slash (sysctl.d)."""
    first = next((character for character in name if character in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))


def _scheduling_group(group: Tree, path: str) -> Errors:
    name = group.get("podGroupName")
    if name is None:
        yield invalid(path, None, "must specify one of: `podGroupName`")
    else:
        yield from names.subdomain(name, path)


def _names(spec: Tree, path: str) -> Errors:
    for name in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if value := spec.get(name):
            yield from names.subdomain(value, f"{path}.{name}")
        if name == "nodeName":
            deadline = spec.get("activeDeadlineSeconds")
            if deadline is not None and not 1 <= deadline <= 2**31 - 1:
                yield invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
            for part in ("hostname", "subdomain"):
                if value := spec.get(part):
                    yield from names.label(value, f"{path}.{part}")


def _pod_resources(resources: Tree, path: str) -> Errors:
    if resources.get("claims"):
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from resource_requirements(
        {key: value for key, value in resources.items() if key != "claims"}, frozenset(), path
    )


def _gates(gates: Sequence[Tree], path: str) -> Errors:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name") or ""
        yield from names.label_key(name, f"{path}[{index}]")
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def tolerations(items: Sequence[Tree], path: str) -> Errors:
    for index, item in enumerate(items):
        item_path = f"{path}[{index}]"
        key, operator = item.get("key") or "", item.get("operator") or ""
        value, effect = item.get("value") or "", item.get("effect") or ""
        if key:
            yield from names.label_key(key, f"{item_path}.key")
        elif operator != "Exists":
            yield invalid(
                f"{item_path}.operator", operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )  # fmt: skip
        if item.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield invalid(f"{item_path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator in ("", "Equal"):
            problems = names.label_value_problems(value)
            if problems:
                yield invalid(f"{item_path}.operator", value, ";".join(problems))
        elif operator == "Exists":
            if value:
                yield invalid(f"{item_path}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            yield not_supported(f"{item_path}.operator", operator, ("Equal", "Exists"))
        if effect:
            yield from field_validation.choice(effect, f"{item_path}.effect", _EFFECTS)


# --- affinity and spreading ------------------------------------------------------------------------------------------


def _affinity(affinity: Tree, path: str) -> Errors:
    if nodes := affinity.get("nodeAffinity"):
        yield from _node_affinity(nodes, f"{path}.nodeAffinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(name):
            for index, term in enumerate(pods.get(_REQUIRED) or ()):
                yield from _pod_term(term, f"{path}.{name}.{_REQUIRED}[{index}]")
            for index, weighted in enumerate(pods.get(_PREFERRED) or ()):
                item_path = f"{path}.{name}.{_PREFERRED}[{index}]"
                yield from _weight(weighted, item_path)
                yield from _pod_term(weighted.get("podAffinityTerm") or {}, f"{item_path}.podAffinityTerm")


def _node_affinity(affinity: Tree, path: str) -> Errors:
    required_terms = affinity.get(_REQUIRED)
    if required_terms is not None:
        terms = required_terms.get("nodeSelectorTerms") or ()
        selector = msgspec.convert({"nodeSelectorTerms": terms}, decodable(NodeSelector))
        yield from node_selector(selector, f"{path}.{_REQUIRED}")
    for index, term in enumerate(affinity.get(_PREFERRED) or ()):
        item_path = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(term, item_path)
        preference = msgspec.convert({"nodeSelectorTerms": [term.get("preference") or {}]}, decodable(NodeSelector))
        for error in node_selector(preference, item_path):
            yield error._replace(
                path=error.path.replace(f"{item_path}.nodeSelectorTerms[0]", f"{item_path}.preference")
            )


def _weight(term: Tree, path: str) -> Errors:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _pod_term(term: Tree, path: str) -> Errors:
    yield from field_validation.label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    yield from field_validation.label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        yield from names.label(name, f"{path}.namespace")
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from names.label_key(key, f"{path}.topologyKey")


def _spread(constraints: Sequence[Tree], path: str) -> Errors:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        item_path = f"{path}[{index}]"
        skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
        action = constraint.get("whenUnsatisfiable") or ""
        if skew <= 0:
            yield invalid(f"{item_path}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield required(f"{item_path}.topologyKey", "can not be empty")
        else:
            yield from names.label_key(key, f"{item_path}.topologyKey")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            yield not_supported(f"{item_path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        if (key, action) in seen:
            yield duplicate(f"{item_path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        seen.add((key, action))
        min_domains = constraint.get("minDomains")
        if min_domains is not None and min_domains <= 0:
            yield invalid(f"{item_path}.minDomains", min_domains, "must be greater than zero")
        yield from field_validation.label_selector(constraint.get("labelSelector"), f"{item_path}.labelSelector")


def template(spec: Tree, meta: Tree, path: str) -> Errors:
    """Validate a PodTemplateSpec: labels, annotations and spec."""
    # Upstream omits "metadata" in these two paths.
    yield from field_validation.labels(meta.get("labels") or {}, f"{path}.labels")
    for key in sorted(meta.get("annotations") or {}):
        for problem in names.label_key_problems(key.lower()):
            yield invalid(f"{path}.annotations", key, problem)
    yield from pod_spec(spec, meta.get("annotations") or {}, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
