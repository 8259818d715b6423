"""The lab's cloud: creates simulated nodes after a delay, with optional faults.

It stores its machines in the cluster, so that they are listed after a restart. A node's annotations contain its
simulated hardware, from which the lab's drivers publish devices (`allotment.lab.drivers`); the lab runs its kubelet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from allotment.autoscaler.cordon import PROVISIONING, cordoned
from allotment.autoscaler.in_flight_nodes import in_flight_node
from allotment.autoscaler.order import MachineOrder
from allotment.autoscaler.provider import SCHEME, MachineState, MachineStatus, NoCapacity, OrderRejected, Provider
from allotment.autoscaler.providers.faults import SimulatedFault
from allotment.cluster.client import Client
from allotment.cluster.clock import Timer
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import CONFIG_MAPS, NODES
from allotment.decoding import decodable
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model import DEFAULT_RELEASE
from allotment.model.meta import Value
from allotment.model.trees import Tree, to_tree
from allotment.planning.report import PlannedMachine

log = logging.getLogger(__name__)

#: Annotation of a node: the name of its order.
MACHINE: Final = "allotment.dev/machine"
_LABEL: Final = "allotment.dev/cloud"
_KEY: Final = "machine.json"
_HARDWARE: Final = "allotment.dev/hardware"
#: The identity of the cloud's client.
NAME: Final = "simulated-cloud"


class _Entry(Value, frozen=True):
    """A stored machine. ``fate``: fail, lost, bare, or empty. ``seconds``: until its node exists."""

    name: str
    machine: PlannedMachine
    taken: str
    seconds: float
    fate: str = ""
    appeared: bool = False
    ended: bool = False


def simulated_cloud(
    catalog: Sequence[InstanceType], faults: Sequence[SimulatedFault] = (), *, seconds: float = 2.0,
    kube: str = DEFAULT_RELEASE, namespace: str = "kube-system", closed: bool = False,
) -> Callable[[ProgramContext], Provider]:  # fmt: skip
    """Create the provider. ``seconds``: from the order to the node, on the cluster's clock.

    ``closed``: create nodes cordoned, for an autoscaler that uncordons them when they are complete.
    """

    def made(context: ProgramContext) -> Provider:
        return SimulatedCloud(context, catalog, faults, seconds, kube, namespace, closed=closed)

    return made


class SimulatedCloud:
    """The simulated provider."""

    name = "simulated"

    def __init__(
        self, context: ProgramContext, catalog: Sequence[InstanceType], faults: Sequence[SimulatedFault],
        seconds: float, kube: str, namespace: str, *, closed: bool = False,
    ) -> None:  # fmt: skip
        self._closed = closed
        self._client: Client = context.client_for(NAME, NAME)
        self._nodes = context.caches.trees(NODES)
        self._clock = context.clock
        self._random = context.random
        self._catalog = {instance.key: instance for instance in catalog}
        self._faults = tuple(faults)
        self._seconds = seconds
        self._kube = kube
        self._namespace = namespace
        self._timers: dict[str, Timer] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the provider protocol -----------------------------------------------------------------------------------

    async def create(self, name: str, machine: PlannedMachine) -> None:
        entries = await self._entries()
        if any(entry.name == name for entry in entries):
            return
        if machine.instance not in self._catalog:
            raise OrderRejected(f"unknown instance type {machine.instance}")
        seconds, fate = self._seconds, ""
        for fault in self._faults:
            if not fault.matches(machine):
                continue
            if fault.kind == "slow":
                seconds = fault.amount
            elif fault.kind == "stock":
                if sum(fault.matches(entry.machine) for entry in entries if not entry.ended) >= fault.amount:
                    raise self._no_capacity(machine, f"the stock of {fault.amount:g} is used up")
            elif self._random.random() < fault.amount:
                if fault.kind == "no-capacity":
                    raise self._no_capacity(machine, "out of stock")
                if fault.kind == "refused":
                    raise OrderRejected("the account is not allowed to order this instance type")
                fate = fate or fault.kind
        entry = _Entry(name=name, machine=machine, taken=self._clock.now_micro(), seconds=seconds, fate=fate)
        try:
            await self._client.create(CONFIG_MAPS, self._written(entry), self._namespace)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            return
        self._expect(entry)

    async def delete(self, name: str) -> None:
        entry = next((entry for entry in await self._entries() if entry.name == name), None)
        if entry is not None:
            await self._end(entry)

    async def list_machines(self) -> Sequence[MachineStatus]:
        await self._nodes.synced.wait()
        found = []
        for entry in await self._entries():
            if entry.ended:  # the cloud was interrupted
                await self._end(entry)
                continue
            exists = self._nodes.item("", entry.name) is not None
            if not exists and not entry.appeared:
                self._expect(entry)
            state, reason = self._state(entry, exists)
            machine = entry.machine
            found.append(
                MachineStatus(
                    entry.name, state, entry.name if exists else "", machine.instance, machine.zone,
                    machine.capacity_type, reason,
                )
            )  # fmt: skip
        return found

    # --- state of machines --------------------------------------------------------------------------------------------

    def _state(self, entry: _Entry, exists: bool) -> tuple[MachineState, str]:
        if exists:
            return "running", ""
        if entry.appeared:
            return "failed", "its node was deleted"
        if entry.machine.instance not in self._catalog:
            return "failed", f"{entry.machine.instance} is no longer in the catalog"
        due = self._clock.left(entry.taken, entry.seconds) <= 0
        if due and entry.fate == "fail":
            return "failed", "the machine failed while it was starting"
        return ("starting" if due else "ordered"), ""

    def _expect(self, entry: _Entry) -> None:
        """Schedule the creation of its node."""
        known = entry.machine.instance in self._catalog
        if not known or entry.fate in ("fail", "lost") or entry.name in self._timers:
            return

        def ring() -> None:
            task = asyncio.get_running_loop().create_task(self._appear(entry), name=f"machine {entry.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._timers[entry.name] = self._clock.later(self._clock.left(entry.taken, entry.seconds), ring)

    async def _appear(self, entry: _Entry) -> None:
        try:
            known = await self._entry(entry.name)
            if known is None or known.ended or known.appeared:
                return  # it was released before
            try:
                self._nodes.record_write(await self._client.create(NODES, self._node(entry)))
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
            await self._write(replace(known, appeared=True))
        except (StatusError, Unreachable) as error:
            log.warning("machine %s: %s", entry.name, error)
        finally:  # the next list_machines retries it
            self._timers.pop(entry.name, None)

    def _node(self, entry: _Entry) -> Tree:
        machine = entry.machine
        order = MachineOrder(name=entry.name, machine=machine, ordered=entry.taken)
        node = in_flight_node(order, self._catalog[machine.instance], entry.name, self._kube).node
        tree = to_tree(node, NODES.api_version, NODES.kind)
        annotations = {**(tree["metadata"].get("annotations") or {}), MACHINE: entry.name}
        if entry.fate == "bare":  # its driver never starts
            annotations.pop(_HARDWARE, None)
        tree["metadata"]["annotations"] = annotations
        tree["spec"] = {"providerID": SCHEME + entry.name, **(tree.get("spec") or {})}
        return cordoned(tree, PROVISIONING) if self._closed else tree

    async def _end(self, entry: _Entry) -> None:
        timer = self._timers.pop(entry.name, None)
        if timer is not None:
            timer.cancel()
        if not entry.ended:
            await self._write(replace(entry, ended=True))
        node = self._nodes.item("", entry.name)
        try:
            await self._client.delete(NODES, entry.name)
        except StatusError as error:
            if error.code != 404:
                raise
        if node is not None:
            self._nodes.record_deletion(node.tree)
        try:
            await self._client.delete(CONFIG_MAPS, _map_of(entry.name), self._namespace)
        except StatusError as error:
            if error.code != 404:
                raise

    def _no_capacity(self, machine: PlannedMachine, reason: str) -> NoCapacity:
        return NoCapacity(machine.instance, machine.zone, machine.capacity_type, reason)

    # --- storage -----------------------------------------------------------------------------------------------------

    async def _entries(self) -> list[_Entry]:
        listed = await self._client.list(CONFIG_MAPS, self._namespace, labels=f"{_LABEL}={self.name}")
        return [entry for tree in listed.items if (entry := self._read(tree)) is not None]

    async def _entry(self, name: str) -> _Entry | None:
        try:
            return self._read(await self._client.get(CONFIG_MAPS, _map_of(name), self._namespace))
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    def _read(self, tree: Tree) -> _Entry | None:
        if (tree["metadata"].get("labels") or {}).get(_LABEL) != self.name:
            return None
        return msgspec.json.decode((tree.get("data") or {}).get(_KEY, ""), type=decodable(_Entry))

    def _written(self, entry: _Entry) -> dict[str, Any]:
        metadata = {"name": _map_of(entry.name), "namespace": self._namespace, "labels": {_LABEL: self.name}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": _data(entry)}

    async def _write(self, entry: _Entry) -> None:
        await self._client.patch(CONFIG_MAPS, _map_of(entry.name), {"data": _data(entry)}, self._namespace)


def _map_of(name: str) -> str:
    return f"machine-{name}"


def _data(entry: _Entry) -> dict[str, str]:
    return {_KEY: msgspec.json.encode(entry).decode()}
