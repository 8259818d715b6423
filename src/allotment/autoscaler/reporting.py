"""Reports the last plan and the machines in a ConfigMap: for people (``summary``) and programs (``plan.json``)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec
from msgspec.structs import replace

from allotment.autoscaler.events import describe_machine
from allotment.autoscaler.order import MachineOrder
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CONFIG_MAPS
from allotment.model.quantity import Quantity
from allotment.phrases import counted
from allotment.planning.reasons.wording import dollars, plan_summary
from allotment.planning.report import ProvisioningPlan

log = logging.getLogger(__name__)

#: The name of the ConfigMap, in the autoscaler's namespace.
REPORT: Final = "allotment-autoscaler-report"
#: Below the limit of a ConfigMap, one megabyte.
_MAX_BYTES: Final = 700_000
_MAX_LINES: Final = 200


class PlanReporter:
    """Writes the report after each plan and when a machine has changed."""

    def __init__(self, client: Client, clock: Clock, namespace: str, dry_run: bool) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._dry_run = dry_run
        self._plan: ProvisioningPlan | None = None
        self._at = ""
        self._written = ""

    async def planned(self, plan: ProvisioningPlan, orders: Sequence[MachineOrder]) -> None:
        """Report a plan that was executed."""
        self._plan, self._at = plan, self._clock.now()
        await self._write(summary(plan, orders, self._at, self._dry_run), encoded(plan))

    async def update(self, orders: Sequence[MachineOrder]) -> None:
        """Report changes of the machines."""
        if self._plan is None and not orders:
            return
        text = summary(self._plan, orders, self._at, self._dry_run)
        if text != self._written:
            await self._write(text, encoded(self._plan) if self._plan is not None else "{}")

    async def _write(self, text: str, plan: str) -> None:
        """Write the report; errors are only logged."""
        data = {"summary": text, "plan.json": plan}
        metadata = {"name": REPORT, "namespace": self._namespace}
        try:
            try:
                await self._client.patch(CONFIG_MAPS, REPORT, {"data": data}, self._namespace)
            except StatusError as error:
                if error.code != 404:
                    raise
                tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
                await self._client.create(CONFIG_MAPS, tree, self._namespace)
        except (StatusError, Unreachable) as error:
            log.warning("cannot write the report: %s", error)
        else:
            self._written = text


def encoded(plan: ProvisioningPlan) -> str:
    """Return the plan as JSON; if it is too long, without the verdicts on types, then without the pods."""
    shorter = [plan, replace(plan, choices=())]
    shorter += [
        replace(shorter[1], existing=(), machines=tuple(replace(machine, placements=()) for machine in plan.machines))
    ]
    texts = (msgspec.json.encode(variant, enc_hook=_plain).decode() for variant in shorter)
    return next((text for text in texts if len(text.encode()) <= _MAX_BYTES), "{}")


def summary(plan: ProvisioningPlan | None, orders: Sequence[MachineOrder], at: str, dry_run: bool) -> str:
    """Return a short text: the last plan, its time, and the current machines."""
    lines: list[str] = []
    if plan is None:
        lines.append("no plan since the autoscaler started")
    elif plan.machines:
        done = "proposed in a dry run" if dry_run else "ordered"
        lines.append(f"last plan at {at}: {done}: {plan_summary(plan)}")
        lines += (
            f"  {describe_machine(machine)} for {counted(len(machine.placements), 'pod')}" for machine in plan.machines
        )
    else:
        lines.append(f"last plan at {at}: nothing to order{' (dry run)' if dry_run else ''}")
    lines += (
        f"not served: {unserved.pod}: {unserved.text}" for unserved in (plan.unserved if plan is not None else ())
    )
    spent = sum((order.machine.usd_per_hour for order in orders), Decimal(0))
    lines.append(f"machines now: {len(orders)}, {dollars(spent)} USD/h" if orders else "machines now: none")
    lines += (f"  {order.name}: {describe_machine(order.machine)}: {state(order)}" for order in orders)
    lines += plan.notes if plan is not None else ()
    more = len(lines) - _MAX_LINES
    return "\n".join([*lines[:_MAX_LINES], *([f"… and {counted(more, 'more line')}"] if more > 0 else [])]) + "\n"


def state(order: MachineOrder) -> str:
    """Return the state of an order as text."""
    if order.leaving:
        return f"being released: {order.leaving}"
    if order.initialised:
        return f"ready since {order.initialised}"
    return f"ordered at {order.ordered}" if order.confirmed else "being ordered"


def _plain(value: object) -> object:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(type(value))
