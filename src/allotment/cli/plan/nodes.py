"""``allot plan -o machines``: the planned machines as the Nodes that they will be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allotment.cli.output.manifest import plain
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.catalog.templates import template_of
from allotment.model.core import Node
from allotment.model.serialization import to_yaml
from allotment.tools.plan.report import PlannedMachine


def nodes(machines: Sequence[PlannedMachine], catalog: Iterable[InstanceType]) -> str:
    """One Node for each machine, as YAML. What else a cluster's nodes have, their kubelets will add."""
    types = {one.key: one for one in catalog}
    return to_yaml([plain(_node(machine, types[machine.instance])) for machine in machines])


def _node(machine: PlannedMachine, instance: InstanceType) -> Node:
    mode = machine.form.partition("/")[2]
    made = template_of(instance, mode, machine.node, zone=machine.zone, capacity_type=machine.capacity_type)
    return made.node
