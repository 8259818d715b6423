"""Placement of claims on the nodes of an explained cluster, as it is or after a suggested change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allotment.engine.diagnosis.context import requests_of
from allotment.engine.placement import Placed
from allotment.engine.refusal import Diagnosis, SuggestedChange
from allotment.explanation.cluster_devices import ClusterDevices
from allotment.explanation.extended_requests import extended_resources
from allotment.explanation.fixes import apply_change
from allotment.explanation.input import ExplainInput, with_change
from allotment.explanation.node_eligibility import daemon_node, excluded_nodes, matches
from allotment.explanation.obstacles import Obstacle, invalid, invalid_class, refused_everywhere, too_many_consumers
from allotment.explanation.pod_claims import PodClaims, pod_claims
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.time_limits import check_time


def claim_obstacle(objects: ExplainInput, key: ObjectKey, claim: ResourceClaim) -> Obstacle | None:
    """The obstacle if the API server rejects a claim or one of its classes."""
    return invalid(objects, "ResourceClaim", key) or invalid_class(objects, claim.spec)


class ClaimPlacer:
    """Finds nodes for claims among the devices of the input, which hold the allocations that the caller recorded."""

    def __init__(self, input: ExplainInput, devices: ClusterDevices) -> None:
        """``devices``: those of the input."""
        self.input = input
        self.claims = dict(input.claims)
        self.devices = devices
        self.nodes = devices.nodes
        self.plugins = devices.plugins
        self.inventory, self.allocator, self.tables = devices.inventory, devices.allocator, devices.tables

    def aborts(self, requested: PodClaims, eligible: Sequence[str]) -> bool:
        """Whether an error on a node ends the attempt, even if allocated claims of the pod cannot be used there."""
        pending = tuple(requested.pending)
        return bool(pending and self.tables.of(pending).errors & self.inventory.node_mask(eligible))

    def plugin_resources(
        self, pod: Pod, where: tuple[str, str], eligible: list[str]
    ) -> tuple[frozenset[str], list[str]]:
        """The requested resources that device plugins provide, and the nodes that provide exactly these.

        A class provides a resource only on nodes without a device plugin for it. Of several groups of nodes the first
        one on which the pod fits is returned, groups with fewer resources first; otherwise the first group.
        """
        wanted = frozenset(extended_resources(pod))
        if not wanted:
            return wanted, eligible
        kinds: dict[frozenset[str], list[str]] = {}
        for node in eligible:
            kinds.setdefault(self.plugins.get(node, frozenset()) & wanted, []).append(node)
        if not kinds:
            return frozenset[str]().union(*self.plugins.values()) & wanted, eligible
        ordered = sorted(kinds.items(), key=lambda kind: len(kind[0]))
        if len(ordered) == 1:
            return ordered[0]
        return next((kind for kind in ordered if self._fits_with_plugins(pod, where, *kind)), ordered[0])

    def _fits_with_plugins(self, pod: Pod, where: tuple[str, str], plugins: frozenset[str], nodes: list[str]) -> bool:
        requested = pod_claims(pod, where, self.input, self.claims, plugins)
        if isinstance(requested, Obstacle):
            return False
        for claim in requested.allocated:
            nodes, _ = self.reachable_nodes(claim, nodes)
        pending = tuple(requested.pending)
        return bool(nodes) and (not pending or self.place(pending, self.inventory.node_mask(nodes)) is not None)

    def lacks_class(self, requested: PodClaims) -> bool:
        """Whether a pending claim requests a DeviceClass that does not exist."""
        wanted = (request.device_class_name for claim in requested.pending for _, request in requests_of(claim))
        return any(name not in self.input.classes for name in wanted)

    def eligible_nodes(self, pod: Pod) -> tuple[list[str], dict[str, str]]:
        """The eligible nodes of a pod, and the reasons for excluded nodes; a daemon pod has only its own node."""
        served = daemon_node(pod)
        nodes = {served: self.nodes[served]} if served in self.nodes else self.nodes
        exclusions = excluded_nodes(pod, nodes)
        return [node for node in nodes if node not in exclusions], exclusions

    def node_for_pod(self, pod: Pod, change: SuggestedChange, where: tuple[str, str]) -> str:
        """The node of the pod after a change; empty if none fits."""
        objects, claims = self.input, self.claims
        if change.object == where[0]:
            pod = apply_change(pod, change.path.removeprefix(where[1]), change.becomes)
        elif (changed := with_change(objects, change)) is not None:
            untouched = {k: c for k, c in claims.items() if changed.claims.get(k) is objects.claims.get(k)}
            objects, claims = changed, {**changed.claims, **untouched}
        else:
            return ""
        plugins, eligible = self.plugin_resources(pod, where, self.eligible_nodes(pod)[0])
        requested = pod_claims(pod, where, objects, claims, plugins)
        if isinstance(requested, Obstacle) or requested.allocated or not requested.pending:
            return ""
        return self._node_for(objects, requested.pending, eligible)

    def node_for_claim(self, key: ObjectKey, change: SuggestedChange) -> str:
        """The node of a claim after a change; empty if none fits."""
        objects = with_change(self.input, change)
        claim = objects.claims.get(key) if objects is not None else None
        if objects is None or claim is None or claim_obstacle(objects, key, claim) is not None:
            return ""
        return self._node_for(objects, [claim], self.nodes)

    def _node_for(self, objects: ExplainInput, claims: list[ResourceClaim], nodes: Iterable[str]) -> str:
        """The node among ``nodes`` for claims with the classes of another input; empty if none fits."""
        old = [self.input.classes[name] for name, c in objects.classes.items() if self.input.classes.get(name) is not c]
        for class_ in old:
            self.inventory.put_class(objects.classes[class_.metadata.name])
        try:
            placed = self.place(tuple(claims), self.inventory.node_mask(nodes))
        finally:
            for class_ in old:
                self.inventory.put_class(class_)
        return placed.node if placed is not None else ""

    def place(self, claims: tuple[ResourceClaim, ...], among: int) -> Placed | None:
        """The first node on which claims fit; None if no node fits or an error on a node ends the attempt."""
        check_time()
        if self.tables.of(claims).errors & among:
            return None
        placed = self.allocator.place(claims, among=among)
        return placed if isinstance(placed, Placed) else None

    def reachable_nodes(self, claim: ResourceClaim, nodes: list[str]) -> tuple[list[str], Diagnosis | None]:
        """Nodes that can use an allocated claim's devices, and the reason if there is none."""
        allocation = claim.status.allocation
        assert allocation is not None
        key = claim.key
        if len(claim.status.reserved_for) >= 256:
            return [], too_many_consumers(str(key), len(claim.status.reserved_for))
        if allocation.node_selector is None:
            return nodes, None
        left = [node for node in nodes if matches(allocation.node_selector, self.nodes[node].facts)]
        if left or not nodes:
            return left, None
        where = [name for name, node in self.nodes.items() if matches(allocation.node_selector, node.facts)]
        summary = f"claim {key} is allocated on {', '.join(where) or 'an unknown node'}, where the pod cannot run"
        return [], refused_everywhere("claim-on-other-node", summary, str(key))
