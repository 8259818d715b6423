"""``ClusterDevices``: the engine's inventory of explained clusters that follow each other, and what is derived from it.

Reading the slices of a thousand nodes takes longer than explaining a pod, so what did not change is kept. Objects are
compared by identity: unchanged ones must be the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Final, NamedTuple

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.engine.diagnosis.prepared_diagnoses import PreparedDiagnoses
from allotment.engine.diagnosis.published_names import NameFact, PublishedNames, merged_names, names_of_slice
from allotment.explanation.extended_resources import provided_resources
from allotment.explanation.input import ExplainInput
from allotment.explanation.node_eligibility import EligibilityNode, eligibility_nodes, nodes_of
from allotment.explanation.node_nearness import models_by_node
from allotment.model.core import HOSTNAME_LABEL, Node
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.resource import Device, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.node_fit.device_table import DeviceTables

#: Indexes of removed nodes that are kept; masks of nodes have a bit for each index.
_MAX_UNUSED: Final = 256


class _ReadNode(NamedTuple):
    """A node with what explanations read of it."""

    node: Node
    eligibility: EligibilityNode
    plugins: frozenset[str]


class _ReadSlice:
    """A slice with the nodes that it names."""

    __slots__ = ("names", "nodes", "slice")

    def __init__(self, slice_: ResourceSlice) -> None:
        self.slice = slice_
        self.nodes = nodes_of(slice_)
        self.names: tuple[NameFact, ...] | None = None
        """The published names; determined when they are first needed."""


class ClusterDevices:
    """The devices of a cluster with what is allocated. Only the owner of the ``lock`` may use them.

    ``nodes``: those of the cluster, and those that only slices name. ``plugins``: the resources that device plugins
    provide, by node. ``diagnoses``: see `PreparedDiagnoses`.
    """

    def __init__(self, features: Features) -> None:
        self.lock = RLock()
        self.features = features
        self._start_over()

    def _start_over(self) -> None:
        features = self.features
        self.inventory = Inventory(features)
        self.allocator = Allocator(self.inventory)
        self.tables = DeviceTables(self.allocator)
        self.diagnoses = PreparedDiagnoses(self.inventory)
        self.nodes: dict[str, EligibilityNode] = {}
        self.plugins: Mapping[str, frozenset[str]] = {}
        self._input: ExplainInput | None = None
        self._read_nodes: dict[str, _ReadNode] = {}
        self._slices: dict[str, _ReadSlice] = {}
        self._claims: dict[ObjectKey, ResourceClaim] = {}
        self._devices: dict[PoolID, dict[str, Device]] = {}
        self._names = PublishedNames()
        self._names_at = -1
        """The changes of slices as of which the names are known."""
        self._models: Mapping[str, frozenset[str]] | None = None

    # --- reading -----------------------------------------------------------------------------------------------------

    def published(self) -> PublishedNames:
        """The names that the slices publish; the same object as long as they are the same."""
        if self._names_at != self.inventory.slice_changes:
            self._names_at = self.inventory.slice_changes
            interned: dict[tuple[NameFact, ...], tuple[NameFact, ...]] = {}
            for each in self._slices.values():
                facts = names_of_slice(each.slice) if each.names is None else each.names
                each.names = interned.setdefault(facts, facts)
            names = merged_names([each.names or () for each in self._slices.values()])
            if names != self._names:
                self._names = names
        return self._names

    def models(self) -> Mapping[str, frozenset[str]]:
        """The models of the devices by node."""
        if self._models is None:
            self._models = models_by_node(self.inventory.slices.values())
        return self._models

    def device(self, id: DeviceID) -> Device | None:
        """A published device; the last one if several slices have it."""
        pool = PoolID(id.driver, id.pool)
        if pool not in self._devices:
            slices = self.diagnoses.nodes.index.slices_of(pool)
            self._devices[pool] = {device.name: device for each in slices for device in each.spec.devices or ()}
        return self._devices[pool].get(id.device)

    # --- changes -----------------------------------------------------------------------------------------------------

    def follow(self, input: ExplainInput) -> None:
        """Become the devices of an input, which must have the same features."""
        try:
            self._follow(input)
        except BaseException:  # also if the time for an answer ends
            self._start_over()
            raise

    def _follow(self, input: ExplainInput) -> None:
        before, self._input = self._input, input
        if before is None or before.slices is not input.slices or before.refused != input.refused:
            self._follow_slices([each for each in input.slices if ("ResourceSlice", each.key) not in input.refused])
            self._follow_nodes(input.nodes)
        elif before.nodes is not input.nodes:
            self._follow_nodes(input.nodes)
        self._follow_classes(input.classes)
        if before is None or before.rules is not input.rules:
            self._follow_rules(input.rules)
        self._follow_claims(input.claims)

    def put_claim(self, key: ObjectKey, claim: ResourceClaim | None) -> None:
        """Add or replace a claim, or remove it (None)."""
        old = self._claims.pop(key, None)
        if claim is not None:
            self._claims[key] = claim
        given = claim.status.allocation if claim is not None else None
        known = old.status.allocation if old is not None else None
        if old is not None and known is not None:
            self.diagnoses.nodes.remove(old)
        if claim is not None and given is not None:
            self.diagnoses.nodes.add(claim)
        if given != known:
            self.inventory.free(key)
            if given is not None:
                self.inventory.allocate(key, given)

    def _follow_claims(self, claims: Mapping[ObjectKey, ResourceClaim]) -> None:
        known = self._claims
        if known != claims:
            for key in [key for key in known if key not in claims]:
                self.put_claim(key, None)
            for key, claim in [(key, claim) for key, claim in claims.items() if known.get(key) is not claim]:
                self.put_claim(key, claim)
        self.diagnoses.nodes.arrange(claims)

    def _follow_nodes(self, nodes: Iterable[Node]) -> None:
        inventory, known = self.inventory, self._read_nodes
        read: dict[str, _ReadNode] = {}
        for node in nodes:
            name = node.metadata.name
            found = known.get(name)
            read[name] = found if found is not None and found.node is node else _read_node(node)
        after = {name: each.eligibility for name, each in read.items()}
        for each in self._slices.values():
            for name in each.nodes:
                if name not in after:
                    after[name] = EligibilityNode(NodeFacts(name, {HOSTNAME_LABEL: name}), has_object=False)
        for name in [name for name in inventory.nodes if name not in after]:
            inventory.remove_node(name)
        for name, eligible in after.items():
            facts, old = eligible.facts, inventory.nodes.get(name)
            if old is None or old != facts:
                inventory.put_node(name, facts.labels, facts.declared_features)
        unused = inventory.index_count - len(after)
        if unused > _MAX_UNUSED or any(one != other for one, other in zip(inventory.nodes, after, strict=True)):
            inventory.arrange_nodes(after)
        self._read_nodes, self.nodes = read, after
        self.plugins = {name: each.plugins for name, each in read.items() if each.plugins}

    def _follow_slices(self, slices: Sequence[ResourceSlice]) -> None:
        inventory, known = self.inventory, self._slices
        read: dict[str, _ReadSlice] = {}
        for each in slices:
            name = each.metadata.name
            found = known.get(name)
            read[name] = found if found is not None and found.slice is each else _ReadSlice(each)
        left = [name for name in known if name not in read]
        changed = [each for name, each in read.items() if known.get(name) is not each]
        self._slices = read
        if not left and not changed:
            return
        for name in left:
            inventory.remove_slice(name)
        for one in changed:
            inventory.put_slice(one.slice)
        self._devices.clear()
        self._models = None

    def _follow_classes(self, classes: Mapping[str, DeviceClass]) -> None:
        inventory = self.inventory
        if list(inventory.classes) != list(classes):  # similar names are looked for in their order
            for name in list(inventory.classes):
                inventory.remove_class(name)
        for name, device_class in classes.items():
            if inventory.classes.get(name) is not device_class:
                inventory.put_class(device_class)

    def _follow_rules(self, rules: Iterable[DeviceTaintRule]) -> None:
        inventory, wanted = self.inventory, {rule.metadata.name: rule for rule in rules}
        if list(inventory.taint_rules) != list(wanted):  # devices have taints in their order
            for name in list(inventory.taint_rules):
                inventory.remove_taint_rule(name)
        for name, rule in wanted.items():
            known = inventory.taint_rules.get(name)
            if known is None or (known is not rule and known.spec != rule.spec):
                inventory.put_taint_rule(rule)


def _read_node(node: Node) -> _ReadNode:
    return _ReadNode(node, eligibility_nodes((node,), ())[node.metadata.name], provided_resources(node))
