"""An order: a planned machine under a name of ours, as the cluster remembers it.

The order is written before the cloud hears of it, so that whoever comes after a crash finds every machine that may
exist. Its name follows from what is ordered and for whom: two that plan the same order the same machine, once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from allotment.model.meta import Value
from allotment.model.trees import Tree
from allotment.tools.plan.report import PlannedMachine

#: On the ConfigMap of each order.
LABEL: Final = "allotment.dev/order"
_KEY: Final = "order.json"
#: Of the instance's name in a node's name, which also is a label's value: at most 63 bytes.
_LONGEST: Final = 40


class MachineOrder(Value, frozen=True):
    """``confirmed``: the cloud has taken it. ``initialised``: when its node and all its slices were there; empty: not
    yet. ``leaving``: why it is being given back; empty: it stays."""

    name: str
    machine: PlannedMachine
    ordered: str
    confirmed: bool = False
    initialised: str = ""
    leaving: str = ""

    @property
    def mode(self) -> str:
        """What its GPUs are put into, as ``--fleet`` says it; empty: whole GPUs."""
        return self.machine.form.partition("/")[2]

    @property
    def is_in_flight(self) -> bool:
        """Whether it is supply that is still to come."""
        return not self.initialised and not self.leaving


def order_name(machine: PlannedMachine, taken: Container[str]) -> str:
    """A name for a planned machine: of its node, where the cloud lets us choose, and of the order.

    >>> from decimal import Decimal
    >>> machine = PlannedMachine(
    ...     node="new-1",
    ...     instance="aws/g5.xlarge",
    ...     form="1xa10g",
    ...     zone="us-east-1a",
    ...     capacity_type="on-demand",
    ...     usd_per_hour=Decimal("1.006"),
    ... )
    >>> name_of(machine, ())
    'g5-xlarge-05ced461'
    """
    kind = re.sub(r"[^a-z0-9]+", "-", machine.instance.rpartition("/")[2].lower())[:_LONGEST].strip("-")
    pods = sorted(str(seat.pod) for seat in machine.seats)
    what = "\n".join((machine.instance, machine.form, machine.zone, machine.capacity_type, *pods))
    for number in count():
        digest = hashlib.sha256(f"{what}\n{number}".encode()).hexdigest()[:8]
        if (name := f"{kind}-{digest}") not in taken:
            return name
    raise AssertionError("there is always another number")


def order_for(machine: PlannedMachine, taken: Container[str], now: str) -> MachineOrder:
    """An order for a planned machine, which then has the order's name as that of its node."""
    name = order_name(machine, taken)
    # Which devices the pods get is the scheduler's to say; the plan's are told in its report.
    seats = tuple(replace(seat, node=name, claims=()) for seat in machine.seats)
    return MachineOrder(name=name, machine=replace(machine, node=name, seats=seats), ordered=now)


def config_map(order: MachineOrder, namespace: str, provider: str) -> Tree:
    """The order as the cluster keeps it."""
    return {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": f"order-{order.name}", "namespace": namespace, "labels": {LABEL: provider}},
        "data": data_of(order),
    }  # fmt: skip


def data_of(order: MachineOrder) -> dict[str, str]:
    """The data of its ConfigMap."""
    return {_KEY: msgspec.json.encode(order).decode()}


def order_of(tree: Tree, provider: str) -> MachineOrder | None:
    """The order that a ConfigMap is; None for what is none of ours. Raises ValueError for one that nobody can read."""
    metadata = tree["metadata"]
    if (metadata.get("labels") or {}).get(LABEL) != provider:
        return None
    try:
        return msgspec.json.decode((tree.get("data") or {}).get(_KEY, ""), type=MachineOrder)
    except msgspec.DecodeError as error:
        raise ValueError(f"ConfigMap {metadata['name']}: {_KEY}: {error}") from None
