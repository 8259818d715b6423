"""Warnings about pods and pod templates: valid, but deprecated, without effect or probably a mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from allotment.model.quantity import Quantity
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.names import label_value_problems

_LABELS: Final[Mapping[str, str]] = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_ANNOTATIONS: Final[Mapping[str, str]] = {
    "scheduler.alpha.kubernetes.io/critical-pod":
        'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}  # fmt: skip
_VOLUMES: Final[Mapping[str, str]] = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageOS": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_NO_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_BYTES: Final = ("memory", "ephemeral-storage")
_NO_POD: Final = "a null labelSelector results in matching no pod"
_PARTS: Final = ("initContainers", "containers", "ephemeralContainers")


def pod_warnings(metadata: Tree, spec: Tree, prefix: str = "") -> Iterator[str]:
    """The warnings about a pod, or about a template at a path that ends with a dot."""
    path = f"{prefix}spec"
    annotations: Tree = metadata.get("annotations") or {}
    yield from _node_warnings(spec, path)
    for name, text in _ANNOTATIONS.items():
        if name in annotations:
            yield f"{prefix}metadata.annotations[{name}]: {text}"
    for index, volume in enumerate(spec.get("volumes") or ()):
        for source, text in _VOLUMES.items():
            if volume.get(source) is not None or volume.get(source.lower()) is not None:
                yield f"{path}.volumes[{index}].{source}: {text}"
    yield from _duplicates(spec.get("hostAliases") or (), f"{path}.hostAliases", "ip")
    secrets = spec.get("imagePullSecrets") or ()
    yield from _duplicates(secrets, f"{path}.imagePullSecrets", "name")
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _fractions(spec.get("overhead") or {}, f"{path}.overhead")
    if _SECCOMP in annotations and (spec.get("securityContext") or {}).get("seccompProfile") is None:
        yield f"{prefix}metadata.annotations[{_SECCOMP}]: {_NO_SECCOMP}"
    containers = [
        (container, f"{path}.{part}[{index}]")
        for part in _PARTS
        for index, container in enumerate(spec.get(part) or ())
    ]
    for container, container_path in containers:
        yield from _container_warnings(container, container_path, annotations, prefix)
    yield from _port_warnings(containers)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"
    yield from _affinity_warnings(spec.get("affinity") or {}, f"{path}.affinity")


def _node_warnings(spec: Tree, path: str) -> Iterator[str]:
    """Warnings about labels of nodes, and about constraints on the spread over nodes."""
    for label in spec.get("nodeSelector") or {}:
        if label in _LABELS:
            yield f"{path}.nodeSelector[{label}]: {_LABELS[label]}"
    affinity: Tree = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    affinity_path = f"{path}.affinity.nodeAffinity"
    needed: Tree = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = f"{affinity_path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    for index, term in enumerate(needed.get("nodeSelectorTerms") or ()):
        yield from _term_warnings(term, f"{terms}[{index}]", check_values=False)
    terms = f"{affinity_path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        yield from _term_warnings(term.get("preference") or {}, f"{terms}[{index}].preference", check_values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        constraint_path, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey")
        if key in _LABELS:
            yield f"{constraint_path}.topologyKey: {key} is {_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{constraint_path}.labelSelector: {_NO_POD}"


def _term_warnings(term: Tree, path: str, *, check_values: bool) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key") or ""
        if key in _LABELS:
            yield f"{path}.matchExpressions[{index}].key: {key} is {_LABELS[key]}"
        for position, value in enumerate(expression.get("values") or () if check_values else ()):
            for problem in label_value_problems(value):
                yield f"{path}.matchExpressions[{index}].values[{position}]: {value} is invalid, {problem}"


def _affinity_warnings(affinity: Tree, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules: Tree = affinity.get(kind) or {}
        needed = "requiredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(rules.get(needed) or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{kind}.{needed}[{index}].labelSelector: {_NO_POD}"
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(rules.get(preferred) or ()):
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.{kind}.{preferred}[{index}].podAffinityTerm.labelSelector: {_NO_POD}"


def _duplicates(items: Sequence[Tree], path: str, key: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(key) or ""
        if value in seen:
            yield f"{path}[{index}].{key}: duplicate {key} {quote(value)}"
        seen.add(value)


def _fractions(amounts: Tree, path: str) -> Iterator[str]:
    """Warnings about amounts that are not whole bytes."""
    for name in _BYTES:
        if name in amounts:
            quantity = Quantity.parse(amounts[name])
            if -(-quantity.nano // 10**6) % 1000:
                text = f"fractional byte value {quote(str(quantity))} is invalid, must be an integer"
                yield f"{path}[{name}]: {text}"


def _container_warnings(container: Tree, path: str, annotations: Tree, prefix: str) -> Iterator[str]:
    annotation = f"{_CONTAINER_SECCOMP}{container.get('name') or ''}"
    if annotation in annotations and (container.get("securityContext") or {}).get("seccompProfile") is None:
        yield f"{prefix}metadata.annotations[{annotation}]: {_NO_SECCOMP}"
    resources: Tree = container.get("resources") or {}
    for name in _BYTES:
        for part in ("limits", "requests"):
            amounts: Tree = resources.get(part) or {}
            yield from _fractions({name: amounts[name]} if name in amounts else {}, f"{path}.resources.{part}")
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name") or ""
        value = variable.get("value") or ""
        reference = f"$({name})"
        hides = variable.get("valueFrom") is not None or value == reference or reference not in value
        if name in seen and hides:
            text = f"hides previous definition of {quote(name)}, which may be dropped when using apply"
            yield f"{path}.env[{index}]: {text}"
        seen.add(name)


def _port_warnings(containers: Sequence[tuple[Tree, str]]) -> Iterator[str]:
    """Warnings about ports that several containers have, or one container twice."""
    ports = [
        (port, f"{path}.ports[{index}]")
        for container, path in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    known: dict[str, list[tuple[Tree, str]]] = {}
    for port, path in ports:
        address, host_port = port.get("hostIP") or "", port.get("hostPort") or 0
        number, protocol = port.get("containerPort") or 0, port.get("protocol") or ""
        if address and not host_port:
            fields = f"Name:{port.get('name') or ''} HostPort:0 ContainerPort:{number} Protocol:{protocol}"
            yield f"{path}: hostIP set without hostPort: {{{fields} HostIP:{address}}}"
        others = known.setdefault(f"{number}/{protocol}", [])
        for other, other_path in others:
            other_address, other_port = other.get("hostIP") or "", other.get("hostPort") or 0
            if (address, host_port) == (other_address, other_port):
                yield f"{path}: duplicate port definition with {other_path}"
            elif not host_port or not other_port:
                yield f"{path}: overlapping port definition with {other_path}"
            elif host_port == other_port and bool(address) != bool(other_address):
                yield f"{path}: dangerously ambiguous port definition with {other_path}"
        others.append((port, path))
    names: dict[str, str] = {}
    for port, path in ports:
        name = port.get("name")
        if name and name in names:
            first = names[name]
            use = f"services and probes that select ports by name will use {first}"
            yield f"{path}: duplicate port name {quote(name)} with {first}, {use}"
        elif name:
            names[name] = path
