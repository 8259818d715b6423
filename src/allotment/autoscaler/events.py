"""Events on pods and nodes: machines ordered, the reason why none is ordered, and nodes removed.

The reasons are those of other autoscalers, so that existing tools find them.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import Clock
from allotment.cluster.lasting_events import LastingEvents, StateEvent
from allotment.cluster.recorder import EventType, Recorder
from allotment.model.trees import Tree
from allotment.planning.reasons.wording import dollars
from allotment.planning.report import PlannedMachine

_ORDERED: Final = "TriggeredScaleUp"
_PROPOSED: Final = "ProposedScaleUp"
_NOT: Final = "NotTriggerScaleUp"
_FAILED: Final = "FailedScaleUp"


class EventReporter:
    """Records events on pods and nodes; those on pods once, and again only before the API server deletes them."""

    def __init__(self, recorder: Recorder, clock: Clock, dry_run: bool) -> None:
        self._recorder = recorder
        self._dry_run = dry_run
        self._waiting: set[str] = set()
        self._reported = LastingEvents(recorder, clock, lambda uid: uid in self._waiting)

    def keep(self, waiting: set[str]) -> None:
        """Forget pods that are not in ``waiting`` (uids)."""
        self._waiting = waiting
        self._reported.keep(waiting)

    def close(self) -> None:
        """Repeat nothing any more."""
        self._reported.close()

    def ordered(self, pod: CachedItem[Any], machine: PlannedMachine) -> None:
        """A machine was ordered for a pod, or would have been."""
        if self._dry_run:
            self._record(
                pod, "Normal", _PROPOSED, f"would order {describe_machine(machine)}; nothing is ordered in a dry run"
            )
        else:
            self._record(pod, "Normal", _ORDERED, f"ordered {describe_machine(machine)} as node {machine.node}")

    def awaited(self, pod: CachedItem[Any], node: str) -> None:
        """A pod is planned onto a machine in flight."""
        self._record(pod, "Normal", _ORDERED, f"planned on node {node}, which is being provisioned")

    def unserved(self, pod: CachedItem[Any], text: str) -> None:
        """No machine will be ordered for a pod."""
        self._record(pod, "Normal", _NOT, f"no machine is ordered: {text}")

    def backed_off(self, pod: CachedItem[Any], plans: int, seconds: float) -> None:
        """No machine is ordered for a pod for a while, because earlier ones did not help."""
        text = (
            f"machines for equivalent pods failed or did not serve them {plans} times in a row (see the events "
            "FailedScaleUp and MachineReady); the next machine is ordered no earlier than "
            f"{format_duration(seconds)} after the last one"
        )
        self.unserved(pod, text)

    def failed(self, pod: CachedItem[Any], text: str) -> None:
        """A machine that was ordered for a pod failed."""
        self._reported.forget(pod.uid)
        self._recorder.event(pod.tree, "Warning", _FAILED, text, "ScalingUp")

    def removal(self, node: Tree, text: str) -> None:
        """A node is removed, or would be."""
        reason = "ProposedScaleDown" if self._dry_run else "ScaleDown"
        self._recorder.event(node, "Normal", reason, text, "ScalingDown")

    def blocked(self, node: Tree, text: str) -> None:
        """A node could not be removed."""
        self._recorder.event(node, "Warning", "ScaleDownFailed", text, "ScalingDown")

    def ready(self, node: Tree, text: str) -> None:
        """A node is complete."""
        self._recorder.event(node, "Normal", "MachineReady", text, "ScalingUp")

    def _record(self, pod: CachedItem[Any], type: EventType, reason: str, text: str) -> None:
        self._reported.record(pod.uid, (reason, text), StateEvent(pod.tree, type, reason, text, "ScalingUp"))


def describe_machine(machine: PlannedMachine) -> str:
    """Return a description of a machine.

    >>> from decimal import Decimal
    >>> describe_machine(
    ...     PlannedMachine(
    ...         node="n",
    ...         instance="aws/g5.xlarge",
    ...         form="1xa10g",
    ...         zone="us-east-1a",
    ...         capacity_type="spot",
    ...         usd_per_hour=Decimal("0.50"),
    ...     )
    ... )
    'aws/g5.xlarge (spot, us-east-1a, 0.50 USD/h)'
    """
    mode = machine.form.partition("/")[2]
    parts = (machine.capacity_type, machine.zone, mode, f"{dollars(machine.usd_per_hour)} USD/h")
    return f"{machine.instance} ({', '.join(filter(None, parts))})"


def format_duration(seconds: float) -> str:
    """Return a duration in seconds or minutes.

    >>> format_duration(42), format_duration(60), format_duration(1800)
    ('42 s', '1 min', '30 min')
    """
    return f"{seconds:.0f} s" if round(seconds) % 60 else f"{seconds / 60:.0f} min"
