"""Pod requirements on a node: resources, ports, selectors, affinity, tolerations; computed once for equal specs.

Amounts are integers: cpu in thousandths, everything else in units. `allotment.model.pod_resources` computes a pod's
requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, selects
from allotment.model.core import Container, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint
from allotment.model.node_selectors import NodeSelector
from allotment.model.pod_resources import claim_amounts, pod_requests, with_default_requests
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree, to_value, without_nulls

#: Requests that scores assume for a container without any, so that nodes do not fill up with such containers.
_SCORED: Final = {"cpu": Quantity.parse("100m"), "memory": Quantity.binary(200 * 1024 * 1024)}
_CLAIM_STATUSES: Final = "nodeAllocatableResourceClaimStatuses"
#: Maximum number of cached pod requirements.
_SHAPES: Final = 4096

_NANO: Final = 10**9
_MICRO: Final = 10**6


class HostPort(NamedTuple):
    """A host port of a pod."""

    ip: str
    protocol: str
    port: int

    def conflicts_with(self, other: HostPort) -> bool:
        """Return whether both ports conflict on one node; 0.0.0.0 is every address."""
        everywhere = "0.0.0.0"
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (self.ip == other.ip or everywhere in (self.ip, other.ip))
        )


class NodePreference(NamedTuple):
    """A preferred node affinity term with its weight."""

    weight: int
    term: NodeSelector


class WeightedAffinityTerm(NamedTuple):
    """A pod affinity term; ``weight`` is 0 if it is required, negative for anti-affinity."""

    term: PodAffinityTerm
    weight: int = 0


class RequestTotals(NamedTuple):
    """The total requests of a pod, and the cpu and memory that scores assume for it."""

    amounts: dict[str, int]
    scored_cpu: int
    scored_memory: int


class PodRequirements:
    """Requirements of equal pods. Compared by identity; `PodRequirementsCache` keeps one for equal specs."""

    __slots__ = (
        "affinity", "affinity_preferred", "anti_affinity", "anti_affinity_preferred", "containers", "extended",
        "node_selector", "ports", "preferences", "requests", "required", "scored_cpu", "scored_memory", "spec",
        "spread", "tolerations",
    )  # fmt: skip

    def __init__(self, spec: PodSpec, requests: RequestTotals) -> None:
        self.spec = spec
        self.requests, self.scored_cpu, self.scored_memory = requests
        self.extended: tuple[str, ...] = tuple(sorted(name for name, n in self.requests.items() if n and "/" in name))
        self.ports: tuple[HostPort, ...] = tuple(_ports(spec))
        self.node_selector: tuple[tuple[str, str], ...] = tuple(spec.node_selector.items())
        self.tolerations: tuple[Toleration, ...] = spec.tolerations
        self.spread: tuple[TopologySpreadConstraint, ...] = spec.topology_spread_constraints
        node = spec.affinity.node_affinity if spec.affinity is not None else None
        self.required: NodeSelector | None = (
            node.required_during_scheduling_ignored_during_execution if node is not None else None
        )
        self.preferences: tuple[NodePreference, ...] = tuple(
            NodePreference(p.weight, NodeSelector(node_selector_terms=(p.preference,)))
            for p in (node.preferred_during_scheduling_ignored_during_execution if node is not None else ())
            if p.weight
        )
        near = spec.affinity.pod_affinity if spec.affinity is not None else None
        far = spec.affinity.pod_anti_affinity if spec.affinity is not None else None
        self.affinity = _required(near.required_during_scheduling_ignored_during_execution if near else ())
        self.anti_affinity = _required(far.required_during_scheduling_ignored_during_execution if far else ())
        self.affinity_preferred = tuple(
            WeightedAffinityTerm(t.pod_affinity_term, t.weight)
            for t in (near.preferred_during_scheduling_ignored_during_execution if near else ())
        )
        self.anti_affinity_preferred = tuple(
            WeightedAffinityTerm(t.pod_affinity_term, -t.weight)
            for t in (far.preferred_during_scheduling_ignored_during_execution if far else ())
        )

    def with_placement_of(self, spec: PodSpec) -> PodRequirements:
        """Return requirements with the same amounts and the node constraints of another spec."""
        return PodRequirements(spec, RequestTotals(self.requests, self.scored_cpu, self.scored_memory))

    @property
    def depends_on_other_pods(self) -> bool:
        """Whether the placement depends on other pods: topology spread, pod affinity or anti-affinity."""
        return bool(self.spread) or self.has_pod_affinity

    @property
    def has_pod_affinity(self) -> bool:
        """Whether the pod has affinity or anti-affinity terms, which then apply to the matching pods, too."""
        return bool(self.affinity or self.anti_affinity or self.affinity_preferred or self.anti_affinity_preferred)

    @property
    def may_fit_after_other_pods(self) -> bool:
        """Whether another pod's placement can make the pod fit: by required affinity or by evening out a hard spread.

        Kubernetes retries such pods when other pods are added (queueing hints). For all others, added pods only use
        resources.
        """
        return bool(self.affinity) or any(
            constraint.when_unsatisfiable == "DoNotSchedule" for constraint in self.spread
        )

    def named_nodes(self) -> tuple[str, ...] | None:
        """Return the only nodes that the pod's affinity names (pods of a DaemonSet), or None if it names none."""
        if self.required is None:
            return None
        names: list[str] = []
        for term in self.required.node_selector_terms:
            sets = [set(f.values) for f in term.match_fields if f.key == "metadata.name" and f.operator == "In"]
            if not sets:
                return None
            names += sorted(set.intersection(*sets))
        return tuple(dict.fromkeys(names)) if self.required.node_selector_terms else None


