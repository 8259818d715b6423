"""A plan for programs: every field, always there, prices as exact decimals in text."""

from __future__ import annotations

from typing import Any

import msgspec

from allotment.tools.plan.report import Choice, Plan
from allotment.tools.plan.wording import verdict


def data_of(
    plan: Plan, left_out: tuple[dict[str, Any], ...] = (), compared: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The plan as JSON has it. ``left_out``: rows of the catalogue that could not be read."""
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plan, enc_hook=str))
    return {
        "verdict": verdict(plan),
        "total": str(plan.total),
        "bound": str(plan.bound),
        "gap": round(plan.gap, 6),
        "machines": fields.get("machines", []),
        "existing": fields.get("existing", []),
        "unserved": fields.get("unserved", []),
        "choices": [_choice(one) for one in plan.choices],
        "relaxations": fields.get("relaxations", []),
        "notes": fields.get("notes", []),
        "catalogProblems": list(left_out),
        **({"compared": compared} if compared is not None else {}),
    }


def _choice(choice: Choice) -> dict[str, Any]:
    """A group and its verdicts, every field of each."""
    return {
        "pods": [str(pod) for pod in choice.pods],
        "owner": choice.owner,
        "verdicts": [
            {
                "instance": one.instance,
                "serves": not one.code,
                "code": one.code,
                "text": one.text,
                "perHour": None if one.per_hour is None else str(one.per_hour),
                "holds": one.holds,
                "mode": one.mode,
                "borderline": one.borderline,
            }
            for one in choice.verdicts
        ],
    }
