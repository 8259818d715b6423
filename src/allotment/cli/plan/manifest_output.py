"""``allot plan -o nodeclaims``: the plan as manifests for Karpenter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allotment.cli.inputs.node_classes import node_classes
from allotment.cli.output.errors import Mistake
from allotment.model.serialization import to_yaml
from allotment.tools.plan.provisioning.nodeclaims import ClaimSettings, NoNodeClass, manifests
from allotment.tools.plan.report import PlannedMachine


def nodeclaims(machines: Sequence[PlannedMachine], words: Sequence[str] = ()) -> str:
    """One document for each object. ``words``: ``--node-class``. Raises Mistake where no NodeClass is known."""
    bought = sorted({machine.instance.partition("/")[0] for machine in machines})
    settings = ClaimSettings(node_classes=node_classes(words, bought) if bought else {})
    try:
        objects: Sequence[dict[str, Any]] = manifests(machines, settings)
    except NoNodeClass as error:
        hint = "say --node-class GROUP/KIND/NAME, or plan for one cloud that has a Karpenter: --catalog aws"
        raise Mistake(str(error), hint) from None
    return to_yaml(objects)
