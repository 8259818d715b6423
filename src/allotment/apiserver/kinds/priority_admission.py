"""Priority admission: pods, PodGroups and CompositePodGroups get the priority of their PriorityClass.

The values are set by the server: an object with another priority or preemption policy than its class is rejected.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.apiserver.kinds.admission_errors import forbidden
from allotment.apiserver.kinds.kind import StoreReader, Write
from allotment.model.trees import Tree

#: The gate of preemption policies of groups.
PREEMPTION_POLICY: Final = "PodGroupPreemptionPolicy"
_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_DEFAULT_PREEMPTION_POLICY: Final = "PreemptLowerPriority"


class Priority(NamedTuple):
    """The priority of an object by its class; without a class, and without a global default, it is 0."""

    class_name: str
    value: int
    preemption_policy: str


def admit_pod(spec: Tree, name: str, reader: StoreReader) -> None:
    """Set the priority of a new pod in its spec. Raises StatusError."""
    priority = _of_class(spec, "pods", name, reader)
    requested = spec.get("priority")
    if requested is not None and requested != priority.value:
        raise forbidden(
            "pods", name,
            f"the integer value of priority ({requested}) must not be provided in pod spec; priority admission "
            f"controller computed {priority.value} from the given PriorityClass name",
        )  # fmt: skip
    requested = spec.get("preemptionPolicy")
    if requested and requested != priority.preemption_policy:
        raise forbidden("pods", name, _other_policy(requested, "pod", priority))
    _set_class(spec, priority)
    spec["priority"], spec["preemptionPolicy"] = priority.value, priority.preemption_policy


def admit_group(tree: Tree, bucket: str, subject: str, write: Write) -> Tree:
    """A new PodGroup or CompositePodGroup with its priority. ``subject``: its kind in messages. Raises StatusError."""
    spec: Tree = {**(tree.get("spec") or {})}
    name = tree["metadata"].get("name") or ""
    priority = _of_class(spec, bucket, name, write.reader)
    requested = spec.get("priority")
    if requested is not None and requested != priority.value:
        raise forbidden(
            bucket, name,
            f"priority set in the {subject} ({requested}) must match the priority computed ({priority.value}) based on "
            "the priority class set in the spec",
        )  # fmt: skip
    _set_class(spec, priority)
    spec["priority"] = priority.value
    if write.features.enabled(PREEMPTION_POLICY):
        requested = spec.get("preemptionPolicy")
        if requested is not None and requested != priority.preemption_policy:
            raise forbidden(bucket, name, _other_policy(requested, subject, priority))
        spec["preemptionPolicy"] = priority.preemption_policy
    return {**tree, "spec": spec}


def _other_policy(requested: str, subject: str, priority: Priority) -> str:
    return (
        f"the string value of PreemptionPolicy ({requested}) must not be provided in {subject} spec; priority "
        f"admission controller computed {priority.preemption_policy} from the given PriorityClass name"
    )


def _of_class(spec: Tree, bucket: str, name: str, reader: StoreReader) -> Priority:
    """The priority by the class in a spec, or by the default class. Raises StatusError if the class does not exist."""
    class_name = spec.get("priorityClassName") or ""
    if class_name:
        entry = reader.get(_CLASSES, "", class_name)
        if entry is None:
            raise forbidden(bucket, name, f"no PriorityClass with name {class_name} was found")
        tree: Tree = entry.tree
    else:
        tree = _default_class(reader)
        class_name = tree["metadata"]["name"] if tree else ""
    return Priority(class_name, tree.get("value") or 0, tree.get("preemptionPolicy") or _DEFAULT_PREEMPTION_POLICY)


def _default_class(reader: StoreReader) -> Tree:
    """The class of objects that name none: the lowest of the global defaults; empty if there are none."""
    classes = [entry.tree for entry in reader.list(_CLASSES) if entry.tree.get("globalDefault")]
    return min(classes, key=lambda tree: tree.get("value") or 0, default={})


def _set_class(spec: Tree, priority: Priority) -> None:
    if priority.class_name:
        spec["priorityClassName"] = priority.class_name
