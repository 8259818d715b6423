"""The rules for nodes of a pending pod: the changes of them, and of its claims, that make a node eligible.

Rules that state devices by labels, such as ``nvidia.com/gpu.product``, are moved into the claims for nodes without the
labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from allotment.cluster.cache import Cache
from allotment.engine.diagnosis.funnel import driver_of
from allotment.engine.refusal import SuggestedChange
from allotment.explanation.fixes import EligibilityFix, make_eligible
from allotment.explanation.moved_rules import MovedRules
from allotment.explanation.node_eligibility import EligibilityNode, daemon_node
from allotment.explanation.node_nearness import NamedHardware, by_nearness, named_hardware
from allotment.explanation.origin_mapping import owner_of, template_of
from allotment.explanation.references import REFERENCE_FIELDS
from allotment.explanation.replacement import named
from allotment.explanation.stated_hardware import stated_hardware
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.node_fit.nodes import UNSCHEDULABLE, CachedNode
from allotment.scheduler.attempt import SchedulingAlgorithm
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.reporting.pod_value import pod_of

#: Returns the nodes on which claims fit, as a bit mask of their indexes.
Fits = Callable[[Sequence[ResourceClaim]], int]


class NodeRules:
    """``moved``: with the pod and its pending claims. ``hardware``: that of the nodes which the rules name."""

    def __init__(
        self, moved: MovedRules, hardware: NamedHardware, machines: Mapping[str, CachedNode], fits: Fits
    ) -> None:
        self.pod = moved.pod
        self._moved = moved
        self._hardware = hardware
        self._machines = machines
        self._fits = fits
        self._where = template_of(self.pod, owner_of(self.pod))
        self._is_daemon = bool(daemon_node(self.pod))
        self._states_devices = bool(stated_hardware(self.pod))

    def groups(self, machines: Iterable[CachedNode]) -> list[list[EligibilityNode]]:
        """The nodes in groups that are equally near to the rules, nearest first."""
        return by_nearness(self.pod, map(eligibility_node, machines), self._hardware)

    def with_devices(self, machines: Iterable[CachedNode]) -> Iterator[EligibilityNode]:
        """The nodes, nearest first, without those that lack the devices that the rules state."""
        for group in self.groups(machines):
            claims = self._claims(group[0])
            if claims == self._moved.pending:
                yield from group
            else:
                fits = self._fits(claims)
                yield from (node for node in group if fits >> self._machines[node.facts.name].index & 1)

    def changes(self, node: EligibilityNode) -> tuple[SuggestedChange, ...]:
        """The changes that make a node eligible; empty if there are none."""
        found = self._made_eligible(node)
        return self._moved.changes(found.changes, found.pod)

    def claims(self, names: Sequence[str]) -> tuple[ResourceClaim, ...]:
        """The pending claims, with the conditions that the rules state by labels that nodes such as these lack."""
        return self._claims(eligibility_node(self._machines[names[0]])) if names else self._moved.pending

    def _claims(self, node: EligibilityNode) -> tuple[ResourceClaim, ...]:
        return self._moved.claims(self._made_eligible(node).pod) if self._states_devices else self._moved.pending

    def _made_eligible(self, node: EligibilityNode) -> EligibilityFix:
        return make_eligible(self.pod, node, self._where, self._is_daemon, self._hardware)


def eligibility_node(machine: CachedNode) -> EligibilityNode:
    """The properties of a node that rules refer to."""
    return EligibilityNode(machine.facts, machine.taints + ((UNSCHEDULABLE,) if machine.unschedulable else ()))


def rules_of(
    pod: QueuedPod,
    pending: tuple[ResourceClaim, ...],
    templates: Mapping[ObjectKey, str],
    algorithm: SchedulingAlgorithm,
    models: Callable[[], Mapping[str, frozenset[str]]],
    pods: Cache[Any],
) -> NodeRules:
    """The rules of a pod. ``pending``: its claims to allocate, with their ``templates``. ``models``: see
    `models_by_node`. ``pods``: all pods, which may use the same claims."""
    value, machines = pod_of(pod.tree), algorithm.machines
    extended = f"ResourceClaim {pod.key}-extended-resources"

    def driver(class_: str) -> str:
        found = algorithm.allocator.inventory.classes.get(class_)
        return driver_of(found, algorithm.features) if found is not None else ""

    def is_own(name: str) -> bool:
        return name != extended and _users(name, pods) <= {template_of(value, owner_of(value))[0]}

    def products() -> frozenset[str]:
        return frozenset(chain.from_iterable(models().values()))

    moved = MovedRules(value, pending, templates, driver, is_own, products)
    hardware = named_hardware(value, map(eligibility_node, machines), models)
    return NodeRules(moved, hardware, machines.by_name, lambda claims: algorithm.devices.of(claims).fits)


def _users(name: str, pods: Cache[Any]) -> set[str]:
    """The workloads and pods that name a claim or template."""
    kind, key = named(name)
    field, found = REFERENCE_FIELDS[kind], set()
    for item in pods.items():
        entries = item.tree["spec"].get("resourceClaims") or ()
        if item.namespace == key.namespace and any(entry.get(field) == key.name for entry in entries):
            user = pod_of(item.tree)
            found.add(template_of(user, owner_of(user))[0])
    return found
