"""Pods that are not tried at all: gates, claims that are not there (yet) or are going.

Kubernetes parks such pods without a word: no condition, no event. A condition would change what programs see, so it
stays out here, too; but an event tells people what is missing, once it is clear that it does not come by itself. While
claims of other pods come, this one's will have its turn: that a thousand pods are new at once is no news.
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
from allotment.scheduler.pod_groups import Grouping
from allotment.scheduler.pods import Hold, WaitingPod
from allotment.tools.explain import messages
from allotment.tools.explain.obstacles import group_missing, reference_missing, refused_everywhere

Names = Callable[[], Collection[ObjectKey]]

#: Seconds without any new claim after which somebody is told that one is missing.
_PATIENCE: Final = 1.0
#: How often that may begin anew.
_AGAIN: Final = 30


class Held:
    """The pods that are held back, and why."""

    def __init__(
        self, clock: Clock, recorder: Recorder, claims: Names, templates: Names, groups: Grouping
    ) -> None:  # fmt: skip
        self._clock = clock
        self._recorder = recorder
        self._claims = claims
        self._templates = templates
        self._groups = groups
        self.pods: dict[str, tuple[WaitingPod, Hold | None]] = {}
        """By uid; without a Hold the pod has gates."""
        self._timers: dict[str, Timer] = {}
        self._told: dict[str, str] = {}

    def put(self, pod: WaitingPod, hold: Hold | None) -> None:
        """A pod is held back."""
        self.pods[pod.uid] = (pod, hold)
        if hold is not None and pod.uid not in self._timers:
            self._await(pod.uid, _AGAIN)

    def remove(self, uid: str) -> WaitingPod | None:
        """A pod is held back no longer."""
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        found = self.pods.pop(uid, None)
        return found[0] if found is not None else None

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self.remove(uid)
        self._told.pop(uid, None)

    def close(self) -> None:
        """Call off everything that is to come."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _await(self, uid: str, again: int) -> None:
        known = len(self._claims())
        self._timers[uid] = self._clock.later(_PATIENCE, lambda: self._tell(uid, known, again))

    def _tell(self, uid: str, known: int, again: int) -> None:
        """Tell why a pod is held back, or wait on. ``known``: how many claims there were before."""
        self._timers.pop(uid, None)
        pod, hold = self.pods.get(uid, (None, None))
        if pod is None or hold is None or self._told.get(uid) == hold.text:
            return
        lines = self._explained(pod, hold)
        if not lines:
            if again and len(self._claims()) > known:
                self._await(uid, again - 1)
                return
            entry = pod.tree["spec"]["resourceClaims"][hold.entry]
            template = entry.get("resourceClaimTemplateName")
            lines = [f"the claim for {entry['name']} has not been made yet (template {template})"]
        self._told[uid] = hold.text
        self._recorder.event(pod.tree, "Warning", "FailedScheduling", messages.event_note(lines, hold.text), "Scheduling")

    def _explained(self, pod: WaitingPod, hold: Hold) -> list[str]:
        """What is wrong; nothing where a claim has only not been made yet."""
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
                f"claim {namespace}/{entry.resource_claim_name or entry.name} is being deleted; it stays until its "
                "last user ends, and takes no new ones"
            )
            return [f"{summary} (claim-deleting)"]
        else:
            return []
        return messages.diagnosis_lines(str(pod.key), found, likely)
