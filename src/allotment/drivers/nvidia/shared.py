"""Mode ``shared``: "10 GiB of a GPU" without MIG, and held to it.

A claim that consumed an amount of a GPU's memory gets an MPS daemon of its own, whose limit for pinned device memory is
exactly that amount: an allocation beyond it fails in the program that asks, and nowhere else.

What that keeps, and what not. Limits could also be variables of the container, with one daemon per GPU that owns it
(EXCLUSIVE_PROCESS). Then no program gets past MPS; but the container could change its own limit, and all claims'
programs would share one server, in which one program's fault ends the others'. With a daemon per claim the limit is the
daemon's, where no container can reach it, and a fault stays in the claim. The price:

- Several daemons on one GPU need compute mode DEFAULT. A program that leaves ``CUDA_MPS_PIPE_DIRECTORY`` aside on
  purpose, or whose daemon has died, is then a plain client of the GPU, without a limit. It is protection against
  mistakes, such as a framework that takes all memory there is, and not against malice; where that is needed, take MIG.
- MPS limits each program: a claim whose pods start two has twice the amount.
- Programs of different claims take turns on the GPU; only those of one claim run side by side.
"""

from __future__ import annotations

from typing import Any

from allotment.drivers.driver import Granted, Refused
from allotment.drivers.nvidia.config import GpuConfig, MpsConfig, mebibytes
from allotment.drivers.nvidia.plan import Daemon, Held, daemon_key
from allotment.model.quantity import Quantity

#: The capacity that claims consume, by itself or with the driver's domain.
_NAMES = ("memory", "gpu.nvidia.com/memory")


def limited(claim: str, position: int, held: Held, granted: Granted, config: MpsConfig) -> Daemon:
    """The daemon that holds a claim's programs to the memory that the claim consumed. Raises Refused."""
    consumed = _consumed(granted)
    if held.kind != "gpu" or consumed is None:
        raise Refused(
            f"device {held.device}: this node shares GPUs by memory, and the claim's allocation does not say how much "
            "it consumed; the cluster needs the feature DRAConsumableCapacity",
            permanent=True,
        )
    return Daemon(
        # A claim may hold several shares of one GPU.
        key=daemon_key(claim, (held.uuid, held.share_id)),
        members=(position,),
        exclusive=False,
        threads=config.default_active_thread_percentage,
        limit=mebibytes(consumed, f"device {held.device}: consumed memory"),
        multi_user=config.multi_user,
    )


def share_config(config: Any) -> MpsConfig:
    """What parameters still may say where the consumed memory is the limit. Raises Refused."""
    sharing = config.sharing if isinstance(config, GpuConfig) else None
    if sharing is None:
        return MpsConfig()
    if sharing.strategy != "MPS":
        raise Refused(
            "sharing.strategy: this node shares GPUs by memory, which needs MPS; found TimeSlicing", permanent=True
        )
    mps: MpsConfig = sharing.mps_config or MpsConfig()
    if mps.default_pinned_device_memory_limit is not None or mps.default_per_device_pinned_memory_limit:
        raise Refused(
            "sharing.mpsConfig: this node shares GPUs by memory, and the limit is what the claim asked for; ask for it "
            "with capacity.requests.memory and leave the memory limits out",
            permanent=True,
        )
    return mps


def _consumed(granted: Granted) -> Quantity | None:
    return next((granted.consumed[name] for name in _NAMES if name in granted.consumed), None)
