"""Simulated hardware for a real kubelet and a real container runtime: a vendor's driver on any machine.

Slices, claims, MIG devices and checkpoints are the same as with the hardware. Containers are not: a runtime rejects
device nodes and mounts whose files do not exist on the host. They get only variables: the vendor's, and some that
describe the simulation.
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

#: Set in every container with a simulated device, to the driver and the simulated hardware.
VARIABLE: Final = "ALLOTMENT_SIMULATED"


class SimulatedHardwareDriver:
    """A vendor's driver over simulated hardware. ``hardware``: what is simulated, in the syntax of ``--fleet``."""

    def __init__(self, inner: Driver, hardware: str) -> None:
        self.inner = inner
        self.simulated_hardware = hardware

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        return self.inner.configs

    async def discover(self) -> Sequence[DevicePool]:
        return await self.inner.discover()

    def config_applies(self, device: str, config: Any) -> bool:
        return self.inner.config_applies(device, config)

    def validate(self, config: Any) -> None:
        self.inner.validate(config)

    def plan(self, claim: AllocatedClaim) -> Tree:
        return self.inner.plan(claim)

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Prepare the simulated hardware; of the container edits, only variables are kept. Raises ClaimError."""
        prepared = await self.inner.prepare(claim, plan)
        devices = {key: self._device_with_variables(key, ready) for key, ready in prepared.devices.items()}
        env = (*prepared.edits.env, f"{VARIABLE}={self.name} {self.simulated_hardware}")
        return PreparedClaim(devices, ContainerEdits(env=env))

    def _device_with_variables(self, key: tuple[str, str, str], ready: ReadyDevice) -> ReadyDevice:
        pool, device, _ = key
        # A separate variable for each device: otherwise one of two devices in a container would hide the other.
        variable = f"{VARIABLE}_{_variable_part(pool)}_{_variable_part(device)}"
        return ready._replace(edits=ContainerEdits(env=(*ready.edits.env, f"{variable}={pool}/{device}")))

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        await self.inner.unprepare(plan, others)

    def watch(self) -> AsyncIterator[DeviceEvent]:
        return self.inner.watch()

    def restore(self, plans: Sequence[Tree]) -> None:
        if isinstance(self.inner, StatefulDriver):
            self.inner.restore(plans)

    async def ensure_running(self, plan: Tree) -> None:
        if isinstance(self.inner, DaemonDriver):
            await self.inner.ensure_running(plan)

    async def sweep(self, plans: Sequence[Tree]) -> None:
        if isinstance(self.inner, SweepingDriver):
            await self.inner.sweep(plans)


def state_folder(folder: Path, boot_id: str, hardware: str) -> Path:
    """Return the folder for simulated hardware that outlives its driver, but not a reboot or a change of ``hardware``.

    Folders of earlier boots are removed. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if not old.name.startswith(boot_id):
            shutil.rmtree(old, ignore_errors=True)
    return folder / f"{boot_id}-{sha256(hardware.encode()).hexdigest()[:8]}"


def _variable_part(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.upper())
