"""Locations of pod specs in workload objects.

Built-in kinds have one pod spec at a known path. Third-party kinds (PyTorchJob, RayCluster, JobSet, LeaderWorkerSet,
Notebook, Volcano's Job, KServe's InferenceService) may have several at any path, which are detected by ``containers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from allotment.model.fields import GROUP
from allotment.model.loading import Document
from allotment.model.loading.marks import Path

#: Paths of the pod template in built-in kinds.
_TEMPLATES: Final[dict[str, Path]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"), ("spec", "template")
    ),
}
#: Fields by which a fragment of a pod spec is recognized.
_OF_PODS: Final = ("containers", "resourceClaims")
#: Fields by which a container is recognized, besides its name.
_OF_CONTAINERS: Final = frozenset(("image", "resources", "command", "args", "env", "volumeMounts", "ports"))
#: Fields that contain the name of a list item.
_NAMES: Final = ("name", "groupName")
#: Path steps that do not identify the pods.
_GENERIC_STEPS: Final = frozenset(("spec", "template", "jobTemplate"))
#: Maximum depth of the search; no known kind has deeper pod specs.
_MAX_DEPTH: Final = 16


class PodSpecLocation(NamedTuple):
    """The location of a pod spec: its ``path``, and the number of pods that run at the same time (0 if unknown).

    ``custom``: a third-party kind. Such an object may have several pod specs; ``part`` distinguishes them (``Worker``,
    ``gpu-group``) and is empty if there is no suitable name.
    """

    path: Path
    replicas: int
    custom: bool = False
    part: str = ""


def pod_specs(document: Document) -> Iterator[PodSpecLocation]:
    """The pod specs in a document, in its order; a fragment of a pod spec counts as one."""
    kind, group = document.kind, document.api_version.rpartition("/")[0]
    if not kind and not document.api_version:
        if any(isinstance(document.tree.get(field), list) for field in _OF_PODS):
            yield PodSpecLocation((), 1)
    elif kind in _TEMPLATES and "." not in group:
        yield PodSpecLocation((*_TEMPLATES[kind], "spec"), _replicas(document.tree, kind))
    elif group != GROUP:
        yield from _found(document.tree, (), ())


def _replicas(tree: dict[str, Any], kind: str) -> int:
    """The number of pods of a built-in kind that run at the same time; 0 for a DaemonSet, because it is unknown."""
    if kind == "DaemonSet":
        return 0
    spec = tree.get("spec")
    if kind == "CronJob":
        spec = spec.get("jobTemplate") if isinstance(spec, dict) else None
        spec = spec.get("spec") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or kind in ("Pod", "PodTemplate"):
        return 1
    if kind in ("Job", "CronJob"):
        return _job_parallelism(spec)
    replicas = spec.get("replicas")
    return replicas if type(replicas) is int else 1


def _job_parallelism(spec: dict[str, Any]) -> int:
    """The number of pods of a Job that run at the same time."""
    wanted = [number for number in (spec.get("parallelism") or 1, spec.get("completions")) if type(number) is int]
    return min(wanted, default=1)


# --- third-party kinds -----------------------------------------------------------------------------------------------


def _found(tree: Any, path: Path, above: tuple[Any, ...]) -> Iterator[PodSpecLocation]:
    """The pod specs in a tree; ``above`` are its enclosing mappings and lists, the outermost first."""
    if len(path) > _MAX_DEPTH:
        return
    if isinstance(tree, list):
        for number, item in enumerate(tree):
            yield from _found(item, (*path, number), (*above, tree))
    if not isinstance(tree, dict):
        return
    if path and _has_containers(tree):
        yield PodSpecLocation(path, _copies((*above, tree)), True, _part(path, above))
        return
    for key, value in tree.items():
        if path or key not in ("metadata", "status"):
            yield from _found(value, (*path, key), (*above, tree))


def _has_containers(tree: dict[str, Any]) -> bool:
    containers = tree.get("containers")
    return (
        isinstance(containers, list)
        and bool(containers)
        and all(isinstance(container, dict) and container.keys() & _OF_CONTAINERS for container in containers)
    )


def _copies(trees: tuple[Any, ...]) -> int:
    """The number of pods that run at the same time, from the enclosing mappings of the spec, which is the last one.

    It is the product of the nearest ``replicas``, the parallelism of a Job, and the size of a group that counts as one
    replica: ``size`` of LeaderWorkerSet (with its leader) or ``numOfHosts`` of Ray.
    """
    number = 1
    for tree, inner in zip(reversed(trees), (None, *reversed(trees)), strict=False):
        if not isinstance(tree, dict):
            continue
        if type(tree.get("parallelism")) is int:
            number *= _job_parallelism(tree)
        size, hosts, replicas = tree.get("size"), tree.get("numOfHosts"), tree.get("replicas")
        if type(size) is int and "workerTemplate" in tree:
            leader = tree.get("leaderTemplate")
            number *= 1 if inner is leader else max(size - (leader is not None), 0)
        if type(hosts) is int:
            number *= hosts
        if type(replicas) is int:
            return number * replicas
    return number


def _part(path: Path, above: tuple[Any, ...]) -> str:
    """The last path step that identifies the pods; for a list item its name."""
    number = ""
    for step, tree in zip(reversed(path), reversed(above), strict=True):
        if isinstance(step, int):
            item = tree[step]
            for field in _NAMES if isinstance(item, dict) else ():
                if isinstance(item.get(field), str) and item[field]:
                    return str(item[field])
            number = f"[{step}]"
        elif step not in _GENERIC_STEPS:
            return f"{step}{number}"
    return ""
