"""The result of ``explain`` for DeviceClasses: the devices that each selects, or why it selects none."""

from __future__ import annotations

from typing import Any

from allotment.engine.refusal import Diagnosis
from allotment.explanation.matches import ClassMatches
from allotment.model.meta import Value


class ClassAnswer(ClassMatches, frozen=True, omit_defaults=False):
    """The devices that a class selects, by node. ``reasons``: why it selects none."""

    reasons: Diagnosis | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints: of the reasons, only the first one."""
        data = {"matched": self.matched, "devices": self.devices, **super().to_dict()}
        del data["reasons"]
        if self.reasons is not None:
            headline = self.reasons.headline.to_dict()
            data["reason"] = {name: headline[name] for name in ("code", "summary", "nearest") if name in headline}
        return data


class ClassExplanation(Value, frozen=True):
    """The answer for each class. ``next``: the command that lists the devices, if a class selects none of them."""

    classes: tuple[ClassAnswer, ...] = ()
    next: str = ""

    @property
    def select(self) -> bool:
        """Whether every class selects devices."""
        return all(self.classes)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints."""
        data: dict[str, Any] = {"classes": [answer.to_dict() for answer in self.classes]}
        return {**data, "next": self.next} if self.next else data
