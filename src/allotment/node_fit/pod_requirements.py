"""What a pod asks of its node, worked out once for all pods with equal specs.

Amounts are plain integers: cpu in thousandths, everything else in units. The sum is Kubernetes' own (KEP-753,
KEP-2837): containers and sidecars run together, init containers one after the other beside the sidecars started before
them, and what the pod asks as a whole replaces the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, selects
from allotment.model.core import ResourceRequirements, Toleration
from allotment.model.node_selectors import NodeSelector
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree, to_value, without_nulls
from allotment.node_fit.podspec import Container, PodAffinityTerm, PodSpec, TopologySpreadConstraint

Amounts = Mapping[str, int]

#: What a container counts for in scores when it does not say, so that nodes do not fill with silent ones.
_SCORED_CPU: Final = 100
_SCORED_MEMORY: Final = 200 * 1024 * 1024
#: Shapes that are kept.
_SHAPES: Final = 4096

_NANO: Final = 10**9
_MICRO: Final = 10**6


class HostPort(NamedTuple):
    """A port that a pod takes on its node."""

    ip: str
    protocol: str
    port: int

    def clashes(self, other: HostPort) -> bool:
        """Whether both cannot be on one node; 0.0.0.0 is every address."""
        everywhere = "0.0.0.0"
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (self.ip == other.ip or everywhere in (self.ip, other.ip))
        )


class Preference(NamedTuple):
    """A node term with its weight."""

    weight: int
    term: NodeSelector


class Neighbour(NamedTuple):
    """A pod affinity term; ``weight`` 0 where it is required."""

    term: PodAffinityTerm
    weight: int = 0


class Demand:
    """What equal pods ask. Compared by identity; `Demands` keeps one for each shape."""

    __slots__ = (
        "anti_affinity", "anti_preferred", "affinity", "affinity_preferred", "containers", "extended", "node_selector",
        "ports", "preferences", "required", "requests", "scored_cpu", "scored_memory", "spec", "spread", "tolerations",
    )  # fmt: skip

    def __init__(self, spec: PodSpec) -> None:
        self.spec = spec
        self.requests: dict[str, int] = _requests(spec)
        scored = _requests(spec, scored=True)
        self.scored_cpu = scored.get("cpu", 0)
        self.scored_memory = scored.get("memory", 0)
        self.extended: tuple[str, ...] = tuple(sorted(name for name, n in self.requests.items() if n and "/" in name))
        self.ports: tuple[HostPort, ...] = tuple(_ports(spec))
        self.node_selector: tuple[tuple[str, str], ...] = tuple(spec.node_selector.items())
        self.tolerations: tuple[Toleration, ...] = spec.tolerations
        self.spread: tuple[TopologySpreadConstraint, ...] = spec.topology_spread_constraints
        node = spec.affinity.node_affinity if spec.affinity is not None else None
        self.required: NodeSelector | None = (
            node.required_during_scheduling_ignored_during_execution if node is not None else None
        )
        self.preferences: tuple[Preference, ...] = tuple(
            Preference(p.weight, NodeSelector(node_selector_terms=(p.preference,)))
            for p in (node.preferred_during_scheduling_ignored_during_execution if node is not None else ())
            if p.weight
        )
        near = spec.affinity.pod_affinity if spec.affinity is not None else None
        far = spec.affinity.pod_anti_affinity if spec.affinity is not None else None
        self.affinity = _required(near.required_during_scheduling_ignored_during_execution if near else ())
        self.anti_affinity = _required(far.required_during_scheduling_ignored_during_execution if far else ())
        self.affinity_preferred = tuple(
            Neighbour(t.pod_affinity_term, t.weight)
            for t in (near.preferred_during_scheduling_ignored_during_execution if near else ())
        )
        self.anti_preferred = tuple(
            Neighbour(t.pod_affinity_term, -t.weight)
            for t in (far.preferred_during_scheduling_ignored_during_execution if far else ())
        )

    @property
    def social(self) -> bool:
        """Whether other pods decide where this one may or should go."""
        return bool(self.spread) or self.has_neighbours

    @property
    def has_neighbours(self) -> bool:
        """Whether the pod says anything of other pods, which then counts for them, too."""
        return bool(self.affinity or self.anti_affinity or self.affinity_preferred or self.anti_preferred)

    @property
    def waits_for_others(self) -> bool:
        """Whether others could let the pod onto a node by coming: some that it must be near, or that even out a spread.

        Kubernetes tries such a pod again after others (its queueing hints). Everybody else only loses by who comes.
        """
        return bool(self.affinity) or any(one.when_unsatisfiable == "DoNotSchedule" for one in self.spread)

    def named_nodes(self) -> tuple[str, ...] | None:
        """The only nodes that the pod's affinity names (pods of a DaemonSet), ``None`` if it does not do so."""
        if self.required is None:
            return None
        names: list[str] = []
        for term in self.required.node_selector_terms:
            sets = [set(f.values) for f in term.match_fields if f.key == "metadata.name" and f.operator == "In"]
            if not sets:
                return None
            names += sorted(set.intersection(*sets))
        return tuple(dict.fromkeys(names)) if self.required.node_selector_terms else None


