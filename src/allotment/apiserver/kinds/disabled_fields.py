"""Removes the fields of features whose gates are off, as Kubernetes does before it validates an object.

A field stays if the stored object has it already: it was written while the gate was on. The client that wrote a
removed field owns it nevertheless, so managed fields are computed before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.kinds.kind import Write
from allotment.model.features import Features
from allotment.model.pod_groups import are_groups_enabled
from allotment.model.trees import Tree

#: Fields of a tree with the gate of each.
Gates = Mapping[str, str]
Drop = Callable[[Tree, Tree | None, Write], Tree]

JOB_GATES: Final[Gates] = {"scheduling": "WorkloadWithJob"}
#: Sources of projected volumes whose gates are on since a release: ClusterTrustBundleProjection, PodCertificateRequest.
_PROJECTIONS: Final = frozenset({"clusterTrustBundle", "podCertificate"})
_PROJECTIONS_SINCE: Final = "1.37"
_TEMPLATE: Final = ("spec", "template", "spec")
_JOB_TEMPLATE: Final = ("spec", "jobTemplate", "spec")
#: Where objects have the spec of a pod.
POD_SPECS: Final[Mapping[str, Sequence[str]]] = {
    "pods": ("spec",),
    "podtemplates": ("template", "spec"),
    "replicationcontrollers": _TEMPLATE,
    **dict.fromkeys(("daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps"), _TEMPLATE),
    "jobs.batch": _TEMPLATE,
    "cronjobs.batch": (*_JOB_TEMPLATE, "template", "spec"),
}
_JOB_SPECS: Final[Mapping[str, Sequence[str]]] = {"jobs.batch": ("spec",), "cronjobs.batch": _JOB_TEMPLATE}


def without_disabled(tree: Tree, old: Tree | None, gates: Gates, features: Features) -> Tree:
    """A tree without the fields of disabled gates that its former state does not have."""
    dropped = {
        name
        for name, gate in gates.items()
        if name in tree and not (old or {}).get(name) and (old or {}).get(name) != {} and not features.enabled(gate)
    }
    return {name: value for name, value in tree.items() if name not in dropped} if dropped else tree


def drop_for(bucket: str) -> Drop:
    """The function that drops disabled fields of a kind with pods or jobs; it changes nothing for other kinds."""
    pod, job = POD_SPECS.get(bucket), _JOB_SPECS.get(bucket)

    def drop(tree: Tree, old: Tree | None, write: Write) -> Tree:
        features = write.features
        if job is not None:
            tree = _at(tree, old, job, lambda spec, before: without_disabled(spec, before, JOB_GATES, features))
        if pod is not None and not are_groups_enabled(features):
            tree = _at(tree, old, pod, _without_group)
        if pod is not None and not features.since(_PROJECTIONS_SINCE):
            tree = _at(tree, old, pod, _without_projections)
        return tree

    return drop


def _without_group(spec: Tree, old: Tree | None) -> Tree:
    if "schedulingGroup" not in spec or (old or {}).get("schedulingGroup") is not None:
        return spec
    return {name: value for name, value in spec.items() if name != "schedulingGroup"}


def _without_projections(spec: Tree, old: Tree | None) -> Tree:
    """A pod's spec without disabled sources in its projected volumes; all stay if it had one before."""
    if not _projections(spec) & _PROJECTIONS or _projections(old or {}) & _PROJECTIONS:
        return spec
    volumes = []
    for volume in spec["volumes"]:
        if sources := (volume.get("projected") or {}).get("sources"):
            kept = [{name: part for name, part in source.items() if name not in _PROJECTIONS} for source in sources]
            volume = {**volume, "projected": {**volume["projected"], "sources": kept}}
        volumes.append(volume)
    return {**spec, "volumes": volumes}


def _projections(spec: Tree) -> set[str]:
    volumes = [volume["projected"] for volume in spec.get("volumes") or () if volume.get("projected")]
    return {name for volume in volumes for source in volume.get("sources") or () for name in source}


def _at(tree: Tree, old: Any, path: Sequence[str], change: Callable[[Tree, Tree | None], Tree]) -> Tree:
    """``tree`` with the value at a path changed; unchanged if there is none."""
    if not path:
        return change(tree, old)
    value = tree.get(path[0])
    if not value:
        return tree
    changed = _at(value, (old or {}).get(path[0]), path[1:], change)
    return tree if changed is value else {**tree, path[0]: changed}
