"""Node groups: one for each type, mode, zone and capacity type, since the machines of a group must all be alike.

Which there are, a user says as cluster-autoscaler's own ``--nodes`` does: least, most, and which. A group's id and the
names of its machines follow from what it is, so that after a restart each machine is found in its group again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from random import Random
from typing import Final, NamedTuple

from allotment.fleet.catalog import InstanceType, Template, template_of
from allotment.fleet.catalog.instance_type import CapacityType
from allotment.fleet.errors import FleetError, suggestion
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.offerings.offers import offers_of

#: On a group's nodes: which group.
LABEL: Final = "allotment.dev/node-group"

#: Of the type's name in a machine's name, which is also a node's and a label's value: at most 63 bytes.
_LONGEST: Final = 40
#: Letters and digits that cannot be taken for one another.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_NAME: Final = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}")
_MOST: Final = 2**31 - 1


class InvalidNodeGroups(ValueError):
    """A description of node groups cannot be used. ``hint``: what to do."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


class NodeGroupSpec(NamedTuple):
    """``MIN:MAX:PROVIDER/TYPE[/MODE]``, where the type may be a shell pattern."""

    least: int
    most: int
    pattern: str
    mode: str = ""


def parse_nodes(text: str) -> NodeGroupSpec:
    """What a user writes. Raises BadNodes.

    >>> parse_nodes("0:4:aws/p4d.24xlarge/static-mig=1g.5gb:7")
    NodeGroupSpec(least=0, most=4, pattern='aws/p4d.24xlarge', mode='static-mig=1g.5gb:7')
    """
    least, _, rest = text.partition(":")
    most, _, which = rest.partition(":")
    provider, _, rest = which.partition("/")
    name, _, mode = rest.partition("/")
    if not (least.isdecimal() and most.isdecimal() and provider and name):
        raise InvalidNodeGroups(
            f"--nodes: expected MIN:MAX:PROVIDER/TYPE[/MODE], found {text!r}", "for example 0:10:aws/g5.*"
        )
    if not 0 <= int(least) <= int(most) <= _MOST:
        raise InvalidNodeGroups(f"--nodes: expected MIN up to MAX, found {least}:{most} in {text!r}")
    return NodeGroupSpec(int(least), int(most), f"{provider}/{name}", mode)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Machines of one kind. ``price``: USD per hour of one."""

    id: str
    name: str
    """Short, for names of machines and a label's value."""
    instance: InstanceType
    mode: str
    zone: str
    capacity_type: CapacityType
    price: Decimal
    least: int
    most: int

    def template(self, node: str, kube: str) -> Template:
        """A node of the group, with the slices that its drivers will publish."""
        return template_of(self.instance, self.mode, node, zone=self.zone, capacity_type=self.capacity_type, kube=kube)

    def new_name(self, random: Random) -> str:
        """A name for another machine."""
        return f"{self.name}-{''.join(random.choices(_LETTERS, k=5))}"


def group_in(name: str) -> str:
    """Name of the group that a machine's name tells; empty for the machines of others.

    >>> group_in("g5-xlarge-05ced461-x7k2p")
    'g5-xlarge-05ced461'
    """
    found = _NAME.fullmatch(name)
    return found[1] if found else ""


def groups_of(
    catalog: Sequence[InstanceType], specs: Iterable[NodeGroupSpec], limits: PlanLimits
) -> tuple[NodeGroup, ...]:
    """The groups that are wanted, of types with a known price; of two wishes for one group the first counts.

    Raises BadNodes for a wish that nothing in the catalogue fulfils, and for a mode that a type's GPUs do not have.
    """
    found: dict[str, NodeGroup] = {}
    for spec in specs:
        types = [instance for instance in catalog if fnmatchcase(instance.key, spec.pattern)]
        offers = [
            offer for instance in types for offer in offers_of(instance, limits, each_zone=True, each_capacity=True)
        ]
        if not offers:
            raise InvalidNodeGroups(*_nothing(spec, types, catalog))
        for offer in offers:
            assert offer.price is not None
            id = "/".join(filter(None, (offer.instance.key, spec.mode, offer.zone, offer.capacity_type)))
            if id in found:
                continue
            group = NodeGroup(
                id, _name(offer.instance, id), offer.instance, spec.mode, offer.zone, offer.capacity_type,
                offer.price, spec.least, spec.most,
            )  # fmt: skip
            try:
                group.template("any", "1.36")
            except FleetError as error:
                raise InvalidNodeGroups(f"--nodes {spec.pattern}/{spec.mode}: {error}", error.hint) from None
            found[id] = group
    return tuple(found.values())


def _nothing(wish: NodeGroupSpec, types: Sequence[InstanceType], catalog: Sequence[InstanceType]) -> tuple[str, str]:
    if not types:
        near = suggestion(wish.pattern, [instance.key for instance in catalog])
        return (
            f"--nodes: no instance type in the catalogue matches {wish.pattern}",
            near or "run allot catalog for a list",
        )
    why = next((instance.unusable for instance in types if instance.unusable), "")
    reason = why or "none is available within the limits at a known price"
    return f"--nodes: {wish.pattern} makes no node group: {reason}", "see allot catalog, --zone, --capacity-type"


def _name(instance: InstanceType, id: str) -> str:
    kind = re.sub(r"[^a-z0-9]+", "-", instance.name.lower())[:_LONGEST].strip("-")
    return f"{kind}-{hashlib.sha256(id.encode()).hexdigest()[:8]}"
