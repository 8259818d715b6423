"""NVIDIA's hardware interface implemented by NVML, the driver's tools and the kernel's files of this host.

NVML and other blocking code is called in one dedicated thread, one call at a time: NVML's handles become invalid when
it is restarted, and a call can take seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import ParamSpec, TypeVar

from allotment.cdi.spec import ContainerEdits
from allotment.drivers.nvidia import nvml
from allotment.drivers.nvidia.hardware import (
    ComputeMode,
    Event,
    GpuLost,
    GpusChanged,
    MigDevice,
    MpsDaemon,
    Unmonitored,
)
from allotment.drivers.nvidia.host import container_edits, sysfs, vfio
from allotment.drivers.nvidia.host.mps import MpsDaemons
from allotment.drivers.nvidia.host.roots import Roots
from allotment.drivers.nvidia.host.vendor_tools import nvidia_smi
from allotment.fleet.nvidia import Gpu
from allotment.fleet.profiles import accelerators

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

#: Seconds for which the list of the driver's files is cached.
EDITS_TTL_SECONDS = 300.0


class HostHardware:
    """The hardware of a real host. ``interval``: seconds between polls for events.

    Close it to end its thread; MIG devices and daemons are not changed.
    """

    def __init__(self, roots: Roots | None = None, *, interval: float = 1.0, mps_timeout: float = 20.0) -> None:
        self._roots = roots or Roots()
        self._interval = interval
        self._library = nvml.Library(self._roots.driver)
        self._daemons = MpsDaemons(self._roots, mps_timeout)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nvml")
        self._gpus_by_address: dict[str, Gpu] = {}
        self._unavailable = ""
        self._common_edits: tuple[float, str, ContainerEdits] | None = None

    async def close(self) -> None:
        """Stop NVML and the thread."""
        await self._in_thread(self._library.stop)
        self._thread.shutdown()

    async def _in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: call(*args, **kwargs))

    # --- discovery ----------------------------------------------------------------------------------------------------

    async def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs by PCI address: those of NVIDIA's driver, and those that are bound to vfio-pci.

        A GPU that no longer answers is still listed, with its last known facts, as long as the kernel lists it, so that
        its health can be reported.
        """
        return await self._in_thread(self._read_gpus)

    def _read_gpus(self) -> tuple[Gpu, ...]:
        iommu_fd = (self._roots.dev / "iommu").exists()
        gpus = {gpu.pci: gpu for gpu in self._nvml_gpus()}
        if not self._unavailable:
            silent = sysfs.bound_to(self._roots, "nvidia") & self._gpus_by_address.keys() - gpus.keys()
            gpus |= {pci: self._gpus_by_address[pci] for pci in silent if not self._gpus_by_address[pci].vfio_bound}
        for pci in sysfs.vfio_gpus(self._roots):
            gpus[pci] = self._vfio_gpu(pci)
        self._gpus_by_address |= {pci: gpu._replace(iommu_fd=iommu_fd) for pci, gpu in gpus.items()}
        return tuple(self._gpus_by_address[pci] for pci in sorted(gpus))

    def _nvml_gpus(self) -> list[Gpu]:
        try:
            handles = self._library.handles()
        except nvml.NvmlUnavailable as reason:
            if str(reason) != self._unavailable:
                _log.warning("no GPUs: %s", reason)
            self._unavailable = str(reason)
            return []
        self._unavailable = ""
        gpus = [self._nvml_gpu(handle) for handle in handles]
        return [gpu for gpu in gpus if gpu is not None]

    def _nvml_gpu(self, handle: nvml.Handle) -> Gpu | None:
        gpu = nvml.facts_of(self._library, handle)
        if gpu is None:
            return None
        location = sysfs.pci_location(self._roots, gpu.pci)
        return gpu._replace(
            numa=location.numa, pcie_root=location.pcie_root, bar_bytes=location.bar_bytes or gpu.bar_bytes,
            iommu_group=sysfs.iommu_group(self._roots, gpu.pci),
        )  # fmt: skip

    def _vfio_gpu(self, pci: str) -> Gpu:
        location = sysfs.pci_location(self._roots, pci)
        gpu = self._gpus_by_address.get(pci)
        if gpu is None:
            models = (
                model
                for model in accelerators().values()
                if model.vendor == "nvidia" and model.pci_device == location.device_id
            )
            product = next((model.product for model in models), "")
            gpu = Gpu(pci, "", -1, product, "", "", "", "", "", None, device_id=location.device_id)
        return gpu._replace(
            numa=location.numa, pcie_root=location.pcie_root, bar_bytes=location.bar_bytes,
            iommu_group=sysfs.iommu_group(self._roots, pci), vfio_bound=True, mig_enabled=False,
        )  # fmt: skip

    def _known_gpu(self, pci: str) -> Gpu:
        """The facts of a GPU, read if they are not known yet."""
        if pci not in self._gpus_by_address:
            self._thread.submit(self._read_gpus).result()
        if pci not in self._gpus_by_address:
            raise GpuLost(f"GPU {pci}: not found by NVML or the kernel")
        return self._gpus_by_address[pci]

    # --- MIG ----------------------------------------------------------------------------------------------------------

    async def mig_devices(self, pci: str) -> tuple[MigDevice, ...]:
        return await self._in_thread(lambda: nvml.mig_devices(self._library, self._handle(pci)))

    async def create_mig(self, pci: str, profile_id: int, start: int) -> MigDevice:
        def create() -> MigDevice:
            handle = self._handle(pci)
            reset_to_toggle = self._needs_reset(handle)
            device = nvml.create_mig_device(self._library, handle, profile_id, start, reset_to_toggle=reset_to_toggle)
            # Enabling MIG may have changed the number of the GPU's device node.
            self._read_gpus()
            return device

        return await self._in_thread(create)

    async def destroy_mig(self, pci: str, profile_id: int, start: int) -> None:
        """Destroy a MIG device; after the last one MIG is disabled, if that needs no reset."""

        def destroy() -> None:
            handle = self._handle(pci)
            reset_to_toggle = self._needs_reset(handle)
            nvml.destroy_mig_device(self._library, handle, profile_id, start, reset_to_toggle=reset_to_toggle)

        await self._in_thread(destroy)

    async def disable_mig(self, pci: str) -> None:
        await self._in_thread(lambda: nvml.disable_mig(self._library, self._handle(pci)))

    def _handle(self, pci: str) -> nvml.Handle:
        try:
            return self._library.handle(pci)
        except nvml.NvmlUnavailable as reason:
            raise GpuLost(f"GPU {pci}: {reason}") from None

    def _needs_reset(self, handle: nvml.Handle) -> bool:
        gpu = self._gpus_by_address.get(handle.pci) or nvml.facts_of(self._library, handle)
        return gpu is None or gpu.mig is None or gpu.mig.reset_to_toggle

    # --- sharing ------------------------------------------------------------------------------------------------------

    async def set_time_slice(self, pci: str, interval: int) -> None:
        """Set the time slice: 0 default, 1 short, 2 medium, 3 long. 0 is no error on a GPU without time slices."""
        uuid = await self._in_thread(self._uuid, pci)
        await nvidia_smi(self._roots, uuid, "-i", uuid, "-c", "DEFAULT")
        arguments = ("compute-policy", "-i", uuid, "--set-timeslice", str(interval))
        await nvidia_smi(self._roots, uuid, *arguments, ignore_unsupported=interval == 0)

    async def set_compute_mode(self, pci: str, mode: ComputeMode) -> None:
        uuid = await self._in_thread(self._uuid, pci)
        await nvidia_smi(self._roots, uuid, "-i", uuid, "-c", mode)

    def _uuid(self, pci: str) -> str:
        """The UUID of a GPU that answers now."""
        handle = self._handle(pci)
        return nvml.uuid_of(self._library, handle)

    async def start_mps(self, daemon: MpsDaemon) -> None:
        await self._daemons.start(daemon)

    async def stop_mps(self, key: str) -> None:
        await self._daemons.stop(key)

    async def mps_daemons(self) -> frozenset[str]:
        return await self._daemons.running()

    async def bind_vfio(self, pci: str, bound: bool, *, together_with: Collection[str] = ()) -> int:
        def bind() -> int:
            if not bound:
                return vfio.unbind_from_vfio(self._roots, pci)
            minor = self._gpus_by_address[pci].minor if pci in self._gpus_by_address else -1
            self._library.release(pci)
            return vfio.bind_to_vfio(self._roots, pci, minor, together_with)

        return await self._in_thread(bind)

    # --- containers ---------------------------------------------------------------------------------------------------

    def common_edits(self) -> ContainerEdits:
        """Edits for every container with a GPU. The driver's files are searched again every few minutes."""
        return self._cached_edits(EDITS_TTL_SECONDS)

    def _cached_edits(self, max_age: float) -> ContainerEdits:
        version = next((gpu.driver_version for gpu in self._gpus_by_address.values() if gpu.driver_version), "")
        now = monotonic()
        if self._common_edits is None or self._common_edits[1] != version or now - self._common_edits[0] > max_age:
            self._common_edits = (now, version, container_edits.common(self._roots, version))
        return self._common_edits[2]

    def gpu_edits(self, pci: str) -> ContainerEdits:
        return container_edits.whole_gpu(self._roots, self._known_gpu(pci))

    def mig_edits(self, device: MigDevice) -> ContainerEdits:
        return container_edits.mig_device(self._roots, self._known_gpu(device.pci), device)

    def mps_edits(self, key: str) -> ContainerEdits:
        return self._daemons.edits(key)

    def vfio_edits(self, pci: str, group: int, *, api_device: bool, iommu_fd: bool) -> ContainerEdits:
        return container_edits.vfio_device(self._roots, pci, group, api_device=api_device, iommu_fd=iommu_fd)

    def grant_edits(self, claim: str, device: str | MigDevice, daemon: str = "") -> ContainerEdits:
        """No edits: a container reaches a real GPU by its device node."""
        return ContainerEdits()

    # --- events -------------------------------------------------------------------------------------------------------

    async def events(self) -> AsyncIterator[Event]:
        """Critical events, and added and removed GPUs, without end."""
        watcher: nvml.EventWatcher | None = None
        bound = sysfs.bound_to(self._roots, "nvidia")
        try:
            while True:
                watcher, events = await self._in_thread(self._poll_events, watcher)
                for event in events:
                    yield event
                current = sysfs.bound_to(self._roots, "nvidia")
                if current != bound:
                    # NVML lists the GPUs at the time it was started.
                    await self._in_thread(self._restart, watcher)
                    watcher = None
                    yield GpusChanged(recovered=tuple(sorted(current - bound)))
                    bound = current
                # Refreshed here and not only on demand: a cold disk is slow, and every waiting claim would be delayed.
                await self._in_thread(self._cached_edits, EDITS_TTL_SECONDS / 2)
                await asyncio.sleep(self._interval)
        finally:
            if watcher is not None:
                await self._in_thread(watcher.close)

    def _poll_events(self, watcher: nvml.EventWatcher | None) -> tuple[nvml.EventWatcher | None, list[Event]]:
        events: list[Event] = []
        if watcher is None or watcher.is_stale:
            was_unavailable = bool(self._unavailable)
            try:
                watcher = nvml.EventWatcher(self._library)
            except nvml.NvmlUnavailable:
                return None, events
            if watcher.unmonitored:
                _log.warning(
                    "critical events of GPU %s are not watched, because NVIDIA's driver does not report them",
                    ", ".join(watcher.unmonitored),
                )
            if was_unavailable:
                events.append(GpusChanged())
            events.extend(map(Unmonitored, watcher.unmonitored))
        return watcher, [*events, *watcher.poll()]

    def _restart(self, watcher: nvml.EventWatcher | None) -> None:
        if watcher is not None:
            watcher.close()
        self._library.stop()
