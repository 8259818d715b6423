"""The simulated workloads, with their pods before and after the migration.

A workload's pods have the same names before and after, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from allotment.model.core import Pod, PodSpec
from allotment.model.decoding import Manifest, decode_all
from allotment.model.fields import shape_of
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import Object, ObjectMeta
from allotment.model.quantity import QuantityError
from allotment.model.strict_decoding import strict_decode
from allotment.model.trees import to_value
from allotment.model.workload_pods import pods_of
from allotment.model.workloads import Job
from allotment.tools.migrate.plugin_requests import GENERATED, PluginRequest, WorkloadRequests
from allotment.tools.migrate.report import MigratedWorkload, Migration
from allotment.tools.migrate.simulation.trial_result import name_of
from allotment.tools.migrate.workload_reader import workloads_of
from allotment.tools.views import PodView, mapping, pod_views


def pods_of_part(view: PodView, namespace: str, limit: int) -> tuple[Pod, ...]:
    """The concurrent pods of a part, at most ``limit``; empty if the spec is invalid."""
    spec = _spec(view)
    if spec is None:
        return ()
    stem = "-".join(word for word in (view.key.name, view.part) if word) or "pod"
    names = (f"{stem}-{number}" for number in range(min(view.replicas, limit)))
    return tuple(Pod(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec) for name in names)


def _spec(view: PodView) -> PodSpec | None:
    shape = shape_of("v1", "Pod")
    assert shape is not None
    checked = strict_decode({"apiVersion": "v1", "kind": "Pod", "spec": view.tree}, "v1", "Pod", shape)
    if any(misfit.category != "unknown" for misfit in checked.violations):
        return None
    try:
        return to_value(checked.tree.get("spec") or {}, PodSpec)
    except (msgspec.ValidationError, QuantityError):
        return None


#: The maximum number of simulated pods.
MOST_PODS = 20_000


class SimulatedWorkload(NamedTuple):
    """One workload. ``wants``: the device plugin requests of each pod. ``daemon``: one pod on each node.

    ``untried``: why it is not simulated; it then has no pods.
    """

    migrated: MigratedWorkload
    wants: tuple[PluginRequest, ...]
    before: tuple[Pod, ...] = ()
    after: tuple[Pod, ...] = ()
    daemon: bool = False
    untried: str = ""

    @property
    def stays(self) -> bool:
        """Whether the workload stays with the device plugin."""
        return self.migrated.decision.outcome in ("leave", "cannot")


def subjects_of(
    migration: Migration, nodes: Iterable[str], adapted: Callable[[WorkloadRequests, Object], Object]
) -> tuple[SimulatedWorkload, ...]:
    """The workloads in the order of the files; ``adapted`` removes requirements that cannot be simulated."""
    sides = _Sides(migration, tuple(nodes), adapted)
    requests = workloads_of(migration.before, migration.target, migration.namespace)
    taken: set[str] = set()
    found = []
    for workload, request in zip(migration.workloads, requests, strict=True):
        old, new, untried = sides.of(workload, request)
        if len(taken) + len(old) > MOST_PODS:
            untried = f"at most {MOST_PODS} pods are simulated"
        if untried:
            found.append(SimulatedWorkload(workload, (), untried=untried))
            continue
        suffix = "" if taken.isdisjoint(map(name_of, (*old, *new))) else f"-{workload.kind.lower()}"
        old, new = (tuple(_called(pod, pod.metadata.name + suffix) for pod in pods) for pods in (old, new))
        taken.update(map(name_of, (*old, *new)))
        found.append(
            SimulatedWorkload(
                workload, wants_of(request), old, new, workload.kind == "DaemonSet" and not workload.custom
            )
        )
    return tuple(found)


class _Sides:
    """Creates the pods of a workload before and after, or gives the reason why it is not simulated."""

    def __init__(
        self, migration: Migration, nodes: tuple[str, ...], adapted: Callable[[WorkloadRequests, Object], Object]
    ) -> None:
        self._nodes, self._adapted = nodes, adapted
        self._before = {
            id(manifest.document): manifest for manifest in decode_all(migration.before, strict=False).manifests
        }
        self._after = _by_identity(migration.after, migration.namespace)
        views = [view for document in migration.after for view in pod_views(document, migration.namespace)]
        self._parts = {_part_of(view): view for view in views if view.custom}

    def of(self, workload: MigratedWorkload, request: WorkloadRequests) -> tuple[tuple[Pod, ...], tuple[Pod, ...], str]:
        """The pods before and after, and the reason if there are none; for custom kinds, the pods of the part."""
        if not request.requests:
            return (), (), "its device requests are unknown"
        if request.bare:
            return (), (), "it has no pod template"
        if workload.custom:
            after = self._parts.get(_part_of(request.view), request.view)
            old, new = (self._of_part(view, request) for view in (request.view, after))
            return old, new, "" if old and new else "it has no pods, or they are invalid"
        manifest = self._before.get(id(request.view.document))
        if manifest is None or not isinstance(manifest.value, Object) or not workload.name:
            return (), (), "its manifest is invalid, or its kind creates no pods"
        migrated = self._after.get((workload.kind, workload.namespace, workload.name.rstrip(GENERATED)), manifest)
        if not isinstance(migrated.value, Object):
            migrated = manifest
        both = (value for value in (manifest.value, migrated.value) if isinstance(value, Object))
        values = (_started(_in(value, workload.namespace)) for value in both)
        old, new = (pods_of(self._adapted(request, value), nodes=self._nodes, limit=MOST_PODS) for value in values)
        return old, new, ""

    def _of_part(self, view: PodView, request: WorkloadRequests) -> tuple[Pod, ...]:
        pods = (self._adapted(request, pod) for pod in pods_of_part(view, request.view.key.namespace, MOST_PODS))
        return tuple(pod for pod in pods if isinstance(pod, Pod))


def _part_of(view: PodView) -> tuple[str, str, str, Path]:
    return (view.kind, view.key.namespace, view.key.name, view.spec)


def _called(pod: Pod, name: str) -> Pod:
    """The pod renamed: the pods of two workloads with the same name (Deployment, StatefulSet) would collide."""
    return replace(pod, metadata=replace(pod.metadata, name=name))


def _started(value: Object) -> Object:
    """A suspended Job as it is after it is resumed; a suspended Job has no pods."""
    if isinstance(value, Job) and value.spec.suspend:
        return replace(value, spec=replace(value.spec, suspend=False))
    return value


def _by_identity(documents: Iterable[Document], namespace: str) -> Mapping[tuple[str, str, str], Manifest]:
    found: dict[tuple[str, str, str], Manifest] = {}
    for manifest in decode_all(documents, strict=False).manifests:
        if isinstance(manifest.value, Object):
            written = mapping(manifest.document.tree.get("metadata")).get("namespace")
            found.setdefault(
                (manifest.kind, manifest.key.namespace if written else namespace, manifest.key.name), manifest
            )
    return found


def _in(value: Object, namespace: str) -> Object:
    """The object in the namespace that it is applied to."""
    return replace(value, metadata=replace(value.metadata, namespace=namespace))


def wants_of(workload: WorkloadRequests) -> tuple[PluginRequest, ...]:
    """The total requests of a pod: the maximum of its init containers' and its other containers' requests."""
    staying: dict[PluginRequest, int] = {}
    before: dict[PluginRequest, int] = {}
    for container in workload.containers:
        for request in container.requests:
            unit = replace(request, count=0)
            if container.role == "init":
                before[unit] = max(before.get(unit, 0), request.count)
            else:
                staying[unit] = staying.get(unit, 0) + request.count
    return tuple(
        replace(request, count=max(staying.get(request, 0), before.get(request, 0)))
        for request in dict.fromkeys((*staying, *before))
    )
