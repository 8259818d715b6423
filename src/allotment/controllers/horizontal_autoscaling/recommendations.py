"""The replicas that an autoscaler sets, given those that its metrics recommend.

Without ``spec.behavior``, scaling down follows the highest recommendation of the last five minutes, and scaling up at
most doubles. With it, policies limit the change in each direction, and windows stabilize it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from allotment.model.trees import Tree

#: Seconds of the flag --horizontal-pod-autoscaler-downscale-stabilization.
DOWNSCALE_SECONDS: Final = 300.0
_LIMIT_FACTOR: Final = 2.0
_LIMIT_MINIMUM: Final = 4.0
_MOST: Final = 2**31 - 1

_FASTER: Final = "the desired replica count is increasing faster than the maximum scale rate"
_SLOWER: Final = "the desired replica count is decreasing faster than the maximum scale rate"
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_READY: Final = ("ReadyForNewScale", "recommended size matches current size")
_DOWN_STABILIZED: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_UP_STABILIZED: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)


class Limits(NamedTuple):
    """The replicas that a target has, and between which it is scaled."""

    current: int
    minimum: int
    maximum: int


class Decision(NamedTuple):
    """The replicas to set, and reason and message of the conditions AbleToScale and ScalingLimited."""

    replicas: int
    able: tuple[str, str]
    limited: bool
    limit: tuple[str, str]


class _Past(NamedTuple):
    amount: int
    seconds: float


class History:
    """The recent recommendations and changes of one autoscaler. Times are seconds of a monotonic clock."""

    def __init__(self, replicas: int, now: float) -> None:
        self._recommendations = [_Past(replicas, now)]
        self._ups: list[_Past] = []
        self._downs: list[_Past] = []

    def scaled(self, before: int, after: int, behavior: Tree | None, now: float) -> None:
        """Record a change of the target's replicas."""
        if behavior is None:
            return
        changes, rules = (self._ups, "scaleUp") if after > before else (self._downs, "scaleDown")
        longest = max((policy["periodSeconds"] for policy in behavior[rules].get("policies") or ()), default=0)
        changes[:] = [change for change in changes if change.seconds >= now - longest]
        changes.append(_Past(abs(after - before), now))

    def decide(self, desired: int, limits: Limits, behavior: Tree | None, now: float) -> Decision:
        """Limit and stabilize what the metrics recommend, which is recorded."""
        if behavior is None:
            stable = self._highest(desired, now)
            able = _READY if stable == desired else _DOWN_STABILIZED
            replicas, limit = _limited(stable, limits)
        else:
            stable = self._stabilized(desired, limits.current, behavior, now)
            stabilized = _UP_STABILIZED if desired >= limits.current else _DOWN_STABILIZED
            able = _READY if stable == desired else stabilized
            replicas, limit = self._limited_by_policies(stable, limits, behavior, now)
        return Decision(replicas, able, replicas != stable, limit)

    def _highest(self, desired: int, now: float) -> int:
        recent = [past for past in self._recommendations if past.seconds >= now - DOWNSCALE_SECONDS]
        self._recommendations = [*recent, _Past(desired, now)]
        return max(past.amount for past in self._recommendations)

    def _stabilized(self, desired: int, current: int, behavior: Tree, now: float) -> int:
        up_window = behavior["scaleUp"].get("stabilizationWindowSeconds") or 0
        down_window = behavior["scaleDown"].get("stabilizationWindowSeconds")
        down_window = DOWNSCALE_SECONDS if down_window is None else down_window
        past = self._recommendations
        lowest = min([desired, *(each.amount for each in past if each.seconds > now - up_window)])
        highest = max([desired, *(each.amount for each in past if each.seconds > now - down_window)])
        longest = max(up_window, down_window)
        self._recommendations = [*(each for each in past if each.seconds >= now - longest), _Past(desired, now)]
        return min(max(current, lowest), highest)

    def _limited_by_policies(
        self, desired: int, limits: Limits, behavior: Tree, now: float
    ) -> tuple[int, tuple[str, str]]:
        current = limits.current
        if desired > current:
            most = max(self._limit(current, behavior["scaleUp"], now, up=True), current)
            highest, limit = (most, ("ScaleUpLimit", _FASTER)) if limits.maximum > most else (limits.maximum, _TOO_MANY)
            return (highest, limit) if desired > highest else (desired, _WITHIN)
        if desired < current:
            least = min(self._limit(current, behavior["scaleDown"], now, up=False), current)
            lowest, limit = (
                (least, ("ScaleDownLimit", _SLOWER)) if limits.minimum < least else (limits.minimum, _TOO_FEW)
            )
            return (lowest, limit) if desired < lowest else (desired, _WITHIN)
        return desired, _WITHIN

    def _limit(self, current: int, rules: Tree, now: float, *, up: bool) -> int:
        """The replicas that the policies of a direction allow."""
        select = rules.get("selectPolicy") or "Max"
        if select == "Disabled":
            return current
        proposals: list[int] = []
        for policy in rules.get("policies") or ():
            period, value = policy["periodSeconds"], policy["value"]
            start = current - _changed(self._ups, period, now) + _changed(self._downs, period, now)
            if policy["type"] == "Pods":
                proposals.append(start + value if up else start - value)
            elif up:
                proposals.append(math.ceil(start * (1 + value / 100)))
            else:
                proposals.append(int(start * (1 - value / 100)))
        if not proposals:
            return current
        # The policy that allows the largest change is the highest proposal up, and the lowest one down.
        return max(proposals) if (select == "Max") == up else min(proposals)


def _changed(changes: Sequence[_Past], period: float, now: float) -> int:
    return sum(change.amount for change in changes if change.seconds > now - period)


def _limited(desired: int, limits: Limits) -> tuple[int, tuple[str, str]]:
    """Limit replicas without policies: at most twice as many, or four."""
    most = min(int(max(_LIMIT_FACTOR * limits.current, _LIMIT_MINIMUM)), _MOST)
    highest, limit = (most, ("ScaleUpLimit", _FASTER)) if limits.maximum > most else (limits.maximum, _TOO_MANY)
    if desired < limits.minimum:
        return limits.minimum, _TOO_FEW
    return (highest, limit) if desired > highest else (desired, _WITHIN)
