"""The driver of a node's part in ComputeDomains: channels for workloads, daemons for domains.

Its devices are no hardware, and preparing them is a conversation: a channel is usable when the node's daemon is, and
that starts only because the channel is being prepared. So preparing waits a while, less than a kubelet does; if that
was not enough the claim is refused for now, the label stays, and the kubelet's next call finds the daemon further on.
Whoever finds a label without a claim takes it away: that is the controller, because only the cluster knows.
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

#: A node changes often: its kubelet says that it is alive.
_ATTEMPTS: Final = 5

#: A kubelet hangs up after 45 s.
READY_TIMEOUT_SECONDS: Final = 30.0

_CONFIG_OF: Final[Mapping[str, type]] = {"channel": ComputeDomainChannelConfig, "daemon": ComputeDomainDaemonConfig}


class ComputeDomainDriver:
    """``client`` labels the driver's own ``node``; ``fabric`` is where the node is in NVLink."""

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
        """``compute-domain.nvidia.com``."""
        return COMPUTE_DOMAIN_DRIVER

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """Which domain a claim is for."""
        return CONFIGS

    async def discover(self) -> Sequence[DevicePool]:
        """One channel and one daemon, on every node."""
        return (DevicePool((domain_devices(),)),)

    def config_applies(self, device: str, config: Any) -> bool:
        """Channels and daemons have parameters of their own."""
        return isinstance(config, _CONFIG_OF.get(_kind(device), ()))

    def validate(self, config: ComputeDomainChannelConfig | ComputeDomainDaemonConfig) -> None:
        """A domain must be named. Raises Refused."""
        for problem in problems(config):
            raise ClaimError(str(problem), permanent=True)

    def plan(self, claim: AllocatedClaim) -> Tree:
        """Which domain, and as what. Raises Refused."""
        if len(claim.devices) != 1:
            devices = ", ".join(allocated.device for allocated in claim.devices)
            raise ClaimError(f"devices {devices}: wanted one channel or one daemon in a claim", permanent=True)
        (allocated,) = claim.devices
        domain = self._domain(allocated)
        kind = _kind(allocated.device)
        # A domain is its namespace's: whoever else has the uid must not get at its memory.
        if kind == "channel" and claim.namespace != domain.namespace:
            raise ClaimError(
                f"device {allocated.device}: the claim is in namespace {claim.namespace}, its ComputeDomain "
                f"{domain.name} in {domain.namespace}; use the claim template of a ComputeDomain of your own namespace",
                permanent=True,
            )
        return {"claim": claim.uid, "kind": kind, "domain": domain.uid}

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Do it. Raises Refused."""
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
        """Nothing ever happens to them."""
        await asyncio.get_running_loop().create_future()
        yield DevicesChanged()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _domain(self, allocated: AllocatedDevice) -> ComputeDomain:
        config = allocated.config
        if config is None:
            raise ClaimError(
                f"device {allocated.device}: the claim does not say which ComputeDomain it is for; use the claim "
                "template that the ComputeDomain names in spec.channel.resourceClaimTemplate",
                permanent=True,
            )
        domain = self._domains.find(config.domain_id)
        if domain is None:
            raise ClaimError(f"device {allocated.device}: there is no ComputeDomain with uid {config.domain_id}")
        return domain

    async def _prepare_channel(self, allocated: AllocatedDevice, domain: ComputeDomain) -> ContainerEdits:
        await self._ensure_label(allocated.device, domain)
        if not await self._domains.wait(domain.uid, self._node, self._ready_timeout):
            raise ClaimError(
                f"device {allocated.device}: node {self._node} is not ready in ComputeDomain {domain.namespace}/"
                f"{domain.name} after {self._ready_timeout:g} s: its daemon's pod is still starting; it is tried again"
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
        """Have the domain's daemon start here."""
        try:
            present = await self._label_node(domain.uid)
        except (StatusError, Unreachable) as error:
            raise ClaimError(f"device {device}: could not label node {self._node}: {error}") from error
        if present != domain.uid:
            raise ClaimError(
                f"device {device}: node {self._node} is still in another ComputeDomain ({present}); it is free when "
                "that one's last workload on the node has ended"
            )

    async def _label_node(self, uid: str) -> str:
        """Label the node where it has no label; the one that it has then."""
        attempts = range(_ATTEMPTS)
        for attempt in attempts:
            metadata = (await self._client.get(NODES, self._node))["metadata"]
            present = (metadata.get("labels") or {}).get(LABEL)
            if present is not None:
                return str(present)
            # Of two claims that label at the same time only one may.
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
