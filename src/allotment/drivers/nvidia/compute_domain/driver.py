"""The driver for a node's ComputeDomains: channels for workloads, daemons for domains.

Its devices are not hardware. A channel is usable when the node's daemon is ready, and the daemon starts only because
the channel is being prepared. So preparing waits for less time than the kubelet does. If the daemon is not ready by
then, the claim is rejected for now, but the label stays, so that the kubelet's next call finds the daemon further
along. A label without a claim is removed by the controller, because only the cluster state shows that it is stale.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from allotment.cdi.spec import ContainerEdits
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import NODES
from allotment.drivers.driver import (
    AllocatedClaim,
    AllocatedDevice,
    ClaimError,
    DeviceEvent,
    DevicePool,
    DevicesChanged,
    PreparedClaim,
    ReadyDevice,
)
from allotment.drivers.nvidia.compute_domain.domains import ComputeDomain, DomainLookup
from allotment.drivers.nvidia.compute_domain.fabric import SimulatedFabric
from allotment.drivers.nvidia.compute_domain.names import (
    CHANNELS,
    CONFIGS,
    LABEL,
    ComputeDomainChannelConfig,
    ComputeDomainDaemonConfig,
)
from allotment.fleet.nvidia.compute_domain import COMPUTE_DOMAIN_DRIVER, domain_devices
from allotment.model.trees import Tree
from allotment.vocabulary.parameters.compute_domain import problems

#: Of updating the node, which conflicts with the kubelet's frequent updates.
_ATTEMPTS: Final = 5

#: Less than the kubelet's timeout of 45 s.
READY_TIMEOUT_SECONDS: Final = 30.0

_CONFIG_OF: Final[Mapping[str, type]] = {"channel": ComputeDomainChannelConfig, "daemon": ComputeDomainDaemonConfig}


class ComputeDomainDriver:
    """The driver of one node. ``client`` labels the node; ``fabric`` is the node's location in NVLink."""

    def __init__(
        self,
        node: str,
        fabric: SimulatedFabric,
        client: Client,
        domains: DomainLookup,
        *,
        ready_timeout: float = READY_TIMEOUT_SECONDS,
    ) -> None:
        self._node = node
        self._fabric = fabric
        self._client = client
        self._domains = domains
        self._ready_timeout = ready_timeout

    @property
    def name(self) -> str:
        return COMPUTE_DOMAIN_DRIVER

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        return CONFIGS

    async def discover(self) -> Sequence[DevicePool]:
        """Return one channel and one daemon, on every node."""
        return (DevicePool((domain_devices(),)),)

    def config_applies(self, device: str, config: Any) -> bool:
        """Whether the parameters are for the device's kind, channel or daemon."""
        return isinstance(config, _CONFIG_OF.get(_kind(device), ()))

    def validate(self, config: ComputeDomainChannelConfig | ComputeDomainDaemonConfig) -> None:
        """Check that the domain is named. Raises ClaimError."""
        for problem in problems(config):
            raise ClaimError(str(problem), permanent=True)

    def plan(self, claim: AllocatedClaim) -> Tree:
        """Return the domain and the device kind. Raises ClaimError."""
        if len(claim.devices) != 1:
            devices = ", ".join(allocated.device for allocated in claim.devices)
            raise ClaimError(f"devices {devices}: expected one channel or one daemon per claim", permanent=True)
        (allocated,) = claim.devices
        domain = self._domain(allocated)
        kind = _kind(allocated.device)
        # A domain belongs to its namespace: claims of other namespaces must not get access to its memory.
        if kind == "channel" and claim.namespace != domain.namespace:
            raise ClaimError(
                f"device {allocated.device}: the claim is in namespace {claim.namespace}, but its ComputeDomain "
                f"{domain.name} is in {domain.namespace}; use the claim template of a ComputeDomain in the claim's "
                "namespace",
                permanent=True,
            )
        return {"claim": claim.uid, "kind": kind, "domain": domain.uid}

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Prepare a channel or a daemon. Raises ClaimError."""
        (allocated,) = claim.devices
        domain = self._domain(allocated)
        edits = await (
            self._prepare_channel(allocated, domain) if plan["kind"] == "channel" else self._prepare_daemon(domain)
        )
        data = {"domainID": domain.uid, "cliqueID": self._fabric.clique}
        return PreparedClaim({(allocated.pool, allocated.device, allocated.share_id): ReadyDevice(edits, data)})

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """Remove a daemon's folder. A channel leaves nothing on the node."""
        if plan["kind"] == "daemon" and not any(
            (other.get("kind"), other.get("domain")) == ("daemon", plan["domain"]) for other in others
        ):
            self._fabric.remove_folder(plan["domain"])

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        """Never yields: these devices do not change."""
        await asyncio.get_running_loop().create_future()
        yield DevicesChanged()

    # --- steps ------------------------------------------------------------------------------------------------------

    def _domain(self, allocated: AllocatedDevice) -> ComputeDomain:
        config = allocated.config
        if config is None:
            raise ClaimError(
                f"device {allocated.device}: the claim's parameters do not reference a ComputeDomain; use the claim "
                "template in spec.channel.resourceClaimTemplate of the ComputeDomain",
                permanent=True,
            )
        domain = self._domains.find(config.domain_id)
        if domain is None:
            raise ClaimError(f"device {allocated.device}: ComputeDomain with UID {config.domain_id} not found")
        return domain

    async def _prepare_channel(self, allocated: AllocatedDevice, domain: ComputeDomain) -> ContainerEdits:
        await self._ensure_label(allocated.device, domain)
        if not await self._domains.wait(domain.uid, self._node, self._ready_timeout):
            raise ClaimError(
                f"device {allocated.device}: node {self._node} is not ready in ComputeDomain "
                f"{domain.namespace}/{domain.name} after {self._ready_timeout:g} s: its daemon pod is still starting; "
                "the kubelet will retry"
            )
        everything = allocated.config.allocation_mode == "All"
        return self._fabric.channel_edits(range(CHANNELS if everything else 1))

    async def _prepare_daemon(self, domain: ComputeDomain) -> ContainerEdits:
        self._fabric.make_folder(domain.uid)
        env = (
            f"CLIQUE_ID={self._fabric.clique}",
            f"COMPUTE_DOMAIN_UUID={domain.uid}",
            f"COMPUTE_DOMAIN_NAME={domain.name}",
            f"COMPUTE_DOMAIN_NAMESPACE={domain.namespace}",
        )
        return self._fabric.daemon_edits(domain.uid).merged(ContainerEdits(env=env))

    async def _ensure_label(self, device: str, domain: ComputeDomain) -> None:
        """Label the node, so that the domain's daemon starts on it. Raises ClaimError."""
        try:
            present = await self._label_node(domain.uid)
        except (StatusError, Unreachable) as error:
            raise ClaimError(f"device {device}: cannot label node {self._node}: {error}") from error
        if present != domain.uid:
            raise ClaimError(
                f"device {device}: node {self._node} is still in another ComputeDomain ({present}); wait until "
                "the last workload of that domain on the node has ended"
            )

    async def _label_node(self, uid: str) -> str:
        """Label the node if it has no label; returns the uid in its label."""
        attempts = range(_ATTEMPTS)
        for attempt in attempts:
            metadata = (await self._client.get(NODES, self._node))["metadata"]
            present = (metadata.get("labels") or {}).get(LABEL)
            if present is not None:
                return str(present)
            # With the resource version, only one of two concurrent claims can label the node.
            metadata_patch = {"labels": {LABEL: uid}, "resourceVersion": metadata["resourceVersion"]}
            try:
                await self._client.patch(NODES, self._node, {"metadata": metadata_patch})
                break
            except StatusError as error:
                if error.code != 409 or attempt == attempts[-1]:
                    raise
        return uid


def _kind(device: str) -> str:
    return device.rpartition("-")[0]
