"""Wait conditions of objects, and descriptions of why they are not met.

The default depends on the kind: a pod is ready or has succeeded, a claim is allocated, a workload has its replicas.
Other conditions are given by condition type or as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allotment.model.trees import Tree

Test = Callable[[Tree], bool]


def condition(tree: Tree, type_: str) -> Tree:
    """A condition of the status; empty if not found."""
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if str(entry.get("type")).lower() == type_.lower()), {})


def has_condition(type_: str) -> Test:
    """A predicate: the condition is True.

    >>> has_condition("ready")({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    True
    """
    return lambda tree: condition(tree, type_).get("status") == "True"


def _status(tree: Tree) -> Tree:
    return tree.get("status") or {}


def _pod(tree: Tree) -> bool:
    return _status(tree).get("phase") == "Succeeded" or has_condition("Ready")(tree)


def _claim(tree: Tree) -> bool:
    return bool(_status(tree).get("allocation"))


def _seen(tree: Tree) -> bool:
    """Whether the controller has observed the newest spec."""
    return bool(_status(tree).get("observedGeneration", 0) >= (tree["metadata"].get("generation") or 0))


def _replicas(counts: str) -> Test:
    def enough(tree: Tree) -> bool:
        wanted = (tree.get("spec") or {}).get("replicas", 1)
        return _seen(tree) and bool(_status(tree).get(counts, 0) >= wanted)

    return enough


def _daemons(tree: Tree) -> bool:
    status = _status(tree)
    return _seen(tree) and bool(status.get("numberReady", 0) >= status.get("desiredNumberScheduled", 0))


_DONE: Mapping[str, Test] = {
    "Pod": _pod,
    "ResourceClaim": _claim,
    "Deployment": _replicas("availableReplicas"),
    "ReplicaSet": _replicas("readyReplicas"),
    "StatefulSet": _replicas("readyReplicas"),
    "ReplicationController": _replicas("readyReplicas"),
    "DaemonSet": _daemons,
    "Job": has_condition("Complete"),
    "CustomResourceDefinition": has_condition("Established"),
}


def predicate_for(until: str | Test | None, kind: str) -> Test:
    """The predicate for a condition name, a function, or (None) the default of the kind."""
    if callable(until):
        return until
    if until is None:
        return _DONE.get(kind, lambda tree: True)
    if until.startswith("phase="):
        return lambda tree: _status(tree).get("phase") == until.removeprefix("phase=")
    if until.lower() == "allocated":
        return _claim
    return has_condition(until)


def described(until: str | Test | None) -> str:
    """The awaited state, as text; empty for the default and for functions without a name.

    >>> described("phase=Running"), described(bool), described(lambda pod: True)
    ('phase=Running', 'bool', '')
    """
    name = until if until is None or isinstance(until, str) else getattr(until, "__name__", "<lambda>")
    return name if name and name != "<lambda>" else ""


def describe_state(tree: Tree | None) -> str:
    """The state of an object as text, the most specific source first."""
    if tree is None:
        return "it does not exist"
    for type_ in ("PodScheduled", "Failed", "Progressing", "ReplicaFailure", "Ready", "Available"):
        found = condition(tree, type_)
        bad = found.get("status") == ("True" if type_ in ("Failed", "ReplicaFailure") else "False")
        if bad and found.get("message"):
            return f"{found['type']}: {found['message']}"
    phase = _status(tree).get("phase")
    return f"phase {phase}" if phase else "its status contains no reason"


def deletion_blockers(tree: Tree) -> str:
    """The finalizers that block the deletion of an object, as text.

    >>> deletion_blockers({"metadata": {"finalizers": ["example.com/backup"]}})
    'finalizer example.com/backup'
    """
    finalizers = tree["metadata"].get("finalizers") or (tree.get("spec") or {}).get("finalizers") or ()
    return ", ".join(f"finalizer {name}" for name in finalizers) or "it has not terminated yet"
