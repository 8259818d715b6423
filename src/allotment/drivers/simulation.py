"""Hardware that is not there, for a kubelet and a container runtime that are: a vendor's driver on any machine.

Slices, claims, MIG devices and checkpoints are what they would be with the hardware. Containers cannot be: a runtime
refuses a device node or a mount whose file its host does not have. So they get variables only, the vendor's own and
some that say what is simulated.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from allotment.cdi.spec import ContainerEdits
from allotment.drivers.driver import (
    AllocatedClaim,
    DaemonDriver,
    DeviceEvent,
    DevicePool,
    Driver,
    PreparedClaim,
    ReadyDevice,
    StatefulDriver,
    SweepingDriver,
    Tree,
)

log = logging.getLogger(__name__)

#: In every container with such a device: the driver, and what it simulates.
VARIABLE: Final = "ALLOTMENT_SIMULATED"


class SimulatedHardwareDriver:
    """A driver over simulated hardware. ``form``: what hardware, as ``--fleet`` has it."""

    def __init__(self, inner: Driver, form: str) -> None:
        self.inner = inner
        self.hardware = form

    @property
    def name(self) -> str:
        """The vendor's."""
        return self.inner.name

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """The vendor's."""
        return self.inner.configs

    async def discover(self) -> Sequence[DevicePool]:
        """The vendor's devices."""
        return await self.inner.discover()

    def config_applies(self, device: str, config: Any) -> bool:
        """As the vendor has it."""
        return self.inner.config_applies(device, config)

    def validate(self, config: Any) -> None:
        """As the vendor has it. Raises Refused."""
        self.inner.validate(config)

    def plan(self, claim: AllocatedClaim) -> Tree:
        """As the vendor has it. Raises Refused."""
        return self.inner.plan(claim)

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Do it to hardware that is not there; of what containers would need, only variables stay. Raises Refused."""
        prepared = await self.inner.prepare(claim, plan)
        devices = {key: self._device_with_variables(key, ready) for key, ready in prepared.devices.items()}
        env = (*prepared.edits.env, f"{VARIABLE}={self.name} {self.hardware}")
        return PreparedClaim(devices, ContainerEdits(env=env))

    def _device_with_variables(self, key: tuple[str, str, str], ready: ReadyDevice) -> ReadyDevice:
        pool, device, _ = key
        # A variable of its own for each device: of two devices of one container, neither hides the other.
        variable = f"{VARIABLE}_{_variable_part(pool)}_{_variable_part(device)}"
        return ready._replace(edits=ContainerEdits(env=(*ready.edits.env, f"{variable}={pool}/{device}")))

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """As the vendor has it. Raises Refused."""
        await self.inner.unprepare(plan, others)

    def watch(self) -> AsyncIterator[DeviceEvent]:
        """As the vendor has it."""
        return self.inner.watch()

    def restore(self, plans: Sequence[Tree]) -> None:
        """Where the vendor's wants to know."""
        if isinstance(self.inner, StatefulDriver):
            self.inner.restore(plans)

    async def ensure_running(self, plan: Tree) -> None:
        """Where the vendor's has something to revive. Raises Refused."""
        if isinstance(self.inner, DaemonDriver):
            await self.inner.ensure_running(plan)

    async def sweep(self, plans: Sequence[Tree]) -> None:
        """Where the vendor's can. Raises Refused."""
        if isinstance(self.inner, SweepingDriver):
            await self.inner.sweep(plans)


def state_folder(folder: Path, boot_id: str, hardware: str) -> Path:
    """Where hardware is kept that outlives its driver, but neither a restart of the machine nor another choice of it.

    What earlier boots left is removed: nobody uses it any more. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if not old.name.startswith(boot_id):
            shutil.rmtree(old, ignore_errors=True)
    return folder / f"{boot_id}-{sha256(hardware.encode()).hexdigest()[:8]}"


def _variable_part(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.upper())
