"""What pods and nodes hear: that a machine is on its way, that none will be and why, that one goes.

The reasons are those that users know from other autoscalers, so that what looks for them finds them.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cached_item import Item
from allotment.cluster.recorder import Recorder
from allotment.model.trees import Tree
from allotment.tools.plan.reasons.wording import dollars
from allotment.tools.plan.report import PlannedMachine

_ORDERED: Final = "TriggeredScaleUp"
_PROPOSED: Final = "ProposedScaleUp"
_NOT: Final = "NotTriggerScaleUp"
_FAILED: Final = "FailedScaleUp"


class EventReporter:
    """Speaks about pods and nodes, and not twice about the same."""

    def __init__(self, recorder: Recorder, dry_run: bool) -> None:
        self._recorder = recorder
        self._dry_run = dry_run
        self._reported: dict[str, str] = {}

    def keep(self, waiting: set[str]) -> None:
        """Pods (uid) that wait no more are forgotten."""
        self._reported = {uid: text for uid, text in self._reported.items() if uid in waiting}

    def ordered(self, pod: Item[Any], machine: PlannedMachine) -> None:
        """A machine was ordered for a pod, or would have been."""
        if self._dry_run:
            self._record(pod, "Normal", _PROPOSED, f"would order {describe_machine(machine)}; nothing is ordered in a dry run")
        else:
            self._record(pod, "Normal", _ORDERED, f"ordered {describe_machine(machine)} as node {machine.node}")

    def awaited(self, pod: Item[Any], node: str) -> None:
        """A pod has its place on a machine that is under way already."""
        self._record(pod, "Normal", _ORDERED, f"has its place on node {node}, which is on its way")

    def unserved(self, pod: Item[Any], text: str) -> None:
        """No machine will come for a pod."""
        self._record(pod, "Normal", _NOT, f"no machine is ordered: {text}")

    def backed_off(self, pod: Item[Any], plans: int, seconds: float) -> None:
        """No machine is ordered for a pod for a while, since those before were of no use to it."""
        text = (
            f"{plans} times in a row machines that were ordered for such pods came to nothing (see FailedScaleUp and "
            f"MachineReady); the next is ordered no sooner than {format_duration(seconds)} after the last"
        )
        self.unserved(pod, text)

    def failed(self, pod: Item[Any], text: str) -> None:
        """A machine that was ordered for a pod does not come."""
        self._reported.pop(pod.uid, None)
        self._recorder.event(pod.tree, "Warning", _FAILED, text, "ScalingUp")

    def removal(self, node: Tree, text: str) -> None:
        """A node goes, or would go."""
        reason = "ProposedScaleDown" if self._dry_run else "ScaleDown"
        self._recorder.event(node, "Normal", reason, text, "ScalingDown")

    def blocked(self, node: Tree, text: str) -> None:
        """A node could go but for something."""
        self._recorder.event(node, "Warning", "ScaleDownFailed", text, "ScalingDown")

    def ready(self, node: Tree, text: str) -> None:
        """A node of ours has all that it was planned with."""
        self._recorder.event(node, "Normal", "MachineReady", text, "ScalingUp")

    def _record(self, pod: Item[Any], type: Any, reason: str, text: str) -> None:
        report = f"{reason} {text}"
        if self._reported.get(pod.uid) != report:
            self._reported[pod.uid] = report
            self._recorder.event(pod.tree, type, reason, text, "ScalingUp")


def describe_machine(machine: PlannedMachine) -> str:
    """A machine in a sentence.

    >>> from decimal import Decimal
    >>> described(
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
    """A time to wait, in the unit that is read best.

    >>> minutes(42), minutes(60), minutes(1800)
    ('42 s', '1 min', '30 min')
    """
    return f"{seconds:.0f} s" if round(seconds) % 60 else f"{seconds / 60:.0f} min"
