"""Where an object keeps the specs of the pods that are made of it.

Kubernetes' own kinds have one place each. Kinds of others (PyTorchJob, RayCluster, JobSet, LeaderWorkerSet, Notebook,
Volcano's Job, KServe's InferenceService) have several, anywhere: what has ``containers`` as a pod has them is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from allotment.model.fields import GROUP
from allotment.model.loading import Document
from allotment.model.loading.marks import Path

#: Where Kubernetes' own kinds keep the template of their pods.
_TEMPLATES: Final[dict[str, Path]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"), ("spec", "template")
    ),
}
#: What tells a fragment of a pod's spec.
_OF_PODS: Final = ("containers", "resourceClaims")
#: What containers have beside their name.
_OF_CONTAINERS: Final = frozenset(("image", "resources", "command", "args", "env", "volumeMounts", "ports"))
#: Fields by which an item of a list goes by a name.
_NAMES: Final = ("name", "groupName")
#: Steps that do not tell whose pods they are.
_GENERIC_STEPS: Final = frozenset(("spec", "template", "jobTemplate"))
#: Deeper than any kind has its pods.
_MAX_DEPTH: Final = 16


class PodSpecLocation(NamedTuple):
    """A pod's spec: its ``path``, and how many such pods run at once (0 where that is not known).

    ``custom``: its kind is not Kubernetes' own. Such an object may have several; ``part`` tells them apart (``Worker``,
    ``gpu-group``), and is empty where there is nothing to tell it by.
    """

    path: Path
    replicas: int
    custom: bool = False
    part: str = ""


def pod_specs(document: Document) -> Iterator[PodSpecLocation]:
    """The specs of pods in a document, in its order; a fragment of a pod's spec is one."""
    kind, group = document.kind, document.api_version.rpartition("/")[0]
    if not kind and not document.api_version:
        if any(isinstance(document.tree.get(field), list) for field in _OF_PODS):
            yield PodSpecLocation((), 1)
    elif kind in _TEMPLATES and "." not in group:
        yield PodSpecLocation((*_TEMPLATES[kind], "spec"), _replicas(document.tree, kind))
    elif group != GROUP:
        yield from _found(document.tree, (), ())


def _replicas(tree: dict[str, Any], kind: str) -> int:
    """How many pods of a kind of Kubernetes run at once; of a DaemonSet that is not known."""
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
    """How many pods of a Job run at once."""
    wanted = [number for number in (spec.get("parallelism") or 1, spec.get("completions")) if type(number) is int]
    return min(wanted, default=1)


# --- kinds of others -------------------------------------------------------------------------------------------------


def _found(tree: Any, path: Path, above: tuple[Any, ...]) -> Iterator[PodSpecLocation]:
    """The specs below a tree; ``above`` are the mappings and lists that it is in, the outermost first."""
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
        and all(isinstance(one, dict) and one.keys() & _OF_CONTAINERS for one in containers)
    )


def _copies(trees: tuple[Any, ...]) -> int:
    """How many pods run at once, by the mappings that the spec is in, itself the last.

    That is the nearest ``replicas``, times what runs at once of a Job, times the pods of a group that counts as one:
    LeaderWorkerSet's (``size``, with its leader) and Ray's (``numOfHosts``).
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
    """The last step that tells whose pods they are; of an item in a list its name."""
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
