"""An order of a machine: the planned machine and the order's name, as stored in the cluster.

The order is stored before the provider is called, so that after a crash every machine that may exist is known. Its name
is derived from the machine and its pods: two processes with the same plan order the same machine only once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from allotment.decoding import decodable
from allotment.model.meta import Value
from allotment.model.trees import Tree
from allotment.planning.report import PlannedMachine

#: The label of each order's ConfigMap.
LABEL: Final = "allotment.dev/order"
_KEY: Final = "order.json"
#: Maximum length of the instance's part of a node's name, which is also a label value: at most 63 bytes.
_LONGEST: Final = 40


class MachineOrder(Value, frozen=True):
    """``confirmed``: the provider accepted it. ``initialised``: when its node and all slices were complete; empty: not
    yet. ``leaving``: why it is being released; empty: it is kept.
    """

    name: str
    machine: PlannedMachine
    ordered: str
    confirmed: bool = False
    initialised: str = ""
    leaving: str = ""

    @property
    def mode(self) -> str:
        """The partitioning mode of its GPUs, as in ``--fleet``; empty: whole GPUs."""
        return self.machine.form.partition("/")[2]

    @property
    def is_in_flight(self) -> bool:
        """Whether it is not complete yet and not being released."""
        return not self.initialised and not self.leaving


def order_name(machine: PlannedMachine, taken: Container[str]) -> str:
    """Return the name of the order of a planned machine, and of its node if the provider allows it.

    >>> from decimal import Decimal
    >>> machine = PlannedMachine(
    ...     node="new-1",
    ...     instance="aws/g5.xlarge",
    ...     form="1xa10g",
    ...     zone="us-east-1a",
    ...     capacity_type="on-demand",
    ...     usd_per_hour=Decimal("1.006"),
    ... )
    >>> order_name(machine, ())
    'g5-xlarge-05ced461'
    """
    kind = re.sub(r"[^a-z0-9]+", "-", machine.instance.rpartition("/")[2].lower())[:_LONGEST].strip("-")
    pods = sorted(str(placement.pod) for placement in machine.placements)
    identity = "\n".join((machine.instance, machine.form, machine.zone, machine.capacity_type, *pods))
    for number in count():
        digest = hashlib.sha256(f"{identity}\n{number}".encode()).hexdigest()[:8]
        if (name := f"{kind}-{digest}") not in taken:
            return name
    raise AssertionError("there is always another number")


def order_for(machine: PlannedMachine, taken: Container[str], now: str) -> MachineOrder:
    """Return an order for a planned machine; its node gets the order's name."""
    name = order_name(machine, taken)
    # The scheduler allocates the devices; those of the plan are in its report.
    placements = tuple(replace(placement, node=name, claims=()) for placement in machine.placements)
    return MachineOrder(name=name, machine=replace(machine, node=name, placements=placements), ordered=now)


def config_map(order: MachineOrder, namespace: str, provider: str) -> Tree:
    """Return the ConfigMap that stores the order."""
    return {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": f"order-{order.name}", "namespace": namespace, "labels": {LABEL: provider}},
        "data": data_of(order),
    }  # fmt: skip


def data_of(order: MachineOrder) -> dict[str, str]:
    """Return the data of its ConfigMap."""
    return {_KEY: msgspec.json.encode(order).decode()}


def order_of(tree: Tree, provider: str) -> MachineOrder | None:
    """Return the order in a ConfigMap; None if it is not one of this provider. Raises ValueError if it is invalid."""
    metadata = tree["metadata"]
    if (metadata.get("labels") or {}).get(LABEL) != provider:
        return None
    try:
        return msgspec.json.decode((tree.get("data") or {}).get(_KEY, ""), type=decodable(MachineOrder))
    except msgspec.DecodeError as error:
        raise ValueError(f"ConfigMap {metadata['name']}: {_KEY}: {error}") from None
