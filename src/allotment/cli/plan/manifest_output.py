"""``allot plan -o nodeclaims``: the plan as manifests for Karpenter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from allotment.cli.inputs.node_classes import node_classes
from allotment.errors import InputError
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.catalog.templates import template_of
from allotment.model.core import Node
from allotment.model.serialization import to_yaml
from allotment.model.trees import manifest_of
from allotment.planning.provisioning.nodeclaims import NodeClaimSettings, NodeClassNotFoundError, manifests
from allotment.planning.report import PlannedMachine


def nodes(machines: Sequence[PlannedMachine], catalog: Iterable[InstanceType]) -> str:
    """Return a Node for each machine, as YAML, without the fields that kubelets add."""
    types = {instance_type.key: instance_type for instance_type in catalog}
    return to_yaml([manifest_of(_node(machine, types[machine.instance])) for machine in machines])


def _node(machine: PlannedMachine, instance: InstanceType) -> Node:
    mode = machine.form.partition("/")[2]
    made = template_of(instance, mode, machine.node, zone=machine.zone, capacity_type=machine.capacity_type)
    return made.node


def nodeclaims(machines: Sequence[PlannedMachine], words: Sequence[str] = ()) -> str:
    """Return NodeClaims as YAML. ``words``: ``--node-class``. Raises InputError if a provider has no NodeClass."""
    providers = sorted({machine.instance.partition("/")[0] for machine in machines})
    settings = NodeClaimSettings(node_classes=node_classes(words, providers) if providers else {})
    try:
        objects: Sequence[dict[str, Any]] = manifests(machines, settings)
    except NodeClassNotFoundError as error:
        hint = "use --node-class GROUP/KIND/NAME, or plan for one provider with Karpenter support: --catalog aws"
        raise InputError(str(error), hint) from None
    return to_yaml(objects)
