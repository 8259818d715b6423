"""A provider that creates machines through Karpenter, one NodeClaim each, which fixes type, zone and capacity type.

Karpenter deletes a NodeClaim for which the cloud has no capacity, so an Allotment NodeClaim that was deleted by others
counts as failed; the reason is in its events. The NodeClaims in the cluster are the only record of orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from allotment.autoscaler.provider import MachineState, MachineStatus, OrderRejected, ProviderUnavailable
from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CONFIG_MAPS, EVENTS
from allotment.model.trees import Tree
from allotment.planning.provisioning.mig_parted import MIG_FILE, mig_config_map, mig_layout, with_layout
from allotment.planning.provisioning.nodeclaims import (
    INSTANCE,
    OWNER,
    NodeClaimSettings,
    NodeClassNotFoundError,
    node_claim,
)
from allotment.planning.report import PlannedMachine

NODE_CLAIMS: Final = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", False)

_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_ZONE: Final = "topology.kubernetes.io/zone"
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_NOT_INSTALLED: Final = "the cluster does not serve NodeClaims (karpenter.sh/v1): Karpenter is not installed"
#: Event reasons that explain why Karpenter deleted a NodeClaim.
_GIVEN_UP: Final = ("InsufficientCapacityError", "NodeClassNotReady")


#: Conditions in the order in which they become true.
_LAUNCHED: Final = "Launched"
_REACHED: Final = (_LAUNCHED, "Registered", "Initialized")


class MigManager(NamedTuple):
    """The ConfigMap from which NVIDIA's MIG manager reads layouts; planned layouts are added to it."""

    namespace: str = "gpu-operator"
    config_map: str = "allotment-mig-parted-config"


class _Ordered(NamedTuple):
    instance: str
    zone: str
    capacity_type: str
    launched: bool = False
    """Whether a machine was launched, and billed."""


