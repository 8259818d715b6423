"""Whose pods are tried: each workload that asks a device plugin, with its pods before and after.

The same workload makes pods of the same names on both sides, so they can be compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from allotment.model.core import Pod
from allotment.model.decoding import Manifest, decode_all
from allotment.model.loading import Document
from allotment.model.meta import Object
from allotment.model.replicas import pods_of
from allotment.model.workloads import DaemonSet
from allotment.tools.migrate.asking import Ask, WorkloadAsk
from allotment.tools.migrate.reading import workloads_of
from allotment.tools.migrate.report import Migrated, Migration
from allotment.tools.migrate.simulation.tried import name_of
from allotment.tools.views import mapping

#: More pods than anybody would want to see tried.
MOST_PODS = 20_000


class Subject(NamedTuple):
    """One workload. ``wants``: what each of its pods wants of device plugins. ``daemon``: one pod on each node.

    ``untried``: why it cannot be tried; then there are no pods.
    """

    migrated: Migrated
    wants: tuple[Ask, ...]
    before: tuple[Pod, ...] = ()
    after: tuple[Pod, ...] = ()
    daemon: bool = False
    untried: str = ""

    @property
    def stays(self) -> bool:
        """Whether it stays with the device plugin."""
        return self.migrated.decision.outcome in ("leave", "cannot")


def subjects_of(
    migration: Migration, nodes: Iterable[str], adapted: Callable[[WorkloadAsk, Object], Object]
) -> tuple[Subject, ...]:
    """The workloads in the order of the files; ``adapted`` takes out of one what cannot be tried on the nodes."""
    names = tuple(nodes)
    asks = workloads_of(migration.before, migration.target, migration.namespace)
    before = {id(manifest.document): manifest for manifest in decode_all(migration.before, strict=False).manifests}
    after = _by_identity(migration.after, migration.namespace)
    taken: set[str] = set()
    found = []
    for one, ask in zip(migration.workloads, asks, strict=True):
        manifest = before.get(id(ask.view.document))
        if manifest is None or not isinstance(manifest.value, Object) or not one.name:
            found.append(Subject(one, (), untried="it is no whole manifest of a kind that makes pods"))
            continue
        other = after.get((one.kind, one.namespace, one.name), manifest)
        old, new = (
            pods_of(adapted(ask, _in(value, one.namespace)), nodes=names, limit=MOST_PODS)
            for value in (manifest.value, other.value)
            if isinstance(value, Object)
        )
        if len(taken) + len(old) > MOST_PODS:
            found.append(Subject(one, (), untried=f"more than {MOST_PODS} pods are not tried"))
            continue
        suffix = "" if taken.isdisjoint(map(name_of, (*old, *new))) else f"-{one.kind.lower()}"
        old, new = (tuple(_called(pod, pod.metadata.name + suffix) for pod in pods) for pods in (old, new))
        taken.update(map(name_of, (*old, *new)))
        found.append(Subject(one, wants_of(ask), old, new, isinstance(manifest.value, DaemonSet)))
    return tuple(found)


def _called(pod: Pod, name: str) -> Pod:
    """A pod by another name: those of two workloads of one name (a Deployment, a StatefulSet) would be one."""
    return replace(pod, metadata=replace(pod.metadata, name=name))


def _by_identity(documents: Iterable[Document], namespace: str) -> Mapping[tuple[str, str, str], Manifest]:
    found: dict[tuple[str, str, str], Manifest] = {}
    for one in decode_all(documents, strict=False).manifests:
        if isinstance(one.value, Object):
            written = mapping(one.document.tree.get("metadata")).get("namespace")
            found.setdefault((one.kind, one.key.namespace if written else namespace, one.key.name), one)
    return found


def _in(value: Object, namespace: str) -> Object:
    """The object in the namespace that it is applied to."""
    return replace(value, metadata=replace(value.metadata, namespace=namespace))


def wants_of(workload: WorkloadAsk) -> tuple[Ask, ...]:
    """What a pod wants in all. What init containers ask before the others start counts only as far as it is more."""
    staying: dict[Ask, int] = {}
    before: dict[Ask, int] = {}
    for container in workload.containers:
        for ask in container.asks:
            one = replace(ask, count=0)
            if container.role == "init":
                before[one] = max(before.get(one, 0), ask.count)
            else:
                staying[one] = staying.get(one, 0) + ask.count
    return tuple(
        replace(ask, count=max(staying.get(ask, 0), before.get(ask, 0))) for ask in dict.fromkeys((*staying, *before))
    )
