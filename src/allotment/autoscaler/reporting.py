"""The last plan and what stands, in a ConfigMap: for people (``summary``) and programs (``plan.json``)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from allotment.autoscaler.order import Order
from allotment.autoscaler.telling import counted, described, dollars
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CONFIG_MAPS
from allotment.model.quantity import Quantity
from allotment.tools.plan.report import Plan

log = logging.getLogger(__name__)

#: The ConfigMap, in the autoscaler's namespace.
REPORT: Final = "allotment-autoscaler-report"
#: A ConfigMap holds a megabyte.
_MOST_BYTES: Final = 700_000
_MOST_LINES: Final = 200


async def report(client: Client, namespace: str, plan: Plan, orders: Sequence[Order], now: str, dry_run: bool) -> None:
    """Write it; a report that cannot be written is no reason to stop."""
    data = {"summary": summary(plan, orders, now, dry_run), "plan.json": encoded(plan)}
    tree = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": REPORT, "namespace": namespace}, "data": data,
    }  # fmt: skip
    try:
        try:
            await client.patch(CONFIG_MAPS, REPORT, {"data": data}, namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            await client.create(CONFIG_MAPS, tree, namespace)
    except StatusError as error:
        log.warning("the report could not be written: %s", error)


def encoded(plan: Plan) -> str:
    """The plan as JSON; of one that would be too long, without the verdicts on types, then without the pods."""
    shorter = [plan, replace(plan, choices=())]
    shorter += [replace(shorter[1], existing=(), machines=tuple(replace(one, seats=()) for one in plan.machines))]
    texts = (msgspec.json.encode(one, enc_hook=_plain).decode() for one in shorter)
    return next((text for text in texts if len(text.encode()) <= _MOST_BYTES), "{}")


def summary(plan: Plan, orders: Sequence[Order], now: str, dry_run: bool) -> str:
    """A few lines for people."""
    lines = [f"planned at {now}{', nothing is ordered: dry run' if dry_run else ''}"]
    if plan.machines:
        number = counted(len(plan.machines), "machine")
        lines.append(f"to order: {number}, {dollars(plan.total)} USD/h, {closeness(plan)}")
    else:
        lines.append("to order: nothing")
    lines += (f"  {described(one)} for {counted(len(one.seats), 'pod')}" for one in plan.machines)
    lines += (f"not served: {one.pod}: {one.text}" for one in plan.unserved)
    lines += (f"machine {one.name}: {described(one.machine)}: {state(one)}" for one in orders)
    lines += plan.notes
    more = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], *([f"… and {more} more lines"] if more > 0 else [])]) + "\n"


def state(order: Order) -> str:
    """How far an order is, in words."""
    if order.leaving:
        return f"being given back: {order.leaving}"
    if order.initialised:
        return f"ready since {order.initialised}"
    return f"ordered at {order.ordered}" if order.confirmed else "being ordered"


def closeness(plan: Plan) -> str:
    """How good a plan is, as far as that is proven.

    >>> from decimal import Decimal
    >>> closeness(Plan(total=Decimal(3), bound=Decimal(3))), closeness(Plan(total=Decimal(3), bound=Decimal(2)))
    ('the least possible', 'at most 50.0% above the least possible')
    """
    if not plan.bound:
        return "nothing is proven of how little it could be"
    return f"at most {plan.gap:.1%} above the least possible" if plan.gap > 0 else "the least possible"


def _plain(value: object) -> object:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(type(value))
