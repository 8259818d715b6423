"""The verdict on a group of pending pods, as a value: Kubernetes' message, and the data for an explanation."""

from __future__ import annotations

from typing import NamedTuple

from allotment.explanation.cause_key import CauseKey
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.node_fit.filters.refusal import Refusal


class Verdict(NamedTuple):
    """``reason``: Unschedulable or SchedulerError, as in the condition."""

    reason: str
    sentence: str
    pending: tuple[ResourceClaim, ...] = ()
    """The claims that had to be allocated."""
    refusals: dict[int, Refusal] | None = None
    """By node index; None if no node was checked or the attempt ended with an error."""
    missing_group: str = ""
    """The pod's PodGroup, if it does not exist."""
    full_claim: tuple[str, int] | None = None
    """A claim with the maximum number of consumers, and their number."""
    unreachable_claims: tuple[str, ...] = ()
    """Claims that are allocated where the pod cannot use them."""
    nominated_node: str | None = None
    """The node on which pods were preempted; empty to clear an earlier nomination, None to keep it."""
    gang: tuple[ObjectKey, int] | None = None
    """The gang with which the pod was tried, and the number of pods that it requires; None if that is 1."""
    subject: str = ""
    """The meaning of ``sentence`` without its counts, if no node was refused and it has counts."""

    @property
    def cause(self) -> CauseKey:
        """The meaning of Kubernetes' message without its counts."""
        texts = {text for refusal in (self.refusals or {}).values() for text in refusal.texts}
        return CauseKey("", ", ".join(sorted(texts)) or self.subject or self.sentence)
