"""Requests and responses of the DRA API between a kubelet and a driver, as values.

The same values are sent over gRPC in both versions of the service (:mod:`.client`, :mod:`.server`) and passed directly
if kubelet and driver run in one process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from allotment.model.features import Features
from allotment.model.releases import release_table

Health = Literal["Healthy", "Unhealthy", "Unknown"]


class ClaimRef(NamedTuple):
    """A claim in a kubelet's request; the driver reads the rest from the API."""

    namespace: str
    uid: str
    name: str


class PreparedDevice(NamedTuple):
    """A device of a prepared claim. ``requests``: names without subrequest; empty means all requests of the claim."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str = ""


class PrepareResult(NamedTuple):
    """The result for one claim: its devices or an error."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class DeviceHealth(NamedTuple):
    """Health of a device. ``updated``: Unix seconds; ``timeout``: seconds until it is Unknown, 0 means 30."""

    pool: str
    device: str
    health: Health
    updated: int
    timeout: int = 0
    message: str = ""


class PluginCallError(Exception):
    """Raised if a whole call fails, not only one of its claims. The text appears in the kubelet's event."""


class HealthNotSupported(PluginCallError):
    """Raised by a health stream if the driver lists the health service but does not report health."""


class KubeletPlugin(Protocol):
    """A driver as its node's kubelet calls it. Calls may be repeated and must then return the same result."""

    @property
    def name(self) -> str: ...

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        """Prepare the devices of claims; return one result for each claim, by UID. Raises PluginCallError."""
        ...

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Release the devices of claims; return errors by UID, "" for success. Raises PluginCallError.

        Unknown claims are released already."""
        ...

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        """Return a stream of lists of the driver's devices, or None if the driver does not report health."""
        ...


def health_services(features: Features) -> tuple[str, ...]:
    """The versions of the health service that the kubelets of a release call, in the order of their preference.

    >>> health_services(Features("1.37"))
    ('v1.DRAResourceHealth', 'v1alpha1.DRAResourceHealth')
    """
    return tuple(f"{version}.DRAResourceHealth" for version in release_table(features.kube).plugins["dra-health"])