class Demands:
    """Interns demands by the parts of the spec that they are made of."""

    def __init__(self) -> None:
        self._known: dict[bytes, Demand] = {}
        self._encoder = msgspec.json.Encoder()

    def of(self, spec: Tree) -> Demand:
        """The demand of a pod's spec."""
        get = spec.get
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
            )
        )
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _SHAPES:
                self._known.clear()
            found = self._known[key] = Demand(to_value(_read_only(spec), PodSpec))
        return found


_PARTS: Final = (
    "initContainers", "containers", "nodeSelector", "affinity", "tolerations", "overhead",
    "topologySpreadConstraints", "resources",
)  # fmt: skip


def _read_only(spec: Tree) -> Tree:
    """The parts that are read, without the nulls that Kubernetes prints for some unset lists."""
    found: Tree = without_nulls({name: spec[name] for name in _PARTS if spec.get(name) is not None})
    return found


def _required(terms: Iterable[PodAffinityTerm]) -> tuple[Neighbour, ...]:
    return tuple(map(Neighbour, terms))


def amount(name: str, quantity: Quantity) -> int:
    """A quantity as an integer: thousandths of a cpu, units of the rest, rounded up.

    >>> amount("cpu", Quantity.parse("1500m")), amount("memory", Quantity.parse("1Ki"))
    (1500, 1024)
    """
    return -(-quantity.nano // (_MICRO if name == "cpu" else _NANO))


def amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """`amount` of each."""
    return {name: amount(name, quantity) for name, quantity in quantities.items()}


def _asked(resources: ResourceRequirements, scored: bool) -> dict[str, int]:
    found = amounts(resources.requests)
    # The API server sets requests from limits; what comes from elsewhere is read the same way.
    for name, quantity in resources.limits.items():
        found.setdefault(name, amount(name, quantity))
    if scored:
        found.setdefault("cpu", _SCORED_CPU)
        found.setdefault("memory", _SCORED_MEMORY)
    return found


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, n in more.items():
        total[name] = total.get(name, 0) + n


def _requests(spec: PodSpec, scored: bool = False) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in spec.containers:
        _add(total, _asked(container.resources, scored))
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in spec.init_containers:
        asked = _asked(container.resources, scored)
        if container.restart_policy == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            asked = sidecars
        else:
            _add(asked, sidecars)
        for name, n in asked.items():
            most[name] = max(most.get(name, 0), n)
    for name, n in most.items():
        total[name] = max(total.get(name, 0), n)
    if spec.resources is not None:
        total.update(_asked(spec.resources, scored=False))
    _add(total, amounts(spec.overhead))
    return {name: n for name, n in total.items() if n}


def _ports(spec: PodSpec) -> Iterable[HostPort]:
    sidecars: list[Container] = [c for c in spec.init_containers if c.restart_policy == "Always"]
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                yield HostPort(port.host_ip or "0.0.0.0", port.protocol, port.host_port)


def admits(selector: NodeSelector, facts: NodeFacts) -> bool:
    """Whether a node selector matches a node; one that cannot be read matches none."""
    try:
        return selects(selector, facts)
    except UnusableNodeSelector:
        return False
