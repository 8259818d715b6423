"""What a fleet says nothing of, and is taken as given: labels that somebody sets on nodes by hand.

``nodeSelector: {pool: gpu}`` would keep a pod from every machine of a fleet, before and after alike. Nothing would be
learned, so such requirements are left out on both sides, and told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from allotment.model.core import Pod, PodSpec
from allotment.model.meta import Object
from allotment.model.selection import NodeSelector, NodeSelectorTerm
from allotment.model.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from allotment.tools.migrate.asking import Term, WorkloadAsk
from allotment.tools.migrate.kinds import devices_of
from allotment.tools.migrate.labels import translated


def unknown_terms(workload: WorkloadAsk, known: Iterable[str]) -> tuple[Term, ...]:
    """The requirements on labels that no machine of a fleet has, unless it is known which GPU they mean."""
    keys = frozenset(known)
    everything = (*workload.selector, *(term for terms in workload.affinity for term in terms))
    if not workload.asks:
        return ()
    devices = devices_of(workload.asks[0])
    return tuple(term for term in everything if term.key not in keys and not translated(term, devices).expression)


def without(value: Object, keys: frozenset[str]) -> Object:
    """A workload whose pods demand nothing of labels of these names."""
    if not keys:
        return value
    return _with_spec(value, lambda spec: _free(spec, keys))


def _with_spec(value: Object, changed: Callable[[PodSpec], PodSpec]) -> Object:
    if isinstance(value, Pod):
        return replace(value, spec=changed(value.spec))
    if isinstance(value, CronJob):
        job = value.spec.job_template
        template = replace(job.spec.template, spec=changed(job.spec.template.spec))
        return replace(
            value, spec=replace(value.spec, job_template=replace(job, spec=replace(job.spec, template=template)))
        )
    if isinstance(value, Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job):
        template = replace(value.spec.template, spec=changed(value.spec.template.spec))
        return replace(value, spec=replace(value.spec, template=template))
    return value


def _free(spec: PodSpec, keys: frozenset[str]) -> PodSpec:
    selector: Mapping[str, str] = {key: value for key, value in spec.node_selector.items() if key not in keys}
    affinity = spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            terms = _terms(required, keys)
            left = replace(required, node_selector_terms=terms) if terms else None
            nodes = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=left)
            affinity = replace(affinity, node_affinity=nodes)
    return replace(spec, node_selector=dict(selector), affinity=affinity)


def _terms(required: NodeSelector, keys: frozenset[str]) -> tuple[NodeSelectorTerm, ...]:
    """The terms without these labels; none at all where one of them would then be met by every node."""
    found = []
    for term in required.node_selector_terms:
        left = tuple(one for one in term.match_expressions if one.key not in keys)
        if not left and term.match_expressions and not term.match_fields:
            return ()
        found.append(replace(term, match_expressions=left))
    return tuple(found)
