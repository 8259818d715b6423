"""Requirements that the simulation assumes to be met, because the input does not describe them.

``nodeSelector: {pool: gpu}`` would exclude every machine of a fleet, before and after the migration; so would a network
card's resource or an existing claim of the pod. They are removed from the pods and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from allotment.model.core import Container, Pod, PodSpec, Toleration
from allotment.model.meta import Object
from allotment.model.node_selectors import NodeSelector, NodeSelectorTerm
from allotment.model.quantity import Quantity
from allotment.model.trees import to_value
from allotment.model.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from allotment.tools.migrate.label_translation import translate_term
from allotment.tools.migrate.plugin_requests import Term, WorkloadRequests
from allotment.tools.migrate.request_mapping import devices_of
from allotment.tools.migrate.resource_names import vendor_of
from allotment.tools.migrate.target import Target
from allotment.tools.migrate.tolerations import toleration, tolerations_from_admission
from allotment.tools.views import EntryView


class Assumptions(NamedTuple):
    """A workload's requirements that are assumed to be met: labels, other resources, and existing claims.

    ``tolerations``: taints that its pods tolerate by admission while they request the resource.
    """

    terms: tuple[Term, ...] = ()
    resources: tuple[str, ...] = ()
    claims: tuple[EntryView, ...] = ()
    tolerations: tuple[str, ...] = ()

    def descriptions(self) -> Iterator[str]:
        """Each assumption as text."""
        yield from map(str, self.terms)
        yield from self.resources
        for entry in self.claims:
            yield f"{'claim' if entry.kind == 'ResourceClaim' else 'template'} {entry.refers_to}"


def assumptions_of(
    workload: WorkloadRequests, target: Target, labels: Collection[str] | None, is_known: Callable[[EntryView], bool]
) -> Assumptions:
    """The requirements of a workload that are independent of GPU device plugins.

    ``labels``: all labels of a fleet's machines; None for a cluster, whose node labels are complete. ``is_known``:
    whether a claim's devices are known.
    """
    terms = unknown_terms(workload, labels) if labels is not None else ()
    names = (name for container in workload.view.containers for name in (*container.limits, *container.requests))
    claims = tuple(entry for entry in workload.view.entries if not is_known(entry))
    others = tuple(dict.fromkeys(name for name in names if _is_others(name)))
    return Assumptions(terms, others, claims, tolerations_from_admission(workload, target))


def unknown_terms(workload: WorkloadRequests, known: Iterable[str]) -> tuple[Term, ...]:
    """The requirements on labels that no machine of a fleet has, except those that select a known GPU model."""
    if not workload.requests:
        return ()
    keys = frozenset(known)
    everything = (*workload.selector, *(term for terms in workload.affinity for term in terms))
    devices = devices_of(workload.requests[0])
    return tuple(term for term in everything if term.key not in keys and not translate_term(term, devices).expression)


def _is_others(name: str) -> bool:
    """Whether a resource is an extended resource other than a GPU."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not domain.endswith("kubernetes.io") and vendor_of(name) is None


def relaxed(value: Object, assumed: Assumptions) -> Object:
    """The workload without the assumed requirements."""
    return _with_spec(value, lambda spec: _relaxed_spec(spec, assumed)) if any(assumed) else value


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


def _relaxed_spec(spec: PodSpec, assumed: Assumptions) -> PodSpec:
    keys = frozenset(term.key for term in assumed.terms)
    selector: Mapping[str, str] = {key: value for key, value in spec.node_selector.items() if key not in keys}
    affinity = spec.affinity
    if keys and affinity is not None and affinity.node_affinity is not None:
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            terms = _terms(required, keys)
            left = replace(required, node_selector_terms=terms) if terms else None
            nodes = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=left)
            affinity = replace(affinity, node_affinity=nodes)
    claims = frozenset(entry.name for entry in assumed.claims)
    return replace(
        spec,
        node_selector=dict(selector),
        affinity=affinity,
        tolerations=(*spec.tolerations, *(to_value(toleration(key), Toleration) for key in assumed.tolerations)),
        resource_claims=tuple(entry for entry in spec.resource_claims if entry.name not in claims),
        containers=tuple(_container(container, assumed.resources, claims) for container in spec.containers),
        init_containers=tuple(_container(container, assumed.resources, claims) for container in spec.init_containers),
    )


def _container(container: Container, resources: Collection[str], claims: Collection[str]) -> Container:
    def left(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
        return {name: amount for name, amount in amounts.items() if name not in resources}

    had = container.resources
    uses = tuple(use for use in had.claims if use.name not in claims)
    return replace(container, resources=replace(had, limits=left(had.limits), requests=left(had.requests), claims=uses))


def _terms(required: NodeSelector, keys: frozenset[str]) -> tuple[NodeSelectorTerm, ...]:
    """The terms without these labels; empty if one of them would then match every node."""
    found = []
    for term in required.node_selector_terms:
        left = tuple(requirement for requirement in term.match_expressions if requirement.key not in keys)
        if not left and term.match_expressions and not term.match_fields:
            return ()
        found.append(replace(term, match_expressions=left))
    return tuple(found)
