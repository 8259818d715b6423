"""The cloud provider for cluster-autoscaler: node groups whose machines a provider orders and releases.

It has no state of its own: the provider lists the machines, and the group of a machine follows from its name. The list
is cached until the next refresh or change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final, NamedTuple

from allotment.autoscaler.cluster_autoscaler.node_groups import LABEL, NodeGroup, group_in
from allotment.autoscaler.provider import SCHEME, MachineState, MachineStatus, NoCapacity, OrderRejected, Provider
from allotment.cluster.errors import StatusError, Unreachable
from allotment.externalgrpc import errors
from allotment.externalgrpc.cloud_provider import (
    CloudInstance,
    CloudNodeGroup,
    InstanceError,
    NodeGroupOptions,
    NodeRef,
    TemplateNode,
)
from allotment.model import DEFAULT_RELEASE
from allotment.model.trees import Tree, to_tree
from allotment.phrases import counted
from allotment.planning.report import PlannedMachine

log = logging.getLogger(__name__)

#: Maximum number of concurrent orders; the autoscaler waits five seconds for all orders of a request.
_CONCURRENCY: Final = 32
_FAILED: Final = "ProvisioningFailed"
#: The order in which machines without a node are released.
_FIRST_TO_GO: Final[tuple[MachineState, ...]] = ("failed", "ordered", "starting", "running")


class CloudSettings(NamedTuple):
    """``kube``: the cluster's release. ``gpu_label``: label of nodes whose GPUs a device plugin provides; Allotment's
    nodes must not have it, because the autoscaler waits on such nodes for an extended resource. ``provisioning``:
    seconds after which a node without its slices has failed; 0: as set by the autoscaler's flags."""

    kube: str = DEFAULT_RELEASE
    gpu_label: str = ""
    provisioning: float = 0.0


DEFAULT_SETTINGS: Final = CloudSettings()


class _Machine(NamedTuple):
    """``id``: the current or future providerID of its node."""

    status: MachineStatus
    id: str


class _Machines:
    """All machines, indexed by providerID and node name."""

    def __init__(self, machines: Iterable[_Machine]) -> None:
        self.all = tuple(machines)
        self._by_id = {machine.id: machine for machine in self.all}
        self._by_node = {machine.status.node or machine.status.name: machine for machine in self.all}

    def of(self, node: NodeRef) -> _Machine | None:
        """The machine of a node. A node that was never created has its machine's id as its name."""
        if node.provider_id:
            return self._by_id.get(node.provider_id)
        return self._by_node.get(node.name) or self._by_id.get(node.name)


