"""The cloud that cluster-autoscaler sees: node groups whose machines a provider orders and gives back.

Nothing is remembered here that would be lost: which machines there are is the provider's to say, and which group each
is of follows from its name. What the provider said is kept until the next round, or until something was changed.
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
from allotment.model.trees import Tree, to_tree
from allotment.tools.plan.report import PlannedMachine

log = logging.getLogger(__name__)

#: Orders that go out at the same time: the autoscaler waits five seconds for all of them.
_AT_ONCE: Final = 32
_FAILED: Final = "ProvisioningFailed"
#: Of machines without a node, those that are least of a loss first.
_FIRST_TO_GO: Final[tuple[MachineState, ...]] = ("failed", "ordered", "starting", "running")


class CloudSettings(NamedTuple):
    """``kube``: the cluster's release. ``gpu_label``: of nodes whose GPUs a device plugin offers; nodes of ours must
    not have it, for the autoscaler waits on such nodes until an extended resource appears. ``provisioning``: after so
    many seconds a node that has not come, with its slices, has failed; 0: as the autoscaler's flags say."""

    kube: str = "1.36"
    gpu_label: str = ""
    provisioning: float = 0.0


DEFAULT_SETTINGS: Final = CloudSettings()


class _Machine(NamedTuple):
    """``id``: the providerID of its node, known or to come."""

    standing: MachineStatus
    id: str


class _Machines:
    """All machines, and which one a node is."""

    def __init__(self, machines: Iterable[_Machine]) -> None:
        self.all = tuple(machines)
        self._by_id = {machine.id: machine for machine in self.all}
        self._by_node = {machine.standing.node or machine.standing.name: machine for machine in self.all}

    def of(self, node: NodeRef) -> _Machine | None:
        """A node that never came has its machine's id for a name."""
        if node.provider_id:
            return self._by_id.get(node.provider_id)
        return self._by_node.get(node.name) or self._by_id.get(node.name)