class PodRequirementsCache:
    """Interns pod requirements by the spec fields from which they are computed."""

    def __init__(self) -> None:
        self._known: dict[bytes, PodRequirements] = {}
        self._encoder = msgspec.json.Encoder()

    def of(self, spec: Tree, status: Tree | None = None) -> PodRequirements:
        """Return the requirements of a pod. ``status``: of an assigned pod, which may have a resize in progress, and
        devices that use cpu or memory of the node.
        """
        get = spec.get
        devices = claim_amounts(status) if status and status.get(_CLAIM_STATUSES) else {}
        resized = _resized(spec, status, devices) if status else None
        key = self._encoder.encode(
            (
                [(c.get("resources"), c.get("ports")) for c in get("containers") or ()],
                [(c.get("resources"), c.get("ports"), c.get("restartPolicy")) for c in get("initContainers") or ()],
                get("nodeSelector"),
                get("affinity"),
                get("tolerations"),
                get("topologySpreadConstraints"),
                get("overhead"),
                get("resources"),
                resized,
                {name: amount.nano for name, amount in devices.items()},
            )
        )
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _SHAPES:
                self._known.clear()
            read = _read_only(spec)
            found = self._known[key] = PodRequirements(
                to_value(read, PodSpec), resized or _requests(read, devices=devices)
            )
        return found


_STATUSES: Final = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))
_PARTS: Final = (
    "initContainers", "containers", "nodeSelector", "affinity", "tolerations", "overhead",
    "topologySpreadConstraints", "resources",
)  # fmt: skip


def _read_only(spec: Tree) -> Tree:
    """Return the fields that are read, without the nulls that Kubernetes prints for some unset lists."""
    found: Tree = without_nulls({name: spec[name] for name in _PARTS if spec.get(name) is not None})
    return found


def _required(terms: Iterable[PodAffinityTerm]) -> tuple[WeightedAffinityTerm, ...]:
    return tuple(map(WeightedAffinityTerm, terms))


def amount(name: str, quantity: Quantity) -> int:
    """Return a quantity as an integer: thousandths of a cpu, units of other resources, rounded up.

    >>> amount("cpu", Quantity.parse("1500m")), amount("memory", Quantity.parse("1Ki"))
    (1500, 1024)
    """
    return -(-quantity.nano // (_MICRO if name == "cpu" else _NANO))


def amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Convert each quantity with `amount`."""
    return {name: amount(name, quantity) for name, quantity in quantities.items()}


def _requests(spec: Tree, status: Tree | None = None, devices: Mapping[str, Quantity] = {}) -> RequestTotals:
    """Return the requests of a spec that may come from a file, without the API server's defaults."""
    spec = with_default_requests(spec)
    requests = amounts(pod_requests(spec, status, devices=devices))
    scored = amounts(pod_requests(spec, status, missing=_SCORED, devices=devices))
    return RequestTotals({name: n for name, n in requests.items() if n}, scored.get("cpu", 0), scored.get("memory", 0))


def _resized(spec: Tree, status: Tree, devices: Mapping[str, Quantity]) -> RequestTotals | None:
    """Return the requests of a pod whose status differs from its spec (resize), or None if they agree."""
    if status.get("resources") is None and not any(
        container_status.get("resources") is not None and _differs(container_status, container)
        for part, statuses in _STATUSES
        for container_status in status.get(statuses) or ()
        for container in spec.get(part) or ()
        if container.get("name") == container_status.get("name")
    ):
        return None
    now = _requests(spec, status, devices)
    return now if now != _requests(spec, devices=devices) else None


def _differs(status: Tree, container: Tree) -> bool:
    """Return whether the requests in a container's status are not literally those of its spec."""
    spec = (container.get("resources") or {}).get("requests") or {}
    return (status["resources"].get("requests") or {}) != spec or (status.get("allocatedResources") or spec) != spec


def _ports(spec: PodSpec) -> Iterable[HostPort]:
    sidecars: list[Container] = [c for c in spec.init_containers if c.restart_policy == "Always"]
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                yield HostPort(port.host_ip or "0.0.0.0", port.protocol, port.host_port)


def selector_matches(selector: NodeSelector, facts: NodeFacts) -> bool:
    """Return whether a node selector matches a node. An invalid selector matches none."""
    try:
        return selects(selector, facts)
    except UnusableNodeSelector:
        return False
