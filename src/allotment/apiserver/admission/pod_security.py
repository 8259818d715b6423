"""The admission plugin PodSecurity: enforces the Pod Security level of a namespace, and warns about violations.

Levels are enforced for pods only. Templates of workloads, and the pods of a namespace whose level gets stricter, only
cause warnings. A lab exempts no users, namespaces or runtime classes, and has no audit log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from allotment.apiserver import api_errors
from allotment.apiserver.admission.attributes import Attributes
from allotment.apiserver.kinds.disabled_fields import POD_SPECS
from allotment.apiserver.kinds.kind import StoreReader
from allotment.apiserver.pod_security.evaluation import violations
from allotment.apiserver.pod_security.levels import PRIVILEGED, Level, label_errors, policy_of
from allotment.model.quoting import quote
from allotment.model.trees import Tree

#: Kinds with a pod template, and its path.
TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    bucket: tuple(path[:-1]) for bucket, path in POD_SPECS.items() if bucket != "pods"
}
#: Subresources of pods that can change containers.
_POD_SUBRESOURCES: Final = frozenset({"", "ephemeralcontainers", "resize"})
#: Number of pods that are checked when the level of their namespace changes.
_MAX_PODS: Final = 3000


def check_pod(attributes: Attributes, reader: StoreReader, kube: str) -> None:
    """Raise StatusError (403) if a written pod violates the enforced level. ``kube``: the release of Kubernetes."""
    if attributes.subresource not in _POD_SUBRESOURCES or attributes.new is None:
        return
    policy = policy_of(_labels(reader, attributes.namespace))
    if policy.is_privileged:
        return
    metadata, spec = attributes.new["metadata"], attributes.new["spec"]
    if attributes.old is not None and not _is_significant(spec, attributes.old["spec"]):
        return
    found = violations(policy.enforce, metadata, spec, kube)
    if found:
        reason = f"violates PodSecurity {quote(str(policy.enforce))}: {', '.join(map(str, found))}"
        raise api_errors.forbidden(attributes.kind, attributes.name, reason)
    if policy.warn != policy.enforce:
        _warn(attributes, policy.warn, metadata, spec, kube)


def check_template(attributes: Attributes, reader: StoreReader, kube: str) -> None:
    """Warn if the pod template of a written workload violates the level of its namespace."""
    if attributes.subresource or attributes.new is None:
        return
    policy = policy_of(_labels(reader, attributes.namespace))
    if policy.warn.name == PRIVILEGED:
        return
    template: Tree = attributes.new
    for step in TEMPLATES[attributes.kind.bucket]:
        template = template.get(step) or {}
    if template:
        _warn(attributes, policy.warn, template.get("metadata") or {}, template.get("spec") or {}, kube)


def check_namespace(attributes: Attributes, reader: StoreReader, kube: str) -> None:
    """Raise StatusError (422) if a namespace gets invalid levels; warn about its pods if they violate a new level."""
    if attributes.subresource or attributes.new is None:
        return
    labels = attributes.new["metadata"].get("labels")
    errors = list(label_errors(labels))
    if attributes.old is None:
        if errors:
            raise api_errors.invalid("", attributes.kind.kind, attributes.name, errors)
        return
    old_labels = attributes.old["metadata"].get("labels")
    if labels == old_labels:
        return
    if errors and errors != list(label_errors(old_labels)):
        raise api_errors.invalid("", attributes.kind.kind, attributes.name, errors)
    new, old = policy_of(labels).enforce, policy_of(old_labels).enforce
    if new == old or new.name == PRIVILEGED or (new.version == old.version and not new.is_stricter_than(old)):
        return
    pods = [entry.tree for entry in reader.list("pods", attributes.name)]
    for warning in _warnings_of_namespace(attributes.name, pods, new, kube):
        attributes.warn(warning)


def _labels(reader: StoreReader, namespace: str) -> dict[str, str] | None:
    entry = reader.get("namespaces", "", namespace)
    return None if entry is None else entry.tree["metadata"].get("labels")


def _warn(attributes: Attributes, level: Level, metadata: Tree, spec: Tree, kube: str) -> None:
    found = violations(level, metadata, spec, kube)
    if found:
        attributes.warn(f"would violate PodSecurity {quote(str(level))}: {', '.join(map(str, found))}")


def _is_significant(spec: Tree, old: Tree) -> bool:
    """Whether an update changes what checks depend on: the images or the number of containers."""
    for part in ("containers", "initContainers"):
        images, old_images = (
            [container.get("image") for container in containers_of.get(part) or ()] for containers_of in (spec, old)
        )
        if images != old_images:
            return True
    known = {container.get("name"): container.get("image") for container in old.get("ephemeralContainers") or ()}
    return any(
        container.get("name") not in known or container.get("image") != known[container.get("name")]
        for container in spec.get("ephemeralContainers") or ()
    )


def _warnings_of_namespace(namespace: str, pods: list[Tree], level: Level, kube: str) -> Iterator[str]:
    names_by_reason: dict[str, list[str]] = {}
    for pod in _one_of_each_controller_first(pods)[:_MAX_PODS]:
        found = violations(level, pod["metadata"], pod["spec"], kube)
        if found:
            reason = ", ".join(violation.reason for violation in found)
            names_by_reason.setdefault(reason, []).append(pod["metadata"]["name"])
    if len(pods) > _MAX_PODS:
        yield f"new PodSecurity enforce level only checked against the first {_MAX_PODS} of {len(pods)} existing pods"
    if names_by_reason:
        subject = f"existing pods in namespace {quote(namespace)}"
        yield f"{subject} violate the new PodSecurity enforce level {quote(str(level))}"
    yield from sorted(f"{_counted(names)}: {reason}" for reason, names in names_by_reason.items())


def _counted(names: Iterable[str]) -> str:
    """The first name in alphabetical order, and the number of the others.

    >>> _counted(["b", "a", "c"])
    'a (and 2 other pods)'
    """
    first, *others = sorted(names)
    if not others:
        return first
    return f"{first} (and {len(others)} other {'pod' if len(others) == 1 else 'pods'})"


def _one_of_each_controller_first(pods: Iterable[Tree]) -> list[Tree]:
    """The pods, those last whose controller has a pod before them: the pods of a controller are equal."""
    first: list[Tree] = []
    others: list[Tree] = []
    seen: set[str] = set()
    for pod in pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        controller = next((owner.get("uid") or "" for owner in owners if owner.get("controller")), None)
        if controller is None:
            first.append(pod)
        elif controller in seen:
            others.append(pod)
        else:
            seen.add(controller)
            first.append(pod)
    return first + others
