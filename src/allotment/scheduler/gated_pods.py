"""Pods that are not attempted: pods with scheduling gates, or with claims that are missing or being deleted.

Kubernetes holds such pods without a condition or event. A condition would change what other programs see, so none is
written here either; an event reports what is missing once it is clear that it will not appear by itself. While claims
of other pods are still being created, nothing is reported: many new pods at the same time are normal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from allotment.cluster.clock import Clock, Timer
from allotment.cluster.lasting_events import LastingEvents, StateEvent
from allotment.cluster.recorder import Recorder
from allotment.engine.refusal import Diagnosis, SuggestedChange
from allotment.explanation import messages
from allotment.explanation.fixes import apply_change
from allotment.explanation.further_changes import AfterChange, with_further_changes
from allotment.explanation.obstacles import group_missing, refused_everywhere, with_first
from allotment.explanation.origin_mapping import owner_of, template_of
from allotment.explanation.references import missing_reference
from allotment.model.core import Pod, PodResourceClaim
from allotment.model.generated_claims import generated_claim
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaimTemplate
from allotment.model.trees import Tree, read_value, to_tree
from allotment.scheduler.attempt import AttemptFailed, NodeAssignment, NoNode, SchedulingAlgorithm
from allotment.scheduler.claim_ledger import CachedClaim
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import HoldReason, QueuedPod

ObjectKeys = Callable[[], Collection[ObjectKey]]
AfterEntries = Callable[[QueuedPod, Sequence[PodResourceClaim]], AfterChange]
"""Returns what would happen to a pod with other entries of ``spec.resourceClaims``."""

#: Seconds without any new claim before a missing claim is reported.
_REPORT_DELAY: Final = 1.0
#: How often the delay is restarted at most.
_MAX_EXTENSIONS: Final = 30


class GatedPods:
    """The pods that are held back, and why."""

    def __init__(
        self, clock: Clock, recorder: Recorder, claims: ObjectKeys, templates: ObjectKeys, groups: PodGroups,
        after_entries: AfterEntries,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._after_entries = after_entries
        self._claims = claims
        self._templates = templates
        self._groups = groups
        self.pods: dict[str, tuple[QueuedPod, HoldReason | None]] = {}
        """By uid; the reason is None for a pod with scheduling gates."""
        self._timers: dict[str, Timer] = {}
        self._reported = LastingEvents(recorder, clock, self._report_again)
        """The last event of each pod, by the text of the reason."""
        self._tried: dict[tuple[object, ...], AfterChange] = {}
        """The outcomes for pods after a change; equal pods, such as replicas, are tried once."""
        self._tried_expire = 0.0

    def put(self, pod: QueuedPod, hold: HoldReason | None) -> None:
        """Add a pod that is held back."""
        self.pods[pod.uid] = (pod, hold)
        if hold is not None and pod.uid not in self._timers:
            self._start_timer(pod.uid, _MAX_EXTENSIONS)

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove a pod that is no longer held back, and return it."""
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        found = self.pods.pop(uid, None)
        return found[0] if found is not None else None

    def forget(self, uid: str) -> None:
        """Remove a deleted pod."""
        self.remove(uid)
        self._reported.forget(uid)

    def close(self) -> None:
        """Cancel all pending reports."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._reported.close()

    def _start_timer(self, uid: str, again: int) -> None:
        known = len(self._claims())
        self._timers[uid] = self._clock.later(_REPORT_DELAY, lambda: self._report(uid, known, again))

    def _report(self, uid: str, known: int, again: int) -> None:
        """Report why a pod is held back, or restart the delay. ``known``: number of claims when the delay began."""
        self._timers.pop(uid, None)
        pod, hold = self.pods.get(uid, (None, None))
        if pod is None or hold is None or self._reported.state(uid) == hold.text:
            return
        lines = self._explain(pod, hold)
        if not lines:
            if again and len(self._claims()) > known:
                self._start_timer(uid, again - 1)
                return
            entry = pod.tree["spec"]["resourceClaims"][hold.entry]
            template = entry.get("resourceClaimTemplateName")
            lines = [f"the claim for {entry['name']} has not been created yet (template {template})"]
        note = messages.event_note(lines, hold.text)
        event = StateEvent(pod.tree, "Warning", "FailedScheduling", note, "Scheduling")
        self._reported.record(uid, hold.text, event)

    def _report_again(self, uid: str) -> bool:
        """Report again why a pod is held back, if it still is. Return False: the last event is not repeated as it was,
        because other changes may help by now."""
        if uid in self.pods and uid not in self._timers:
            self._start_timer(uid, _MAX_EXTENSIONS)
        return False

    def _explain(self, pod: QueuedPod, hold: HoldReason) -> list[str]:
        """Return the lines that explain what is wrong; empty if a claim is only not created yet."""
        value = _pod_of(pod)
        entries = value.spec.resource_claims
        entry = entries[hold.entry]
        namespace = pod.key.namespace
        template = entry.resource_claim_template_name
        group = self._groups.missing(pod.tree)
        if hold.code == "not-created" and group:
            found = group_missing(ObjectKey(namespace, group), self._groups.known())
        elif hold.code == "claim-missing":
            key = ObjectKey(namespace, entry.resource_claim_name or "")
            found = self._missing("ResourceClaim", key, pod, value, hold.entry)
        elif hold.code == "not-created" and template and ObjectKey(namespace, template) not in self._templates():
            key = ObjectKey(namespace, template)
            found = self._missing("ResourceClaimTemplate", key, pod, value, hold.entry)
        elif hold.code == "claim-not-owned":
            found = refused_everywhere("claim-not-owned", hold.text, entry.name)
        elif hold.code == "claim-deleting":
            summary = (
                f"claim {namespace}/{entry.resource_claim_name or entry.name} is being deleted; it is kept until its "
                "last consumer has ended, and new pods cannot use it"
            )
            return [f"{summary} (claim-deleting)"]
        else:
            return []
        return messages.diagnosis_lines(str(pod.key), found)

    def _missing(self, kind: str, key: ObjectKey, pod: QueuedPod, value: Pod, number: int) -> Diagnosis:
        """Return the reason for a missing claim or template, with the first change after which the pod fits, alone or
        with others.

        The reader of the event is known to see only the pod's namespace, so other namespaces are not considered.
        """
        known = {"ResourceClaim": self._claims(), "ResourceClaimTemplate": self._templates()}
        where = template_of(value, owner_of(value))
        reasons, changes = missing_reference(kind, value.spec.resource_claims, number, key, known, where)
        after = partial(self._after, pod, value, where)
        found = with_first(reasons, ((change, after(change).node) for change in changes))
        return found if found.headline.changes else with_further_changes(reasons, changes, after)

    def _after(self, pod: QueuedPod, value: Pod, where: tuple[str, str], change: SuggestedChange) -> AfterChange:
        """Return what would happen to the pod after a change of its references."""
        entries = apply_change(value, change.path.removeprefix(where[1]), change.becomes).spec.resource_claims
        now = self._clock.seconds()
        if now >= self._tried_expire:
            self._tried.clear()
            self._tried_expire = now + _REPORT_DELAY
        key = (pod.key.namespace, pod.demand, entries)
        if key not in self._tried:
            self._tried[key] = self._after_entries(pod, entries)
        return self._tried[key]


def _pod_of(pod: QueuedPod) -> Pod:
    """Return the pod as a value, with the fields that concern its claims."""
    metadata, spec = pod.tree["metadata"], pod.tree["spec"]
    names = ("name", "namespace", "ownerReferences")
    tree = {
        "metadata": {name: metadata[name] for name in names if metadata.get(name) is not None},
        "spec": {"resourceClaims": spec["resourceClaims"]},
    }
    return read_value(tree, Pod)


def after_entries(
    pod: QueuedPod,
    entries: Iterable[PodResourceClaim],
    algorithm: SchedulingAlgorithm,
    templates: Callable[[str, str], Tree | None],
    remedy: Callable[[QueuedPod, NoNode | AttemptFailed, Mapping[ObjectKey, str]], tuple[SuggestedChange, ...]],
) -> AfterChange:
    """Return the node that a pod would get if its claims were those of ``entries``, or the changes that it would need
    then; neither if one of the claims is missing or allocated.

    ``templates`` returns the template with a namespace and name; ``remedy`` the changes after which a pod fits, given
    the names of the templates by the claims that would be generated from them.
    """
    value = _pod_of(pod)
    claims: list[CachedClaim] = []
    made_from: dict[ObjectKey, str] = {}
    for number, entry in enumerate(entries):
        if entry.resource_claim_template_name:
            tree = templates(pod.key.namespace, entry.resource_claim_template_name)
            if tree is None:
                return AfterChange()
            template = read_value(tree, ResourceClaimTemplate)
            made = generated_claim(value, entry, template, str(number))
            made_from[made.key] = template.metadata.name
            claims.append(CachedClaim(to_tree(made), made.spec))
        else:
            known = algorithm.ledger.known.get(ObjectKey(pod.key.namespace, entry.resource_claim_name or ""))
            if known is None or known.allocation is not None or known.is_deleting:
                return AfterChange()
            claims.append(known)
    outcome = algorithm.schedule(pod, claims)
    if isinstance(outcome, NodeAssignment):
        return AfterChange(outcome.node)
    return AfterChange("", remedy(pod, outcome, made_from))