class Cloud:
    """`externalgrpc.cloud_provider.CloudProvider`.

    ``provider_id``: returns the providerID of a node by name; empty if it has none yet, None without such a node.
    """

    def __init__(
        self, groups: Sequence[NodeGroup], provider: Provider, provider_id: Callable[[str], str | None],
        random: Random, settings: CloudSettings = DEFAULT_SETTINGS,
    ) -> None:  # fmt: skip
        self._groups = {group.id: group for group in groups}
        self._by_name = {group.name: group for group in groups}
        self._provider = provider
        self._provider_id = provider_id
        self._random = random
        self._settings = settings
        self._known: _Machines | None = None
        self._leaving: set[str] = set()
        """Released machines that the provider still lists."""
        self._changing = asyncio.Lock()

    # --- reads -----------------------------------------------------------------------------------------------

    async def node_groups(self) -> Sequence[CloudNodeGroup]:
        """Return all node groups."""
        return [_shown(group) for group in self._groups.values()]

    async def node_group_of(self, node: NodeRef) -> CloudNodeGroup | None:
        """Return the group of a node's machine, or of its label if the provider does not list the machine."""
        group = await self._planned_group_of(node)
        return _shown(group) if group is not None else None

    async def _planned_group_of(self, node: NodeRef) -> NodeGroup | None:
        machine = (await self._machines()).of(node)
        name = group_in(machine.status.name) if machine is not None else node.labels.get(LABEL, "")
        return self._by_name.get(name)

    async def target_size(self, group: str) -> int:
        """Return the number of machines that are not being released; a failed one counts until it is released."""
        return len(await self._staying(self._group(group)))

    async def instances(self, group: str) -> Sequence[CloudInstance]:
        """Return all machines of a group."""
        return [self._instance(machine) for machine in await self._of(self._group(group))]

    async def template_node(self, group: str) -> TemplateNode:
        """A ready node of the group and its slices."""
        found = self._group(group)
        name = f"template-{found.name}"
        template = found.template(name, self._settings.kube)
        node = to_tree(template.node, "v1", "Node")
        node["metadata"]["labels"] |= {LABEL: found.name}
        node["spec"] = {"providerID": SCHEME + name, **node.get("spec", {})}
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        slices = (to_tree(slice_, "resource.k8s.io/v1", "ResourceSlice") for slice_ in template.slices)
        return TemplateNode(node, tuple(slices))

    async def options(self, group: str, defaults: NodeGroupOptions) -> NodeGroupOptions | None:
        """A longer provisioning time for machines with devices: a node with a MIG layout boots twice."""
        wanted = int(self._settings.provisioning * 10**9)
        if not self._group(group).instance.hardware or wanted <= (defaults.provisioning or 0):
            return None
        return defaults._replace(provisioning=wanted)

    async def node_price(self, node: NodeRef, hours: float) -> float:
        """The catalog price of a node in a group."""
        group = await self._planned_group_of(node)
        if group is None:
            raise errors.NotFoundError(f"node {node.name} is not in a node group, so its price is unknown")
        return float(group.price) * hours

    async def pod_price(self, pod: Tree, hours: float) -> float:
        """Not implemented: the catalog has no prices for pods with claims."""
        raise errors.UnimplementedError("pod prices are not supported")

    async def gpu_label(self) -> str:
        """The label of nodes whose GPUs are an extended resource."""
        return self._settings.gpu_label

    async def gpu_types(self) -> Sequence[str]:
        """The GPUs that the groups have."""
        return sorted({group.instance.gpu_model for group in self._groups.values() if group.instance.hardware})

    async def refresh(self) -> None:
        """List the machines again."""
        self._known = None
        await self._machines()

    async def cleanup(self) -> None:
        """Do nothing: there are no resources to release."""

    # --- writes ---------------------------------------------------------------------------------------------

    async def increase_size(self, group: str, by: int) -> None:
        """Order machines. Successful orders stay if others fail."""
        found = self._group(group)
        async with self._changing:
            self._known = None
            size = len(await self._staying(found))
            if size + by > found.most:
                raise errors.InvalidArgumentError(
                    f"size increase too large: {counted(size + by, 'machine')} requested, maximum {found.most}"
                )
            names = await self._new_names(found, by)
            semaphore = asyncio.Semaphore(_CONCURRENCY)
            orders = (self._order(found, name, semaphore) for name in names)
            outcomes = await asyncio.gather(*orders, return_exceptions=True)
            self._known = None
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failed:
            log.warning("%s: %d of %d machines could not be ordered: %s", group, len(failed), by, failed[0])
            raise failed[0]
        log.info("%s: ordered %s", group, ", ".join(names))

    async def delete_nodes(self, group: str, nodes: Sequence[NodeRef]) -> None:
        """Release machines. Releases none if one belongs to another group or the minimum would be violated."""
        found = self._group(group)
        async with self._changing:
            self._known = None
            staying = await self._staying(found)
            machines = await self._machines()
            requested = {_requested_machine(found, node, machines) for node in nodes}
            removed = [machine for machine in staying if machine in requested]
            # Failed machines do not count for the minimum.
            left = [machine for machine in staying if machine not in removed and machine.status.state != "failed"]
            if len(left) < found.least and any(machine.status.state != "failed" for machine in removed):
                machines_left = counted(len(left), "machine")
                problem = f"{machines_left} of {group} would remain, but its minimum size is {found.least}"
                raise errors.FailedPreconditionError(problem)
            await self._release(removed)

    async def decrease_target_size(self, group: str, by: int) -> None:
        """Release machines without a node: failed ones first, then ordered ones."""
        found = self._group(group)
        async with self._changing:
            self._known = None
            waiting = [machine for machine in await self._staying(found) if not self._has_node(machine)]
            if by > len(waiting):
                raise errors.FailedPreconditionError(
                    f"cannot cancel {counted(by, 'order')} of {group}: it has only "
                    f"{counted(len(waiting), 'machine')} without a node"
                )
            waiting.sort(key=lambda machine: _FIRST_TO_GO.index(machine.status.state))
            await self._release(waiting[:by])

    async def _order(self, group: NodeGroup, name: str, semaphore: asyncio.Semaphore) -> None:
        async with semaphore:
            try:
                await self._provider.create(name, planned(group, name, self._settings.kube))
            except (NoCapacity, OrderRejected, StatusError, Unreachable) as error:
                raise _call_error(error) from error

    async def _release(self, machines: Iterable[_Machine]) -> None:
        names = [machine.status.name for machine in machines]
        self._leaving.update(names)
        try:
            await asyncio.gather(*(self._provider.delete(name) for name in names))
        except (OrderRejected, StatusError, Unreachable) as error:
            self._leaving.difference_update(names)
            raise _call_error(error) from error
        finally:
            self._known = None
        log.info("released %s", ", ".join(names))

    async def _new_names(self, group: NodeGroup, number: int) -> list[str]:
        taken = {machine.status.name for machine in (await self._machines()).all}
        found: dict[str, None] = {}
        while len(found) < number:
            name = group.new_name(self._random)
            if name not in taken and self._provider_id(name) is None:
                found[name] = None
        return list(found)

    # --- machines ----------------------------------------------------------------------------------------------------

    def _group(self, id: str) -> NodeGroup:
        found = self._groups.get(id)
        if found is None:
            raise errors.NotFoundError(f"node group {id!r} not found")
        return found

    async def _machines(self) -> _Machines:
        if self._known is None:
            try:
                machines = await self._provider.list_machines()
            except (OrderRejected, StatusError, Unreachable) as error:
                raise _call_error(error) from error
            self._known = _Machines(_Machine(machine, self._id(machine)) for machine in machines)
            self._leaving &= {machine.name for machine in machines}
        return self._known

    def _id(self, machine: MachineStatus) -> str:
        return (self._provider_id(machine.node) if machine.node else "") or SCHEME + machine.name

    async def _of(self, group: NodeGroup) -> list[_Machine]:
        return [machine for machine in (await self._machines()).all if group_in(machine.status.name) == group.name]

    async def _staying(self, group: NodeGroup) -> list[_Machine]:
        return [machine for machine in await self._of(group) if machine.status.name not in self._leaving]

    def _has_node(self, machine: _Machine) -> bool:
        node = machine.status.node
        return machine.status.state == "running" or bool(node and self._provider_id(node) is not None)

    def _instance(self, machine: _Machine) -> CloudInstance:
        status = machine.status
        if status.name in self._leaving:
            return CloudInstance(machine.id, "deleting")
        if status.state == "failed":
            # The autoscaler releases it and backs off from the group.
            return CloudInstance(
                machine.id, "creating", InstanceError(_FAILED, status.reason or "the machine could not be created")
            )
        return CloudInstance(machine.id, "running" if status.state == "running" else "creating")


