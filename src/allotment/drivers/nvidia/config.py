"""Validates the parameters of claims for NVIDIA's devices, with the feature gates of the node.

The kinds, and the checks that need no gates, are in :mod:`allotment.vocabulary.parameters.nvidia`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from allotment.drivers.driver import ClaimError
from allotment.model.quantity import Quantity
from allotment.vocabulary.parameters import nvidia
from allotment.vocabulary.parameters.nvidia import GATES as _GATES
from allotment.vocabulary.parameters.nvidia import VERSION as VERSION
from allotment.vocabulary.parameters.nvidia import Config as Config
from allotment.vocabulary.parameters.nvidia import GpuConfig as GpuConfig
from allotment.vocabulary.parameters.nvidia import GpuSharing as GpuSharing
from allotment.vocabulary.parameters.nvidia import Interval as Interval
from allotment.vocabulary.parameters.nvidia import Iommu as Iommu
from allotment.vocabulary.parameters.nvidia import MigDeviceConfig as MigDeviceConfig
from allotment.vocabulary.parameters.nvidia import MigDeviceSharing as MigDeviceSharing
from allotment.vocabulary.parameters.nvidia import MpsConfig as MpsConfig
from allotment.vocabulary.parameters.nvidia import Strategy as Strategy
from allotment.vocabulary.parameters.nvidia import TimeSlicingConfig as TimeSlicingConfig
from allotment.vocabulary.parameters.nvidia import VfioDeviceConfig as VfioDeviceConfig

CONFIGS: Final = nvidia.KINDS

#: The values of ``nvidia-smi compute-policy --set-timeslice``.
INTERVALS: Final[Mapping[Interval, int]] = {"Default": 0, "Short": 1, "Medium": 2, "Long": 3}


class FeatureGates(NamedTuple):
    """Feature gates of NVIDIA's driver. They are off by default there, and on here."""

    time_slicing_settings: bool = True
    mps_support: bool = True

    def allows(self, strategy: Strategy) -> bool:
        """Whether a sharing strategy is enabled."""
        return self.time_slicing_settings if strategy == "TimeSlicing" else self.mps_support


ALL_ON: Final = FeatureGates()

_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def parse_feature_gates(text: str) -> FeatureGates:
    """Parse feature gates in the format of NVIDIA's driver; gates that are not listed are on. Raises ValueError.

    >>> parse_feature_gates("TimeSlicingSettings=false")
    FeatureGates(time_slicing_settings=False, mps_support=True)
    """
    gates = dict.fromkeys(_GATES.values(), True)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name not in gates or value not in _BOOLEANS:
            raise ValueError(
                f"expected NAME=true or NAME=false, where NAME is one of {', '.join(gates)}, found {part!r}"
            )
        gates[name] = _BOOLEANS[value]
    return FeatureGates(*gates.values())


def validate(config: Config, gates: FeatureGates) -> None:
    """Check parameters beyond their types. Raises ClaimError; permanent, unless a feature gate of the node is off."""
    off = {_GATES[strategy] for strategy in _GATES if not gates.allows(strategy)}
    for problem in nvidia.problems(config, off):
        if not problem.gate:
            raise ClaimError(str(problem), permanent=True)
        assert not isinstance(config, VfioDeviceConfig)
        assert config.sharing is not None
        raise ClaimError(  # not permanent: an administrator can turn the gate on
            f"{problem.location}: {config.sharing.strategy} requires the driver's feature gate {problem.gate}, which "
            f"is off by default; enable it (featureGates.{problem.gate}=true), or remove sharing: the claim's pods "
            "then share the GPU with default settings",
            permanent=False,
        )


def mebibytes(limit: Quantity, path: str) -> int:
    """A memory limit in whole MiB for MPS, rounded down. Raises ClaimError below 1 MiB.

    >>> mebibytes(Quantity.parse("5Gi"), "limit")
    5120
    """
    whole = nvidia.mebibytes(limit)
    if whole < 1:
        raise ClaimError(f"{path}: {nvidia.too_small(limit)}", permanent=True)
    return whole


def memory_limits(uuids: Sequence[str], default: int | None, by_device: Mapping[str, int]) -> dict[str, int]:
    """Memory limits in MiB by device UUID. The keys of ``by_device`` are UUIDs, or indexes of the sorted UUIDs.

    Raises ClaimError for a device that the claim does not have.

    >>> memory_limits(["GPU-b", "GPU-a"], 10, {"1": 20})
    {'GPU-a': 10, 'GPU-b': 20}
    """
    devices = sorted(uuids)
    limits = {} if default is None else dict.fromkeys(devices, default)
    for key, limit in by_device.items():
        if key in devices:
            limits[key] = limit
        elif key.isdigit() and int(key) < len(devices):
            limits[devices[int(key)]] = limit
        else:
            raise ClaimError(
                f"sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[{key}]: the claim has no such device; its "
                f"devices are {', '.join(f'{index} ({uuid})' for index, uuid in enumerate(devices))}",
                permanent=True,
            )
    return limits
