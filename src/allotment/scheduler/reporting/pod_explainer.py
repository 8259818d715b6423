"""The reason why a pod is pending, from the verdict on its group: the main cause with its remedies, then the others.

Diagnoses of equal claims are cached while nothing is allocated or freed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from allotment.cluster.cache import Cache
from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.diagnosis.reader import Reader
from allotment.engine.refusal import Diagnosis, NodeReason, SuggestedChange
from allotment.engine.remedies import FARTHEST, distance
from allotment.explanation import messages
from allotment.explanation.cause_key import CauseKey
from allotment.explanation.extended_resources import extended_claim, name_corrections, served_by_classes
from allotment.explanation.fixes import change_tree, path_steps
from allotment.explanation.further_changes import AfterChange, loss_limit, may_lose_less, with_further_changes
from allotment.explanation.gangs import of_one_pod
from allotment.explanation.messages import Report
from allotment.explanation.node_accounts import shared_reason
from allotment.explanation.node_nearness import models_by_node
from allotment.explanation.obstacles import group_missing, refused_everywhere, too_many_consumers, with_first
from allotment.explanation.origin_mapping import endless_owner, owner_of, pending_diagnosis, template_of
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.node_fit.device_table import DEVICE_CAUSES
from allotment.node_fit.filters.ports import ports
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.resources import resources
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.scheduler import device_readiness, extended_resources
from allotment.scheduler.attempt import AttemptFailed, NodeAssignment, NoNode, SchedulingAlgorithm
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.reporting import node_exclusion, resource_shortage
from allotment.scheduler.reporting.node_exclusion import OfClaims
from allotment.scheduler.reporting.node_rules import NodeRules, rules_of
from allotment.scheduler.reporting.own_objects import claim_names, templates_by_claim, with_claim_names
from allotment.scheduler.reporting.pod_value import pod_of
from allotment.scheduler.reporting.verdict import Verdict

#: Diagnoses cached while nothing is allocated or freed.
_MAX_DIAGNOSES: Final = 256


class PodExplainer:
    """Explains verdicts in the present state of the cluster."""

    def __init__(self, algorithm: SchedulingAlgorithm, pods: Cache[Any]) -> None:
        self._algorithm = algorithm
        self._pods = pods
        self._diagnoser: tuple[tuple[int, int], Diagnoser] | None = None
        self._models: dict[str, frozenset[str]] | None = None
        self._diagnoses: dict[tuple[object, ...], tuple[Diagnosis, list[str], str]] = {}
        """Diagnoses, the names of the claims and of the special claim in them, by specs of the claims and nodes."""

    def cluster_changed(self) -> None:
        """Drop the diagnoser, because nodes, slices, classes or rules have changed."""
        self._diagnoser = None
        self._models = None

    def explain(self, pod: QueuedPod, verdict: Verdict) -> Report:
        """Return the report on a pod, the main cause first."""
        name = str(pod.key)
        if verdict.missing_group:
            key = ObjectKey(pod.key.namespace, verdict.missing_group)
            return messages.diagnosis_report(name, group_missing(key, self._algorithm.groups.known()))
        if verdict.full_claim is not None:
            return messages.diagnosis_report(name, too_many_consumers(*verdict.full_claim))
        machines = self._algorithm.machines
        refusals = verdict.refusals
        if (taken := self._shared_claim(verdict)) is not None:
            return messages.diagnosis_report(name, shared_reason(taken))
        lacking: list[str] | None = None
        if verdict.pending and (refusals is None or any(r.cause in DEVICE_CAUSES for r in refusals.values())):
            if refusals is None:
                lacking = node_exclusion.eligible_nodes(pod, machines) or [machine.name for machine in machines]
            else:
                lacking = [
                    m.name for place, r in refusals.items() if r.cause in DEVICE_CAUSES and (m := machines.at(place))
                ]
        others = [
            (machine, refusal)
            for place, refusal in (refusals or {}).items()
            if refusal.cause not in (*DEVICE_CAUSES, "claim") and (machine := machines.at(place)) is not None
        ]
        rules = self._rules(pod, verdict)
        of_claims = partial(self._claim_changes, pod, verdict, rules)
        way = main = None
        if lacking is not None:
            way = node_exclusion.nearest_node(others, self._would_do(pod, verdict), rules)
            excluded = others if refusals is not None else node_exclusion.excluded_nodes(pod, machines)
            main = self._diagnose(pod, verdict, rules, lacking, way, excluded)
        failed = [name for name in verdict.unreachable_claims if self._has_failed(name)]
        away = [self._elsewhere(claim) for claim in verdict.unreachable_claims if claim not in failed]
        if failed and main is None:
            main = Report(
                tuple(
                    f"the devices of claim {name} did not become ready; the claim is freed and allocated again"
                    for name in failed
                ),
                CauseKey("", "devices-not-ready", failed[0]),
            )
        elif away and main is None:
            way = node_exclusion.nearest_node(others, self._has_all(pod, verdict), rules)
            main = messages.diagnosis_report(
                name, _with_changes(refused_everywhere("claim-on-other-node", away.pop(0)), way)
            )
        if short := resource_shortage.device_shortages(pod.demand, others):
            # These nodes have the devices, so they are nearer to fitting than all others.
            main = resource_shortage.device_shortage_report(pod, short)
            others = [(machine, refusal) for machine, refusal in others if machine.name not in short]
        elif main is None:
            would_do, has_devices = self._would_do(pod, verdict), bool(verdict.pending)
            main = self._unserved(pod, others) or node_exclusion.exclusion_report(
                pod, others, would_do, of_claims, rules
            )
            if main is None:
                way = node_exclusion.cordoned_node(others, would_do, rules, has_devices=has_devices)
                main = messages.diagnosis_report(name, Diagnosis(headline=way.refused)) if way is not None else None
        if way is not None:  # it is reported together with the devices that other nodes lack
            others = [(machine, refusal) for machine, refusal in others if machine.name != way.nodes[0]]
        rest = [
            *(Report((f"{summary} (claim-on-other-node)",), CauseKey("claim-on-other-node")) for summary in away),
            *(kind.report for kind in resource_shortage.kinds_of_refusals(pod.demand, others)),
        ]
        if main is None:
            if not rest:
                return Report((), verdict.cause)
            main = rest.pop(0)
        more = (f"  {line}" for report in rest for line in report.lines if line not in main.lines[0])
        return Report((*main.lines, *more), main.cause)

    def remedy(
        self, pod: QueuedPod, outcome: NoNode | AttemptFailed, templates: Mapping[ObjectKey, str]
    ) -> tuple[SuggestedChange, ...]:
        """Return the changes after which a pod fits that was tried without effect. ``templates``: the names of the
        templates of its claims."""
        refusals = outcome.refusals if isinstance(outcome, NoNode) else {}
        verdict = Verdict("Unschedulable", "", outcome.pending, refusals)
        machines = self._algorithm.machines
        others = [(m, r) for place, r in refusals.items() if (m := machines.at(place)) is not None]
        rules = self._rules(pod, verdict, templates)
        way = node_exclusion.nearest_node(others, self._would_do(pod, verdict), rules)
        of_claims = partial(self._claim_changes, pod, verdict, rules, templates=templates)
        eligible, pending = node_exclusion.eligible_nodes(pod, machines), self._pending(pod, verdict)
        if not eligible or not pending:
            return node_exclusion.nearest_changes(others, way, of_claims, rules)
        found = self._current_diagnoser().diagnose(pending, eligible, Reader.of(pod.key.namespace))
        way = self._nearest(rules, way, others, of_claims, found, ended=self._ends(pending, eligible))
        special = f"ResourceClaim {pod.key}-extended-resources"
        excluded = (way,) if way is not None else ()
        return pending_diagnosis(
            found, rules.pod, templates, special, excluded, endless_owner=self._endless_owner,
            nodes=self._algorithm.allocator.inventory.nodes,
        ).headline.changes  # fmt: skip

    def _shared_claim(self, verdict: Verdict) -> ResourceClaim | None:
        """Return a claim of another pod that stands for cpu, memory or huge pages of its node, if it is the reason."""
        name = next((r.shared_claim for r in (verdict.refusals or {}).values() if r.shared_claim), "")
        claim = self._algorithm.ledger.known.get(ObjectKey(*name.split("/", 1))) if name else None
        if claim is None or claim.allocation is None:
            return None
        return claim.with_allocation(claim.allocation)

    def _would_do(self, pod: QueuedPod, verdict: Verdict) -> Callable[[CachedNode], bool]:
        """Return a predicate: whether the pod and its claims fit on a node, apart from cordons, taints and labels."""
        known = (self._algorithm.ledger.known.get(ObjectKey(*name.split("/", 1))) for name in claim_names(pod.tree))
        allocated = [claim for claim in known if claim is not None and claim.allocation is not None]
        attempts = self._algorithm
        by_devices = served_by_classes(attempts.allocator.inventory.classes, pod.demand, attempts.features)
        pending = self._pending(pod, verdict)
        fits = attempts.devices.of(pending).fits if pending else -1
        return lambda machine: (
            bool(fits >> machine.index & 1)
            and ports(pod.demand, machine) is None
            and resources(pod.demand, machine, by_devices) is None
            and all(claim.is_usable_on(machine.facts) for claim in allocated)
        )

    def _pending(self, pod: QueuedPod, verdict: Verdict) -> tuple[ResourceClaim, ...]:
        """Return the claims to allocate, with the one for extended resources, which is only made for nodes that the pod
        may use."""
        attempts = self._algorithm
        classes, features = attempts.allocator.inventory.classes, attempts.features
        name = f"{pod.key.name}-extended-resources"
        is_made = any(claim.metadata.name == name for claim in verdict.pending)
        if is_made or not served_by_classes(classes, pod.demand, features):
            return verdict.pending
        made = extended_claim(pod_of(pod.tree), classes, features, frozenset())
        return (*verdict.pending, made) if isinstance(made, ResourceClaim) else verdict.pending

    def _has_all(self, pod: QueuedPod, verdict: Verdict) -> Callable[[CachedNode], bool]:
        """Return a predicate: whether the pod's allocated claims are usable on a node and the others fit there."""
        keys = (ObjectKey(*name.split("/", 1)) for name in verdict.unreachable_claims)
        claims = [self._algorithm.ledger.known.get(key) for key in keys]
        fits = self._would_do(pod, verdict)
        return lambda machine: (
            fits(machine) and all(claim is not None and claim.is_usable_on(machine.facts) for claim in claims)
        )

    def _unserved(self, pod: QueuedPod, refused: list[tuple[CachedNode, Refusal]]) -> Report | None:
        """Return the report on an extended resource without any provider, with a correction of its name that helps."""
        attempts = self._algorithm
        classes, features = attempts.allocator.inventory.classes, attempts.features
        found = extended_resources.unserved_diagnosis(classes, pod.demand, attempts.machines, features)
        if found is None or not refused:
            return None
        value = pod_of(pod.tree)
        where = template_of(value, owner_of(value))
        provided = frozenset(name for machine in attempts.machines for name in machine.allocatable)
        ways = name_corrections(value, where, classes, features, provided)
        after = partial(self._after_correction, pod, where)
        reasons = with_first(found, ((way, after(way).node) for way in ways))
        if not reasons.headline.changes:
            reasons = with_further_changes(found, ways, after)
        return messages.diagnosis_report(str(pod.key), reasons)

    def _after_correction(self, pod: QueuedPod, where: tuple[str, str], change: SuggestedChange) -> AfterChange:
        """Return what would happen to a pod without claims after a change of its containers."""
        if pod.tree["spec"].get("resourceClaims"):
            return AfterChange()
        tree = copy.deepcopy(pod.tree)
        change_tree(tree, path_steps(change.path.removeprefix(where[1])), change.becomes)
        changed = QueuedPod(tree, PodRequirementsCache().of(tree["spec"]))
        outcome = self._algorithm.schedule(changed, [])
        if isinstance(outcome, NodeAssignment):
            return AfterChange(outcome.node)
        return AfterChange("", self.remedy(changed, outcome, {}))

    def _has_failed(self, name: str) -> bool:
        """Whether the devices of an allocated claim failed to become ready (binding conditions)."""
        claim = self._algorithm.ledger.known.get(ObjectKey(*name.split("/", 1)))
        return claim is not None and (
            claim.uid in self._algorithm.ledger.unusable or bool(device_readiness.of(claim.tree).failure)
        )

    def _elsewhere(self, name: str) -> str:
        namespace, _, claim_name = name.partition("/")
        claim = self._algorithm.ledger.known.get(ObjectKey(namespace, claim_name))
        if claim is None:
            return f"claim {name} is allocated on a node where the pod cannot run"
        where = [m.name for m in self._algorithm.machines if claim.is_usable_on(m.facts)]
        node_names = resource_shortage.summarize_names(where) if where else "an unknown node"
        return f"claim {name} is allocated on {node_names}, where the pod cannot run"

    def _diagnose(
        self,
        pod: QueuedPod,
        verdict: Verdict,
        rules: NodeRules,
        nodes: list[str],
        way: NodeReason | None,
        others: list[tuple[CachedNode, Refusal]],
    ) -> Report:
        inventory, diagnoser = self._algorithm.allocator.inventory, self._current_diagnoser()
        templates = templates_by_claim(pod.tree)
        names = [f"{claim.metadata.namespace}/{claim.metadata.name}" for claim in verdict.pending]
        origin = tuple(templates.get(ObjectKey(c.metadata.namespace, c.metadata.name), "") for c in verdict.pending)
        cache_key = (*(id(claim.spec) for claim in verdict.pending), pod.key.namespace, *origin, *nodes)
        found = self._diagnoses.get(cache_key)
        if found is None:
            special = f"ResourceClaim {pod.key}-extended-resources"
            found = (diagnoser.diagnose(verdict.pending, nodes, Reader.of(pod.key.namespace)), names, special)
            if len(self._diagnoses) < _MAX_DIAGNOSES:
                self._diagnoses[cache_key] = found
        diagnosis, cached_names, special = found
        of_claims = partial(self._claim_changes, pod, verdict, rules)
        excluded = {machine.name for machine, _ in others}
        ended = self._ends(verdict.pending, [name for name in nodes if name not in excluded])
        way = self._nearest(rules, way, others, of_claims, diagnosis, ended=ended)
        cached_templates = {
            ObjectKey(*name.split("/", 1)): template
            for name, template in zip(cached_names, origin, strict=True)
            if template
        }
        diagnosis = pending_diagnosis(
            diagnosis,
            rules.pod,
            cached_templates,
            special,
            (way,) if way is not None else (),
            ended=ended,
            endless_owner=self._endless_owner,
            nodes=inventory.nodes,
        )
        if excluded.issuperset(nodes):  # no node is eligible: a rule must change, too
            changes = node_exclusion.with_claims(others, of_claims, rules)
            diagnosis = replace(diagnosis, headline=replace(diagnosis.headline, changes=changes, otherwise=()))
        if verdict.gang is not None:
            diagnosis = of_one_pod(diagnosis, *verdict.gang)
        report = messages.diagnosis_report(str(pod.key), diagnosis)
        return with_claim_names(report, {old: new for old, new in zip(cached_names, names, strict=True) if old != new})

    def _current_models(self) -> dict[str, frozenset[str]]:
        """Return the models of the devices by node."""
        if self._models is None:
            self._models = models_by_node(self._algorithm.allocator.inventory.slices.values())
        return self._models

    def _current_diagnoser(self) -> Diagnoser:
        """Return the diagnoser for the present allocations; diagnoses with another one are forgotten."""
        inventory, ledger = self._algorithm.allocator.inventory, self._algorithm.ledger
        at = (ledger.version, inventory.journal.end)
        if self._diagnoser is None or self._diagnoser[0] != at:
            self._diagnoser = (at, Diagnoser(inventory, ledger.allocated_claims()))
            self._diagnoses.clear()
        return self._diagnoser[1]

    def _nearest(
        self,
        rules: NodeRules,
        way: NodeReason | None,
        others: list[tuple[CachedNode, Refusal]],
        of_claims: OfClaims,
        found: Diagnosis,
        *,
        ended: bool,
    ) -> NodeReason | None:
        """Return the ``way`` to an excluded node, or a nearer one: if it is missing or uncertain, changes of the pod's
        rules for nodes together with changes of its claims, which lose less than those ``found`` for other nodes.
        ``ended``: see `node_exclusion.with_claims`."""
        is_near = not may_lose_less(found.headline.changes)
        if is_near or not others or (way is not None and not node_exclusion.is_far(way)):
            return way
        limit = loss_limit(found.headline.changes)
        changes = node_exclusion.with_claims(others, of_claims, rules, limit, ended=ended)
        lost_by_way = distance(change.remedy for change in way.refused.changes) if way is not None else FARTHEST
        is_nearer = distance(change.remedy for change in changes) < lost_by_way
        return node_exclusion.reason_of(rules.pod, others, changes) if is_nearer else way

    def _ends(self, pending: tuple[ResourceClaim, ...], eligible: Sequence[str]) -> bool:
        """Return whether an error on an eligible node ends the attempt."""
        mask = self._algorithm.allocator.inventory.node_mask(eligible)
        return bool(self._algorithm.devices.of(pending).errors & mask)

    def _claim_changes(
        self,
        pod: QueuedPod,
        verdict: Verdict,
        rules: NodeRules,
        nodes: Sequence[str],
        templates: Mapping[ObjectKey, str] | None = None,
    ) -> tuple[SuggestedChange, ...]:
        """Return the changes after which the pending claims fit on one of these nodes, whether or not it is
        eligible. ``templates``: those of the claims if the pod's status does not name them."""
        pending = self._pending(pod, verdict)
        if not pending:
            return ()
        claims = rules.claims(nodes)
        found = self._current_diagnoser().diagnose(claims, nodes, Reader.of(pod.key.namespace))
        special = f"ResourceClaim {pod.key}-extended-resources"
        origin = templates_by_claim(pod.tree) if templates is None else templates
        changes = pending_diagnosis(
            found, rules.pod, origin, special, endless_owner=self._endless_owner
        ).headline.changes  # fmt: skip
        # Other changes are those of claims that do not exist.
        return changes if claims == pending or all(change.remedy == "wait" for change in changes) else ()

    def _rules(self, pod: QueuedPod, verdict: Verdict, templates: Mapping[ObjectKey, str] | None = None) -> NodeRules:
        """Return the pod's rules for nodes. ``templates``: see `_claim_changes`."""
        origin = templates_by_claim(pod.tree) if templates is None else templates
        return rules_of(pod, self._pending(pod, verdict), origin, self._algorithm, self._current_models, self._pods)

    def _endless_owner(self, claim: ObjectKey) -> str:
        """Return the workload of the pods that use a claim, if they do not end by themselves; otherwise empty."""
        known = self._algorithm.ledger.known.get(claim)
        users = (known.tree.get("status") or {}).get("reservedFor") or () if known is not None else ()
        pods = (self._pods.item(claim.namespace, user["name"]) for user in users)
        owners = (endless_owner(pod_of(pod.tree)) for pod in pods if pod is not None)
        return next(filter(None, owners), "")


def _with_changes(reasons: Diagnosis, way: NodeReason | None) -> Diagnosis:
    """Add the changes that let the pod onto the nearest node to a diagnosis that holds on all nodes."""
    changes = way.refused.changes if way is not None else ()
    return replace(reasons, headline=replace(reasons.headline, changes=changes))