class Cloud:
    """`externalgrpc.cloud_provider.CloudProvider`.

    ``provider_id``: the providerID of the cluster's node of a name; empty if it has none yet, None without such a node.
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
        """Machines that were given back, as long as the provider still shows them."""
        self._changing = asyncio.Lock()

    # --- what there is -----------------------------------------------------------------------------------------------

    async def node_groups(self) -> Sequence[CloudNodeGroup]:
        """All groups."""
        return [_shown(group) for group in self._groups.values()]

    async def node_group_of(self, node: NodeRef) -> CloudNodeGroup | None:
        """By its machine; by its label where the provider does not show the machine (any more)."""
        group = await self._planned_group_of(node)
        return _shown(group) if group is not None else None

    async def _planned_group_of(self, node: NodeRef) -> NodeGroup | None:
        machine = (await self._machines()).of(node)
        name = group_in(machine.standing.name) if machine is not None else node.labels.get(LABEL, "")
        return self._by_name.get(name)

    async def target_size(self, group: str) -> int:
        """All machines but those that leave: one that has failed counts until it is given back."""
        return len(await self._staying(self._group(group)))

    async def instances(self, group: str) -> Sequence[CloudInstance]:
        """All machines."""
        return [self._instance(machine) for machine in await self._of(self._group(group))]

    async def template_node(self, group: str) -> TemplateNode:
        """The group's next node, ready, and its slices."""
        found = self._group(group)
        name = f"template-{found.name}"
        template = found.template(name, self._settings.kube)
        node = to_tree(template.node, "v1", "Node")
        node["metadata"]["labels"] |= {LABEL: found.name}
        node["spec"] = {"providerID": SCHEME + name, **node.get("spec", {})}
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        slices = (to_tree(one, "resource.k8s.io/v1", "ResourceSlice") for one in template.slices)
        return TemplateNode(node, tuple(slices))

    async def options(self, group: str, defaults: NodeGroupOptions) -> NodeGroupOptions | None:
        """More time to come for machines with devices: a node with a MIG layout boots twice."""
        wanted = int(self._settings.provisioning * 10**9)
        if not self._group(group).instance.hardware or wanted <= (defaults.provisioning or 0):
            return None
        return defaults._replace(provisioning=wanted)

    async def node_price(self, node: NodeRef, hours: float) -> float:
        """The catalogue's price of a node of ours."""
        group = await self._planned_group_of(node)
        if group is None:
            raise errors.NotFoundError(f"node {node.name} is not in a node group and has no price")
        return float(group.price) * hours

    async def pod_price(self, pod: Tree, hours: float) -> float:
        """Not served: what a pod with claims would cost on a machine of just its size, no catalogue says."""
        raise errors.UnimplementedError("pods have no price of their own")

    async def gpu_label(self) -> str:
        """The label of nodes whose GPUs are an extended resource."""
        return self._settings.gpu_label

    async def gpu_types(self) -> Sequence[str]:
        """The GPUs that the groups have."""
        return sorted({group.instance.gpu_model for group in self._groups.values() if group.instance.hardware})

    async def refresh(self) -> None:
        """Ask the provider again."""
        self._known = None
        await self._machines()

    async def cleanup(self) -> None:
        """Nothing is held for an autoscaler."""

    # --- what is changed ---------------------------------------------------------------------------------------------

    async def increase_size(self, group: str, by: int) -> None:
        """Order machines. Of those that could be had the orders stand, whatever became of the others."""
        found = self._group(group)
        async with self._changing:
            self._known = None
            size = len(await self._staying(found))
            if size + by > found.most:
                raise errors.InvalidArgumentError(
                    f"size increase too large: requested {size + by}, at most {found.most}"
                )
            names = await self._new_names(found, by)
            turns = asyncio.Semaphore(_AT_ONCE)
            orders = (self._order(found, name, turns) for name in names)
            outcomes = await asyncio.gather(*orders, return_exceptions=True)
            self._known = None
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failed:
            log.warning("%s: %d of %d machines could not be ordered: %s", group, len(failed), by, failed[0])
            raise failed[0]
        log.info("%s: ordered %s", group, ", ".join(names))

    async def delete_nodes(self, group: str, nodes: Sequence[NodeRef]) -> None:
        """Give machines back; all of them or, if one is another group's or too few would be left, none."""
        found = self._group(group)
        async with self._changing:
            self._known = None
            staying = await self._staying(found)
            machines = await self._machines()
            meant = {_meant(found, node, machines) for node in nodes}
            going = [machine for machine in staying if machine in meant]
            # One that has failed is no machine that a least number could count on.
            left = [machine for machine in staying if machine not in going and machine.standing.state != "failed"]
            if len(left) < found.least and any(machine.standing.state != "failed" for machine in going):
                told = f"{len(left)} machines of {group} would remain, but its minimum is {found.least}"
                raise errors.FailedPreconditionError(told)
            await self._give_back(going)

    async def decrease_target_size(self, group: str, by: int) -> None:
        """Give back what has no node yet: what has failed first, then what was only ordered."""
        found = self._group(group)
        async with self._changing:
            self._known = None
            waiting = [machine for machine in await self._staying(found) if not self._has_node(machine)]
            if by > len(waiting):
                raise errors.FailedPreconditionError(
                    f"cannot cancel {by} orders of {group}: only {len(waiting)} machines have no node yet"
                )
            waiting.sort(key=lambda machine: _FIRST_TO_GO.index(machine.standing.state))
            await self._give_back(waiting[:by])

    async def _order(self, group: NodeGroup, name: str, turns: asyncio.Semaphore) -> None:
        async with turns:
            try:
                await self._provider.create(name, planned(group, name, self._settings.kube))
            except (NoCapacity, OrderRejected, StatusError, Unreachable) as error:
                raise _told(error) from error

    async def _give_back(self, machines: Iterable[_Machine]) -> None:
        names = [machine.standing.name for machine in machines]
        self._leaving.update(names)
        try:
            await asyncio.gather(*(self._provider.delete(name) for name in names))
        except (OrderRejected, StatusError, Unreachable) as error:
            self._leaving.difference_update(names)
            raise _told(error) from error
        finally:
            self._known = None
        log.info("released %s", ", ".join(names))

    async def _new_names(self, group: NodeGroup, number: int) -> list[str]:
        taken = {machine.standing.name for machine in (await self._machines()).all}
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
                standing = await self._provider.list_machines()
            except (OrderRejected, StatusError, Unreachable) as error:
                raise _told(error) from error
            self._known = _Machines(_Machine(one, self._id(one)) for one in standing)
            self._leaving &= {one.name for one in standing}
        return self._known

    def _id(self, standing: MachineStatus) -> str:
        return (self._provider_id(standing.node) if standing.node else "") or SCHEME + standing.name

    async def _of(self, group: NodeGroup) -> list[_Machine]:
        return [machine for machine in (await self._machines()).all if group_in(machine.standing.name) == group.name]

    async def _staying(self, group: NodeGroup) -> list[_Machine]:
        return [machine for machine in await self._of(group) if machine.standing.name not in self._leaving]

    def _has_node(self, machine: _Machine) -> bool:
        node = machine.standing.node
        return machine.standing.state == "running" or bool(node and self._provider_id(node) is not None)

    def _instance(self, machine: _Machine) -> CloudInstance:
        standing = machine.standing
        if standing.name in self._leaving:
            return CloudInstance(machine.id, "deleting")
        if standing.state == "failed":
            # The autoscaler gives it back, and leaves the group alone for a while.
            return CloudInstance(
                machine.id, "creating", InstanceError(_FAILED, standing.reason or "the machine could not be created")
            )
        return CloudInstance(machine.id, "running" if standing.state == "running" else "creating")


def planned(group: NodeGroup, name: str, kube: str) -> PlannedMachine:
    """The machine that a group grows by, for a provider."""
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
        drivers=tuple(dict.fromkeys(one.spec.driver for one in template.slices)),
        cpu_milli=room.cpu_milli if room is not None else 0,
        memory=room.memory_mib << 20 if room is not None else 0,
    )


def _meant(group: NodeGroup, node: NodeRef, machines: _Machines) -> _Machine | None:
    """Return the machine of a node to remove; None if it is gone. Raises InvalidArgumentError for a foreign node."""
    found = machines.of(node)
    name = found.standing.name if found is not None else node.name.removeprefix(SCHEME)
    if group_in(name) == group.name or (found is None and node.labels.get(LABEL) == group.name):
        return found
    raise errors.InvalidArgumentError(f"node {node.name} does not belong to {group.id}")


def _shown(group: NodeGroup) -> CloudNodeGroup:
    return CloudNodeGroup(group.id, group.least, group.most, f"{group.id} ({group.price} USD/h)")


def _told(error: Exception) -> errors.CallError:
    """What went wrong, as the autoscaler should take it."""
    if isinstance(error, NoCapacity):
        return errors.ResourceExhaustedError(str(error))
    if isinstance(error, OrderRejected):
        return errors.PermissionDeniedError(str(error))
    return errors.UnavailableError(str(error))
