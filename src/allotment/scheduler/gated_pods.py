"""Pods that are not attempted: pods with scheduling gates, or with claims that are missing or being deleted.

Kubernetes holds such pods without a condition or event. A condition would change what other programs see, so none is
written here either; an event reports what is missing once it is clear that it will not appear by itself. While claims
of other pods are still being created, nothing is reported: many new pods at the same time are normal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from allotment.cluster.clock import Clock, Timer
from allotment.cluster.recorder import Recorder
from allotment.engine.refusal import SuggestedChange
from allotment.model.core import PodResourceClaim
from allotment.model.meta import ObjectKey
from allotment.model.trees import to_value
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import HoldReason, QueuedPod
from allotment.tools.explain import messages
from allotment.tools.explain.obstacles import group_missing, reference_missing, refused_everywhere

ObjectKeys = Callable[[], Collection[ObjectKey]]

#: Seconds without any new claim before a missing claim is reported.
_REPORT_DELAY: Final = 1.0
#: How often the delay is restarted at most.
_MAX_EXTENSIONS: Final = 30


class GatedPods:
    """The pods that are held back, and why."""

    def __init__(
        self, clock: Clock, recorder: Recorder, claims: ObjectKeys, templates: ObjectKeys, groups: PodGroups
    ) -> None:  # fmt: skip
        self._clock = clock
        self._recorder = recorder
        self._claims = claims
        self._templates = templates
        self._groups = groups
        self.pods: dict[str, tuple[QueuedPod, HoldReason | None]] = {}
        """By uid; the reason is None for a pod with scheduling gates."""
        self._timers: dict[str, Timer] = {}
        self._reported: dict[str, str] = {}

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
        self._reported.pop(uid, None)

    def close(self) -> None:
        """Cancel all pending reports."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _start_timer(self, uid: str, again: int) -> None:
        known = len(self._claims())
        self._timers[uid] = self._clock.later(_REPORT_DELAY, lambda: self._report(uid, known, again))

    def _report(self, uid: str, known: int, again: int) -> None:
        """Report why a pod is held back, or restart the delay. ``known``: number of claims when the delay began."""
        self._timers.pop(uid, None)
        pod, hold = self.pods.get(uid, (None, None))
        if pod is None or hold is None or self._reported.get(uid) == hold.text:
            return
        lines = self._explain(pod, hold)
        if not lines:
            if again and len(self._claims()) > known:
                self._start_timer(uid, again - 1)
                return
            entry = pod.tree["spec"]["resourceClaims"][hold.entry]
            template = entry.get("resourceClaimTemplateName")
            lines = [f"the claim for {entry['name']} has not been created yet (template {template})"]
        self._reported[uid] = hold.text
        self._recorder.event(
            pod.tree, "Warning", "FailedScheduling", messages.event_note(lines, hold.text), "Scheduling"
        )

    def _explain(self, pod: QueuedPod, hold: HoldReason) -> list[str]:
        """Return the lines that explain what is wrong; empty if a claim is only not created yet."""
        entries = [to_value(tree, PodResourceClaim) for tree in pod.tree["spec"]["resourceClaims"]]
        entry = entries[hold.entry]
        known = {"ResourceClaim": self._claims(), "ResourceClaimTemplate": self._templates()}
        where = (f"Pod {pod.key}", "")
        likely: tuple[SuggestedChange, ...] = ()
        namespace = pod.key.namespace
        template = entry.resource_claim_template_name
        group = self._groups.missing(pod.tree)
        if hold.code == "not-created" and group:
            found = group_missing(ObjectKey(namespace, group), self._groups.known())
        elif hold.code == "claim-missing":
            key = ObjectKey(namespace, entry.resource_claim_name or "")
            found, likely = reference_missing("ResourceClaim", entries, hold.entry, key, known, where)
        elif hold.code == "not-created" and template and ObjectKey(namespace, template) not in set(self._templates()):
            key = ObjectKey(namespace, template)
            found, likely = reference_missing("ResourceClaimTemplate", entries, hold.entry, key, known, where)
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
        return messages.diagnosis_lines(str(pod.key), found, likely)
