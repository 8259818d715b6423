"""What a kubelet asks of a driver and what it is answered, as values.

The same values go over gRPC (:mod:`.client`, :mod:`.server`; both versions of the service) and straight from call to
call where kubelet and driver live in one process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

Health = Literal["Healthy", "Unhealthy", "Unknown"]


class ClaimRef(NamedTuple):
    """A claim as a kubelet names it: the driver reads the rest from the API."""

    namespace: str
    uid: str
    name: str


class PreparedDevice(NamedTuple):
    """One device of a prepared claim. ``requests``: base names (no subrequest); none means every container's."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str = ""


class PrepareResult(NamedTuple):
    """The answer for one claim: its devices, or why there are none."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class DeviceHealth(NamedTuple):
    """How a device is. ``updated``: Unix seconds; ``timeout``: seconds until silence is Unknown, 0 for the usual 30."""

    pool: str
    device: str
    health: Health
    updated: int
    timeout: int = 0
    message: str = ""


class PluginCallError(Exception):
    """A whole call failed, not a claim of it. The text is what the kubelet's event shows."""


class KubeletPlugin(Protocol):
    """A driver as the kubelet of its node sees it. Every call may be repeated and must then answer the same."""

    @property
    def name(self) -> str:
        """The driver's name."""
        ...

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        """Make the claims' devices usable; answers by claim uid, one for every claim. Raises CallFailed."""
        ...

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Undo it; by uid, the empty text or the error. Unknown claims are done already. Raises CallFailed."""
        ...

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        """Each message is the full list of the driver's devices. None: the driver does not tell."""
        ...
