"""``Diagnoser``: the reasons why claims fit no node of a cluster, with one diagnosis per group of equivalent nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace as altered

from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.cause import find_cause
from allotment.engine.diagnosis.context import Cause, SharedContext
from allotment.engine.diagnosis.prepared_diagnoses import ExaminedNode, PreparedDiagnoses
from allotment.engine.diagnosis.published_names import PublishedNames, published_names
from allotment.engine.diagnosis.reader import EVERYTHING, Reader
from allotment.engine.diagnosis.remedy_search import RemedyChanges, TrialBudget, applied, smallest_change
from allotment.engine.diagnosis.scenario import Scenario, claim_name
from allotment.engine.outcome import Aborted, Allocated
from allotment.engine.refusal import CODES, NO_NODES, RANK, SEARCH_GIVEN_UP, AllocationRefusal, Diagnosis, NodeReason
from allotment.engine.remedies import FARTHEST, Distance, LossClass
from allotment.model.resource import ResourceClaim

#: Groups of nodes for which a change is searched, nearest first; a cluster may have hundreds of groups.
_WITH_CHANGE = 8


class Diagnoser:
    """Diagnoses claims against one inventory. Published names are read once."""

    def __init__(
        self,
        inventory: Inventory,
        allocated: Iterable[ResourceClaim] = (),
        tries: int | None = None,
        names: Callable[[], PublishedNames] | None = None,
        prepared: PreparedDiagnoses | None = None,
    ) -> None:
        """``allocated`` are the claims that hold devices, so that reasons can name their pods.

        ``tries`` limits the trials for changes over all diagnoses; after that, reasons have no changes. ``names``
        returns the published names to compare with; by default those of the inventory's slices. ``prepared``: what
        earlier diagnoses of this inventory found, with the claims that hold devices now.
        """
        self._inventory = inventory
        self._budget = TrialBudget(tries)
        self._names = names
        self._prepared = prepared or PreparedDiagnoses(inventory, most=0)
        self._nodes = self._prepared.nodes
        for claim in allocated:
            self._nodes.add(claim)

    @cached_property
    def _published(self) -> PublishedNames:
        return published_names(self._inventory.slices.values()) if self._names is None else self._names()

    def relevant(self, reader: Reader) -> Reader:
        """The reader restricted to namespaces that hold devices; equal results mean equal reasons."""
        return reader.within(self._nodes.namespaces)

    def diagnose(
        self, claims: Sequence[ResourceClaim], nodes: Sequence[str] | None = None, reader: Reader = EVERYTHING
    ) -> Diagnosis:
        """The reasons why ``claims`` together fit none of ``nodes`` (by default all nodes of the inventory).

        Claims that hold devices are named only if the ``reader`` may see them.
        """
        inventory = self._inventory
        candidates = list(inventory.nodes) if nodes is None else list(nodes)
        if not candidates:
            return Diagnosis(headline=_no_nodes(claims, self._published))
        found: list[_NodeGroup] = []
        fitting: list[str] = []
        for group in self._nodes.split(candidates, claims):
            known = self._examined(group[0], tuple(claims), reader)
            if known.cause is None:
                fitting.extend(group)
            else:
                found.append(_NodeGroup(tuple(group), known.ends, known.cause, known))
        ending = {(e.cause.code, e.cause.summary) for e in found if e.ends}
        # Devices in use hide the error on a node, which has the same cause and perhaps a nearer remedy.
        found = [e._replace(ends=(e.cause.code, e.cause.summary) in ending) for e in found]
        found.sort(key=lambda e: (not e.ends, RANK[e.cause.code], e.least, -len(e.nodes)))
        with_remedies = [
            (group, self._remedy(group) if number < _WITH_CHANGE else RemedyChanges())
            for number, group in enumerate(found)
        ]
        with_remedies.sort(key=_nearness)
        if with_remedies and with_remedies[0][0].ends:
            with_remedies = _without_errors(with_remedies)
        rows = tuple(
            NodeReason(
                nodes=e.nodes,
                refused=altered(e.cause.refused(e.nodes[0]), changes=remedies.changes, otherwise=remedies.otherwise),
            )
            for e, remedies in with_remedies
        )
        self._prepared.end()
        headline = rows[0].refused if rows else _no_reason(claims)
        return Diagnosis(headline=headline, nodes=rows, fitting=tuple(fitting))

    def _examined(self, node: str, claims: tuple[ResourceClaim, ...], reader: Reader) -> ExaminedNode:
        """The result of the diagnosis of a node."""
        inventory = self._inventory
        slices = self._nodes.slices(node)
        scenario = Scenario(
            features=inventory.features,
            node=node,
            labels=inventory.nodes[node].labels,
            slices=slices,
            classes=inventory.classes,
            allocated=self._nodes.claims_on(slices),
            claims=claims,
            taint_rules=tuple(inventory.taint_rules.values()),
            declared_features=inventory.nodes[node].declared_features,
        )
        return self._prepared.examined(scenario, self._published, reader, _examine)

    def _remedy(self, group: _NodeGroup) -> RemedyChanges:
        known = group.known
        if known.remedy is not None:
            return known.remedy
        found = smallest_change(known.scenario, group.cause, known.shared, self._budget)
        if not self._budget.is_limited:
            known.remedy = found
        return found


def _examine(scenario: Scenario, shared: SharedContext) -> tuple[Cause | None, bool]:
    """The cause on a node, None if the claims fit, and whether Kubernetes gives up on all nodes there."""
    outcome = shared.trials(scenario)
    if isinstance(outcome, Allocated):
        return None, False
    why = find_cause(scenario, shared)
    # If an error on a node ends the whole attempt, it is the headline, even if other nodes are nearer to fitting.
    # Selectors are not evaluated on devices in use, but freeing those would only cause the error.
    ends = (isinstance(outcome, Aborted) and outcome.fatal) or why.code in (
        "selector-fails", "derived-attribute-fails", "capacity-not-representable"
    )  # fmt: skip
    return why, ends


class _NodeGroup(NamedTuple):
    """A group of equivalent nodes with its cause. ``ends``: Kubernetes gives up on all nodes at one of these.

    ``known``: the diagnosis of the first one.
    """

    nodes: tuple[str, ...]
    ends: bool
    cause: Cause
    known: ExaminedNode

    def ends_after(self, remedy: RemedyChanges) -> bool:
        """Whether Kubernetes still gives up on all nodes at one of these after the changes."""
        outcome = self.known.shared.trials(applied(remedy.edits, self.known.scenario))
        return isinstance(outcome, Aborted) and outcome.fatal

    @property
    def least(self) -> Distance:
        """The distance of the nearest candidate change, whether or not it is sufficient."""
        return min((change.distance for change in self.cause.candidates), default=FARTHEST)


def _nearness(pair: tuple[_NodeGroup, RemedyChanges]) -> tuple[bool, int, int, int, int, Distance, int, int, str, int]:
    """Sort key of the reasons, nearest first.

    A remedy that loses nothing precedes one that keeps what was intended, that one precedes one that selects other
    devices, with less memory last, and that one precedes a dropped condition; nodes without a remedy come last. A node
    that needs fewer changes precedes those that need more, such as one that also lacks slices; then the cause decides,
    how often the requested memory is halved, the distance of the remedy, the number of devices that match or that the
    remedy selects, the name of the selected value, and the number of nodes. If the claims fit the idle node, or may
    fit, what was intended is kept, whatever the remedy.
    """
    group, remedy = pair
    rank, loss = RANK[group.cause.code], remedy.distance.loss
    kept = rank <= RANK[SEARCH_GIVEN_UP] or loss <= LossClass.FEWER
    losses = (LossClass.MODEL, LossClass.MEMORY, LossClass.CONDITION)
    tiers = (loss <= LossClass.CLUSTER, kept, *(loss <= most for most in losses), True)
    free = remedy.devices * len(group.nodes)
    value = remedy.changes[0].text if remedy.devices else ""
    halvings = max((round(edit.size) for edit in remedy.edits if edit.remedy == "less-memory"), default=0)
    order = (not group.ends, tiers.index(True), max(remedy.distance.edits, 1), rank, halvings)
    return (*order, remedy.distance, -_found(group.cause), -free, value, -len(group.nodes))


def _without_errors(found: list[tuple[_NodeGroup, RemedyChanges]]) -> list[tuple[_NodeGroup, RemedyChanges]]:
    """The reasons if an error ends the attempt; the first one has the nearest remedy after which no node ends it, or
    none.

    The remedy may be that of another node: a node whose devices cause the error is not the one where the claims were
    meant to fit. If the attempt ends at that node, too, its reason comes first.
    """
    ending = [group for group, _ in found if group.ends]
    remedies = sorted((pair for pair in found if pair[1].edits), key=lambda pair: pair[1].distance)
    nearest = next((pair for pair in remedies if not any(group.ends_after(pair[1]) for group in ending)), None)
    if nearest is not None and nearest[0].ends:
        return [nearest, *(pair for pair in found if pair is not nearest)]
    return [(found[0][0], nearest[1] if nearest is not None else RemedyChanges()), *found[1:]]


def _found(cause: Cause) -> int:
    """The number of matching devices if there are too few, otherwise 0."""
    return len(cause.traces[0].left) if cause.code == "too-few-devices" and cause.traces else 0


def diagnose(
    inventory: Inventory,
    claims: Sequence[ResourceClaim],
    allocated: Iterable[ResourceClaim] = (),
    nodes: Sequence[str] | None = None,
) -> Diagnosis:
    """`Diagnoser.diagnose` for a single diagnosis."""
    return Diagnoser(inventory, allocated).diagnose(claims, nodes)


def _no_nodes(claims: Sequence[ResourceClaim], names: PublishedNames) -> AllocationRefusal:
    summary = (
        "the cluster has no nodes"
        if names.slices
        else ("the cluster has no nodes and no ResourceSlices, so no devices are known")
    )
    notes = () if names.slices else ("Names in selectors cannot be checked without ResourceSlices.",)
    return AllocationRefusal(
        code="driver-missing",
        summary=summary,
        claim=claim_name(claims[0]) if claims else "",
        notes=notes,
        kubernetes=NO_NODES,
    )


def _no_reason(claims: Sequence[ResourceClaim]) -> AllocationRefusal:
    return AllocationRefusal(
        code="not-explained",
        summary="the claims fit on every node when the allocation is repeated",
        claim=claim_name(claims[0]) if claims else "",
        kubernetes=CODES["not-explained"].kubernetes,
    )
