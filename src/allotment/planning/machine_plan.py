"""A plan as the answer to a user: with the ignored rows of the catalog, a comparison and the next command.

As data, all fields are always present, prices are exact decimals as strings, and unknown values are null.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from allotment.engine.refusal import Diagnosis
from allotment.errors import InvalidManifests
from allotment.model.meta import ObjectKey
from allotment.model.problems import InputProblem
from allotment.planning.comparison import BaselineResult
from allotment.planning.reasons.wording import plan_summary
from allotment.planning.report import GroupVerdicts, ProvisioningPlan


class MachinePlan(ProvisioningPlan, frozen=True):
    """The cheapest machines for pending pods, and how far their cost may be from the optimum.

    ``machines``: the machines to provision, with their pods. ``existing``: placements on existing nodes. ``unserved``:
    pods that are not placed, with the reason. ``total`` and ``bound``: USD per hour of the new machines; no set of
    machines from the catalog that serves the same pods costs less than ``bound``. ``choices``: the instance types for
    each group of equal pods, with the reason why each was chosen or not. ``relaxations``: what the plan costs with one
    requirement less.

    ``catalog_problems``: rows of the user's catalog that were ignored. ``compared``: the cost under the rules of other
    autoscalers, if requested. ``next``: the command that continues; empty if all pods are placed.
    """

    catalog_problems: tuple[InputProblem, ...] = ()
    compared: tuple[BaselineResult, ...] | None = None
    next: str = ""

    @property
    def verdict(self) -> str:
        """The summary in one sentence."""
        return plan_summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``allot plan -o json`` prints."""
        is_bounded = bool(self.bound) or not self.machines
        return {
            "verdict": self.verdict,
            "total": str(self.total),
            "bound": str(self.bound) if is_bounded else None,
            "gap": round(self.gap, 6) if is_bounded else None,
            "machines": _whole(self.machines),
            "existing": _whole(self.existing),
            "unserved": _whole(self.unserved),
            "choices": [_choice(choice) for choice in self.choices],
            "relaxations": _whole(self.relaxations),
            "untried": _whole(self.untried),
            "notes": list(self.notes),
            "catalogProblems": InvalidManifests(self.catalog_problems, lambda _: None).to_dict()["problems"],
            **({"compared": _whole(self.compared)} if self.compared is not None else {}),
            **({"next": self.next} if self.next else {}),
        }


def _whole(value: object) -> Any:
    """Convert a value with all of its fields, including empty ones; reasons are those of ``allot explain``."""
    if isinstance(value, Diagnosis):
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))
    if isinstance(value, msgspec.Struct) and not isinstance(value, ObjectKey):
        fields = msgspec.structs.fields(value)
        return {field.encode_name: _whole(getattr(value, field.name)) for field in fields}
    if isinstance(value, ObjectKey):
        return {"namespace": value.namespace, "name": value.name}
    if isinstance(value, Mapping):
        return {str(key): _whole(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_whole(item) for item in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _choice(choice: GroupVerdicts) -> dict[str, Any]:
    """Return a group and its verdicts with all fields."""
    return {
        "pods": _whole(choice.pods),
        "owner": choice.owner,
        "verdicts": [
            {
                "instance": verdict.instance,
                "serves": not verdict.code,
                "code": verdict.code,
                "text": verdict.text,
                "perHour": _price(verdict.per_hour),
                "holds": verdict.holds,
                "mode": verdict.mode,
                "borderline": verdict.borderline,
            }
            for verdict in choice.verdicts
        ],
    }


def _price(price: Decimal | None) -> str | None:
    return None if price is None else str(price)
