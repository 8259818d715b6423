"""``allot plan -o nodeclaims``: the plan as manifests for Karpenter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allotment.cli.mistakes import Mistake
from allotment.model.formats import to_yaml
from allotment.tools.plan.nodeclaims import NoNodeClass, manifests
from allotment.tools.plan.report import PlannedMachine


def nodeclaims(machines: Sequence[PlannedMachine]) -> str:
    """One document for each object. Raises Mistake for machines of a cloud that has no Karpenter."""
    try:
        objects: Sequence[dict[str, Any]] = manifests(machines)
    except NoNodeClass as error:
        raise Mistake(str(error), "plan for one cloud that has a Karpenter: --catalog aws") from None
    return to_yaml(objects)
