"""Node groups: one for each instance type, mode, zone and capacity type, since machines of a group must be equivalent.

They are given as in cluster-autoscaler's ``--nodes``: minimum, maximum and type. Group ids and machine names follow
from the group's properties, so that machines keep their group after a restart.
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
from allotment.model import DEFAULT_RELEASE
from allotment.planning.limits import PlanLimits
from allotment.planning.offerings.offers import offers_of

#: Label with the group of a node.
LABEL: Final = "allotment.dev/node-group"

#: Maximum length of the type in a machine name; the whole name is a node name and a label value of at most 63 bytes.
_LONGEST: Final = 40
#: Letters and digits that are easy to distinguish.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_NAME: Final = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}")
_MOST: Final = 2**31 - 1


class InvalidNodeGroups(ValueError):
    """Raised for invalid node groups. ``hint``: how to fix it."""

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
    """Parse a value of ``--nodes``. Raises InvalidNodeGroups.

    >>> parse_nodes("0:4:aws/p4d.24xlarge/static-mig=1g.5gb:7")
    NodeGroupSpec(least=0, most=4, pattern='aws/p4d.24xlarge', mode='static-mig=1g.5gb:7')
    """
    least, _, rest = text.partition(":")
    most, _, type_and_mode = rest.partition(":")
    provider, _, rest = type_and_mode.partition("/")
    name, _, mode = rest.partition("/")
    if not (least.isdecimal() and most.isdecimal() and provider and name):
        raise InvalidNodeGroups(
            f"--nodes: expected MIN:MAX:PROVIDER/TYPE[/MODE], found {text!r}", "for example 0:10:aws/g5.*"
        )
    if not 0 <= int(least) <= int(most) <= _MOST:
        limit = "MIN must not exceed MAX" if int(most) <= _MOST else f"MAX must not exceed {_MOST}"
        raise InvalidNodeGroups(f"--nodes: {limit}, found {least}:{most} in {text!r}")
    return NodeGroupSpec(int(least), int(most), f"{provider}/{name}", mode)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A group of equivalent machines. ``price``: USD per hour of one."""

    id: str
    name: str
    """Short name, for machine names and the label."""
    instance: InstanceType
    mode: str
    zone: str
    capacity_type: CapacityType
    price: Decimal
    least: int
    most: int

    def template(self, node: str, kube: str) -> Template:
        """A node of the group with the slices of its drivers."""
        return template_of(self.instance, self.mode, node, zone=self.zone, capacity_type=self.capacity_type, kube=kube)

    def new_name(self, random: Random) -> str:
        """A random name for a new machine."""
        return f"{self.name}-{''.join(random.choices(_LETTERS, k=5))}"


def group_in(name: str) -> str:
    """The group name in a machine name; empty for other machines.

    >>> group_in("g5-xlarge-05ced461-x7k2p")
    'g5-xlarge-05ced461'
    """
    found = _NAME.fullmatch(name)
    return found[1] if found else ""


def groups_of(
    catalog: Sequence[InstanceType], specs: Iterable[NodeGroupSpec], limits: PlanLimits
) -> tuple[NodeGroup, ...]:
    """The groups of the specs, for types with a known price; of two specs for one group, the first counts.

    Raises InvalidNodeGroups for a spec without a match in the catalog, and for an unsupported mode.
    """
    found: dict[str, NodeGroup] = {}
    for spec in specs:
        types = [instance for instance in catalog if fnmatchcase(instance.key, spec.pattern)]
        offers = [
            offer for instance in types for offer in offers_of(instance, limits, each_zone=True, each_capacity=True)
        ]
        if not offers:
            raise InvalidNodeGroups(*_no_match(spec, types, catalog))
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
                group.template("any", DEFAULT_RELEASE)
            except FleetError as error:
                raise InvalidNodeGroups(f"--nodes {spec.pattern}/{spec.mode}: {error.problem}", error.hint) from None
            found[id] = group
    return tuple(found.values())


def _no_match(spec: NodeGroupSpec, types: Sequence[InstanceType], catalog: Sequence[InstanceType]) -> tuple[str, str]:
    if not types:
        near = suggestion(spec.pattern, [instance.key for instance in catalog])
        return (
            f"--nodes: no instance type in the catalog matches {spec.pattern}",
            near or "run allot catalog for a list",
        )
    why = next((instance.unusable for instance in types if instance.unusable), "")
    reason = why or "no matching type is within the limits and has a known price"
    return (
        f"--nodes: cannot make a node group from {spec.pattern}: {reason}",
        "see allot catalog, --zones and --capacity-type",
    )


def _name(instance: InstanceType, id: str) -> str:
    kind = re.sub(r"[^a-z0-9]+", "-", instance.name.lower())[:_LONGEST].strip("-")
    return f"{kind}-{hashlib.sha256(id.encode()).hexdigest()[:8]}"
