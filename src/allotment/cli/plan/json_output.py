"""A plan for programs: every field, always there, prices as exact decimals in text; null is what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from allotment.engine.refusal import Diagnosis
from allotment.model.meta import ObjectKey
from allotment.tools.plan.reasons.wording import plan_summary
from allotment.tools.plan.report import GroupVerdicts, ProvisioningPlan


def data_of(
    plan: ProvisioningPlan, left_out: tuple[dict[str, Any], ...] = (), compared: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The plan as JSON has it. ``left_out``: rows of the catalogue that could not be read."""
    return {
        "verdict": plan_summary(plan),
        "total": str(plan.total),
        "bound": str(plan.bound) if plan.bound or not plan.machines else None,
        "gap": round(plan.gap, 6) if plan.bound or not plan.machines else None,
        "machines": whole(plan.machines),
        "existing": whole(plan.existing),
        "unserved": whole(plan.unserved),
        "choices": [_choice(one) for one in plan.choices],
        "relaxations": whole(plan.relaxations),
        "notes": list(plan.notes),
        "catalogProblems": list(left_out),
        **({"compared": compared} if compared is not None else {}),
    }


def whole(value: object) -> Any:
    """A value with all of its fields, those that are empty too; reasons of the engine as ``allot explain`` has them."""
    if isinstance(value, Diagnosis):
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))
    if isinstance(value, msgspec.Struct) and not isinstance(value, ObjectKey):
        fields = msgspec.structs.fields(value)
        return {field.encode_name: whole(getattr(value, field.name)) for field in fields}
    if isinstance(value, ObjectKey):
        return {"namespace": value.namespace, "name": value.name}
    if isinstance(value, Mapping):
        return {str(key): whole(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [whole(one) for one in value]
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _choice(choice: GroupVerdicts) -> dict[str, Any]:
    """A group and its verdicts, every field of each."""
    return {
        "pods": whole(choice.pods),
        "owner": choice.owner,
        "verdicts": [
            {
                "instance": one.instance,
                "serves": not one.code,
                "code": one.code,
                "text": one.text,
                "perHour": _price(one.per_hour),
                "holds": one.holds,
                "mode": one.mode,
                "borderline": one.borderline,
            }
            for one in choice.verdicts
        ],
    }


def _price(price: Decimal | None) -> str | None:
    return None if price is None else str(price)
