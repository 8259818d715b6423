"""The Kubernetes release and feature gates that a run models.

The table repeats the gate registry of each release: a gate that is absent from a release does not exist there; a gate
whose stage is ``GA`` or locked cannot be turned off (GA gates that upstream has not locked can).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Releases whose behaviour is modelled, oldest first.
RELEASES = ("1.34", "1.35", "1.36", "1.37")

# fmt: off
#: gate -> release -> (stage, on by default). Source: KEP tables and the versioned gate registry.
GATES: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    "DynamicResourceAllocation": {
        "1.34": ("GA", True), "1.35": ("GA", True), "1.36": ("GA", True), "1.37": ("GA", True),
    },
    "DRAAdminAccess": {
        "1.34": ("Beta", True), "1.35": ("Beta", True), "1.36": ("GA", True), "1.37": ("GA", True),
    },
    "DRAPrioritizedList": {
        "1.34": ("Beta", True), "1.35": ("Beta", True), "1.36": ("GA", True), "1.37": ("GA", True),
    },
    "DRAResourceClaimDeviceStatus": {
        "1.34": ("Beta", True), "1.35": ("Beta", True), "1.36": ("Beta", True), "1.37": ("GA", True),
    },
    "DRAPartitionableDevices": {
        "1.34": ("Alpha", False), "1.35": ("Alpha", False), "1.36": ("Beta", True), "1.37": ("Beta", True),
    },
    "DRADeviceTaints": {
        "1.34": ("Alpha", False), "1.35": ("Alpha", False), "1.36": ("Beta", True), "1.37": ("GA", True),
    },
    "DRADeviceTaintRules": {
        "1.35": ("Alpha", False), "1.36": ("Beta", False), "1.37": ("GA", True),
    },
    "DRAConsumableCapacity": {
        "1.34": ("Alpha", False), "1.35": ("Alpha", False), "1.36": ("Beta", True), "1.37": ("Beta", True),
    },
    "DRADeviceBindingConditions": {
        "1.34": ("Alpha", False), "1.35": ("Alpha", False), "1.36": ("Beta", True), "1.37": ("Beta", True),
    },
    "DRAExtendedResource": {
        "1.34": ("Alpha", False), "1.35": ("Alpha", False), "1.36": ("Beta", True), "1.37": ("GA", True),
    },
    "DRAListTypeAttributes": {"1.36": ("Alpha", False), "1.37": ("Alpha", False)},
    "DRANodeAllocatableResources": {"1.36": ("Alpha", False), "1.37": ("Alpha", False)},
    "DRAResourcePoolStatus": {"1.36": ("Alpha", False), "1.37": ("Alpha", False)},
    "DRAWorkloadResourceClaims": {"1.36": ("Alpha", False), "1.37": ("Beta", False)},
    "DRAFractionalCapacityRange": {"1.37": ("Beta", True)},
}
# fmt: on
#: Resources of ``resource.k8s.io`` that are served only if a gate is on: they reveal the state of the gate.
GATED_RESOURCES: Mapping[str, str] = {
    "devicetaintrules": "DRADeviceTaintRules",
    "resourcepoolstatusrequests": "DRAResourcePoolStatus",
}  # fmt: skip
_MINOR = re.compile(r"v?1\.([0-9]+)")


def modelled_release(version: str) -> str:
    """The modelled release for a version: the newest one for newer versions, the oldest one for older versions.

    >>> modelled_release("v1.36.2-gke.100"), modelled_release("1.99"), modelled_release("v1.33.1")
    ('1.36', '1.37', '1.34')
    """
    match = _MINOR.match(version)
    minors = [int(release.partition(".")[2]) for release in RELEASES]
    requested = int(match[1]) if match else minors[-1]
    return RELEASES[max((index for index, minor in enumerate(minors) if minor <= requested), default=0)]


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a cluster: its release, and the gates that differ from the defaults of that release.

    >>> Features(kube="1.35").enabled("DRADeviceTaints")
    False
    >>> Features(kube="1.36", gates={"DRADeviceTaints": False}).enabled("DRADeviceTaints")
    False
    """

    kube: str
    gates: Mapping[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kube not in RELEASES:
            raise ValueError(f"Kubernetes release: expected one of {', '.join(RELEASES)}, found {self.kube!r}")
        for gate in self.gates:
            if gate not in GATES:
                raise ValueError(f"feature gate: {gate!r} is unknown to Kubernetes {self.kube}")

    def enabled(self, gate: str) -> bool:
        """Whether a gate is on; a gate that the release does not have is off."""
        stage = GATES[gate].get(self.kube)
        if stage is None:
            return False
        return self.gates.get(gate, stage[1])

    def __hash__(self) -> int:
        return hash((self.kube, tuple(sorted(self.gates.items()))))