def planned(group: NodeGroup, name: str, kube: str) -> PlannedMachine:
    """The next machine of a group, for a provider."""
    template = group.template(name, kube)
    room = group.instance.room
    return PlannedMachine(
        node=name,
        instance=group.instance.key,
        form=template.form,
        zone=group.zone,
        capacity_type=group.capacity_type,
        usd_per_hour=group.price,
        labels={**template.node.metadata.labels, LABEL: group.name},
        taints=template.node.spec.taints,
        drivers=tuple(dict.fromkeys(slice_.spec.driver for slice_ in template.slices)),
        cpu_milli=room.cpu_milli if room is not None else 0,
        memory=room.memory_mib << 20 if room is not None else 0,
    )


def _requested_machine(group: NodeGroup, node: NodeRef, machines: _Machines) -> _Machine | None:
    """Return the machine of a node to remove; None if it is gone. Raises InvalidArgumentError for a foreign node."""
    found = machines.of(node)
    name = found.status.name if found is not None else node.name.removeprefix(SCHEME)
    if group_in(name) == group.name or (found is None and node.labels.get(LABEL) == group.name):
        return found
    raise errors.InvalidArgumentError(f"node {node.name} does not belong to {group.id}")


def _shown(group: NodeGroup) -> CloudNodeGroup:
    return CloudNodeGroup(group.id, group.least, group.most, f"{group.id} ({group.price} USD/h)")


def _call_error(error: Exception) -> errors.CallError:
    """The gRPC error for an error of the provider."""
    if isinstance(error, NoCapacity):
        return errors.ResourceExhaustedError(str(error))
    if isinstance(error, OrderRejected):
        return errors.PermissionDeniedError(str(error))
    return errors.UnavailableError(str(error))
