"""The servers of the recordings: their release, feature gates and served API versions, by file name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from allotment.model.features import GATES, Features


class RecordedServer(NamedTuple):
    """How a recorded control plane was started. ``runtime_config``: the values of ``--runtime-config``."""

    release: str
    gates: Mapping[str, bool] = {}
    runtime_config: tuple[str, ...] = ()

    @property
    def features(self) -> Features:
        """The features of a lab that answers as this server. Raises ValueError for an unknown release or gate."""
        return Features(self.release, dict(self.gates))


def _device_gates(release: str) -> Mapping[str, bool]:
    return {gate: True for gate, releases in GATES.items() if gate.startswith("DRA") and release in releases}


def _on(*gates: str) -> Mapping[str, bool]:
    return dict.fromkeys(gates, True)


#: The recordings of 1.36.2: every device gate, and all versions of devices and groups.
_EVERYTHING_OF_1_36: Final = RecordedServer(
    "1.36",
    {**_device_gates("1.36"), "GenericWorkload": True},
    tuple(
        f"{version}=true"
        for version in ("resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3",
                        "scheduling.k8s.io/v1alpha2")
    ),
)  # fmt: skip
#: By file name; the first match applies. ``-p1``: as the release is by default; ``-p2``: the gates of the recordings'
#: README, and all versions.
_BY_NAME: Final = (
    (r"137-.*-p1\b", RecordedServer("1.37")),
    (
        r"137-.*-p2\b",
        RecordedServer(
            "1.37",
            _on(
                "DRAFractionalCapacityRange", "DRADerivedAttributes", "DRADeviceCompatibilityGroups",
                "DRAListTypeAttributes", "DRANodeAllocatableResources", "DRAOptionalNodeOperations",
                "DRAPartitionableDevicesType", "DRAResourcePoolStatus", "DRAWorkloadResourceClaims", "GenericWorkload",
                "CompositePodGroup", "TopologyAwareWorkloadScheduling", "PodGroupPreemptionPolicy", "WorkloadWithJob",
            ),
            ("api/all=true",),
        ),
    ),
    (r"", _EVERYTHING_OF_1_36),
)  # fmt: skip


def recorded_server(name: str) -> RecordedServer:
    """The server of a recording, by the name of its file or scenario.

    >>> recorded_server("137-10-discovery-p1.jsonl.gz").release, recorded_server("10-discovery.jsonl.gz").release
    ('1.37', '1.36')
    """
    return next(server for pattern, server in _BY_NAME if re.match(pattern, name))
