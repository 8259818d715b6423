"""A plan as JSON: all fields are always present, prices are exact decimals as strings, unknown values are null."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from allotment.engine.refusal import Diagnosis
from allotment.model.meta import ObjectKey
from allotment.planning.reasons.wording import plan_summary
from allotment.planning.report import GroupVerdicts, ProvisioningPlan


def data_of(
    plan: ProvisioningPlan, left_out: tuple[dict[str, Any], ...] = (), compared: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the plan as JSON data. ``left_out``: the rejected rows of the catalog."""
    return {
        "verdict": plan_summary(plan),
        "total": str(plan.total),
        "bound": str(plan.bound) if plan.bound or not plan.machines else None,
        "gap": round(plan.gap, 6) if plan.bound or not plan.machines else None,
        "machines": whole(plan.machines),
        "existing": whole(plan.existing),
        "unserved": whole(plan.unserved),
        "choices": [_choice(choice) for choice in plan.choices],
        "relaxations": whole(plan.relaxations),
        "untried": whole(plan.untried),
        "notes": list(plan.notes),
        "catalogProblems": list(left_out),
        **({"compared": compared} if compared is not None else {}),
    }


def whole(value: object) -> Any:
    """Convert a value with all of its fields, including empty ones; reasons are those of ``allot explain``."""
    if isinstance(value, Diagnosis):
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))
    if isinstance(value, msgspec.Struct) and not isinstance(value, ObjectKey):
        fields = msgspec.structs.fields(value)
        return {field.encode_name: whole(getattr(value, field.name)) for field in fields}
    if isinstance(value, ObjectKey):
        return {"namespace": value.namespace, "name": value.name}
    if isinstance(value, Mapping):
        return {str(key): whole(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [whole(item) for item in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _choice(choice: GroupVerdicts) -> dict[str, Any]:
    """Return a group and its verdicts with all fields."""
    return {
        "pods": whole(choice.pods),
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
