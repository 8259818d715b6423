"""Fields of an existing pod, or of a Job's pod template, that a manifest changes although no update may change them.

Only fields about devices and nodes are compared: the others do not decide whether a pod gets its devices. Amounts that
only the cluster has are from admission, such as the requests of a LimitRange.
"""

from __future__ import annotations

from collections.abc import Mapping

from allotment.explanation.extended_requests import is_extended
from allotment.explanation.subjects import pod_spec_of
from allotment.model.core import Container, Pod, PodSpec
from allotment.model.loading.marks import Path
from allotment.model.quantity import Quantity
from allotment.model.workloads import Job
from allotment.tools.views import PodView


def changed_field(view: PodView, written: Pod | Job, stored: Pod | Job) -> Path | None:
    """The first immutable field of the pod spec in which the manifest differs from the stored object; None if there is
    none.
    """
    new, old = pod_spec_of(written), pod_spec_of(stored)
    if new.resource_claims != old.resource_claims:
        return (*view.spec, "resourceClaims")
    if new.node_selector != old.node_selector and not _may_move(stored):
        return (*view.spec, "nodeSelector")
    existing = {container.name: container for container in _containers(old)}
    paths = {container.name: container.path for container in view.containers}
    for container in _containers(new):
        before = existing.get(container.name)
        path = paths.get(container.name)
        if before is None or path is None:
            return (*view.spec, "containers")
        if _differ(container, before):
            return (*path, "resources")
    return (*view.spec, "containers") if len(existing) > len(_containers(new)) else None


def _may_move(stored: Pod | Job) -> bool:
    """Whether the rules for nodes may still change: the pod is gated, or the Job is suspended."""
    return bool(stored.spec.suspend if isinstance(stored, Job) else stored.spec.scheduling_gates)


def _containers(spec: PodSpec) -> tuple[Container, ...]:
    return (*spec.init_containers, *spec.containers)


def _differ(new: Container, old: Container) -> bool:
    limits, before = new.resources.limits, old.resources.limits
    return (
        new.resources.claims != old.resources.claims
        or _extended(limits) != _extended(before)
        or not _contains(before, limits)
        or not _contains(old.resources.requests, new.resources.requests)
    )


def _contains(old: Mapping[str, Quantity], new: Mapping[str, Quantity]) -> bool:
    return all(old.get(name) == amount for name, amount in new.items())


def _extended(amounts: Mapping[str, Quantity]) -> set[str]:
    return {name for name in amounts if is_extended(name)}