class Karpenter:
    """The provider. ``mig``: where to write layouts; None if the NodeClasses configure them."""

    name = "karpenter"

    def __init__(
        self, client: Client, settings: NodeClaimSettings | None = None, mig: MigManager | None = None
    ) -> None:
        self._client = client
        self._settings = settings or NodeClaimSettings()
        self._mig = mig
        self._ordered: dict[str, _Ordered] = {}
        """The known NodeClaims; one that is missing in the cluster was deleted by others."""

    async def create(self, name: str, machine: PlannedMachine) -> None:
        """Create the NodeClaim; an existing one with the name and owner is the same order.

        Raises OrderRejected if Karpenter's API rejects it. A lack of capacity is reported later, by `list_machines`.
        """
        try:
            tree = node_claim(name, machine, self._settings)
        except NodeClassNotFoundError as error:
            raise OrderRejected(str(error)) from None
        if self._mig is not None and mig_layout(machine):
            await self._write_layout(machine, self._mig)
        try:
            await self._client.create(NODE_CLAIMS, tree)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise _refused(error) from None
            await self._check_owner(name)
        self._ordered[name] = _ordered(tree)

    async def _check_owner(self, name: str) -> None:
        existing = await self._client.get(NODE_CLAIMS, name)
        owner = (existing["metadata"].get("labels") or {}).get(OWNER)
        if owner != self._settings.owner:
            raise OrderRejected(f"NodeClaim {name} already exists and belongs to {owner or 'another owner'}")

    async def _write_layout(self, machine: PlannedMachine, mig: MigManager) -> None:
        """Add the layout before the node needs it. Other layouts stay, for nodes that reboot."""
        where = f"ConfigMap {mig.namespace}/{mig.config_map}"
        try:
            try:
                existing = await self._client.get(CONFIG_MAPS, mig.config_map, mig.namespace)
            except StatusError as error:
                if error.code != 404:
                    raise
                existing = {}
            text = with_layout((existing.get("data") or {}).get(MIG_FILE, ""), mig_layout(machine))
            tree = mig_config_map(text, mig.config_map, mig.namespace)
            await self._client.patch(CONFIG_MAPS, mig.config_map, tree, mig.namespace, kind="apply", force=True)
        except StatusError as error:
            if error.code in (403, 404):
                raise OrderRejected(f"cannot write the MIG layout to {where}: {error}") from None
            raise

    async def delete(self, name: str) -> None:
        """Delete the NodeClaim; Karpenter drains the node and terminates the machine."""
        self._ordered.pop(name, None)
        try:
            await self._client.delete(NODE_CLAIMS, name)
        except StatusError as error:
            if error.code != 404:
                raise

    async def list_machines(self) -> Sequence[MachineStatus]:
        """Allotment's NodeClaims; those deleted by others count as failed. Raises ProviderUnavailable."""
        try:
            listed = await self._client.list(NODE_CLAIMS, labels=f"{OWNER}={self._settings.owner}")
        except StatusError as error:
            raise (ProviderUnavailable(_NOT_INSTALLED) if error.code == 404 else error) from None
        found: list[MachineStatus] = []
        existing: set[str] = set()
        for tree in listed.items:
            name = tree["metadata"]["name"]
            existing.add(name)
            if name not in self._ordered:
                if "deletionTimestamp" in tree["metadata"]:
                    continue  # released, and being deleted
                self._ordered[name] = _ordered(tree)
            known = self._ordered[name] = self._ordered[name]._replace(launched=_is_met(tree, _LAUNCHED))
            status = _machine_status(tree, known)
            if status.state == "failed":
                status = status._replace(reason=await self._why_gone(name, status.reason))
            found.append(status)
        for name, known in tuple(self._ordered.items()):
            if name not in existing:
                reason = await self._why_gone(name, "Karpenter has deleted the NodeClaim")
                found.append(
                    MachineStatus(
                        name, "failed", "", known.instance, known.zone, known.capacity_type, reason, not known.launched
                    )
                )  # fmt: skip
        return found

    async def _why_gone(self, name: str, otherwise: str) -> str:
        fields = f"involvedObject.kind=NodeClaim,involvedObject.name={name}"
        events = (await self._client.list(EVENTS, fields=fields)).items
        matching = [event for event in events if event.get("reason") in _GIVEN_UP]
        if not matching:
            return otherwise
        last = max(
            matching, key=lambda event: str(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
        )
        return f"{last['reason']}: {last.get('message', '').removeprefix(f'NodeClaim {name} event: ')}"


def _refused(error: StatusError) -> Exception:
    """The error of the provider for a response; temporary errors are not changed."""
    if error.code == 404:
        return OrderRejected(_NOT_INSTALLED)
    if error.code in (400, 403, 422):
        return OrderRejected(str(error))
    return error


def _ordered(tree: Tree) -> _Ordered:
    requirements = tree["spec"].get("requirements") or ()
    chosen = {
        requirement["key"]: requirement["values"][0]
        for requirement in requirements
        if len(requirement.get("values") or ()) == 1
    }
    instance = (tree["metadata"].get("annotations") or {}).get(INSTANCE) or chosen.get(_INSTANCE_TYPE, "")
    return _Ordered(instance, chosen.get(_ZONE, ""), chosen.get(_CAPACITY_TYPE, ""))


def _machine_status(tree: Tree, ordered: _Ordered) -> MachineStatus:
    metadata, status = tree["metadata"], tree.get("status") or {}
    labels = metadata.get("labels") or {}
    state, reason = _state(tree)
    return MachineStatus(
        name=metadata["name"],
        state=state,
        node=status.get("nodeName") or "",
        instance=ordered.instance,
        zone=labels.get(_ZONE) or ordered.zone,
        capacity_type=labels.get(_CAPACITY_TYPE) or ordered.capacity_type,
        reason=reason,
        is_shortage=state == "failed" and not ordered.launched,
    )


def _is_met(tree: Tree, condition: str) -> bool:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)


def _state(tree: Tree) -> tuple[MachineState, str]:
    """The state, and the reason of the first condition that is not met."""
    conditions = {c["type"]: c for c in (tree.get("status") or {}).get("conditions") or ()}
    if "deletionTimestamp" in tree["metadata"]:
        return "failed", "the NodeClaim is being deleted"
    unmet = next((c for c in _REACHED if (conditions.get(c) or {}).get("status") != "True"), "")
    if not unmet:
        return "running", ""
    condition = conditions.get(unmet) or {}
    reason = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
    return "ordered" if unmet == "Launched" else "starting", reason
