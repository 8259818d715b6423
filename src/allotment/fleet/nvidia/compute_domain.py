"""Devices of ``compute-domain.nvidia.com``: a node's membership in a multi-node NVLink domain.

Neither is hardware. A claim for ``daemon-0`` makes the node a member of a ComputeDomain; ``channel-0`` is one of 2048
channels through which a workload accesses the memory of other nodes, and the only one that is published.
"""

from __future__ import annotations

from allotment.model.resource import Device, DeviceAttribute

COMPUTE_DOMAIN_DRIVER = "compute-domain.nvidia.com"


def domain_devices() -> tuple[Device, ...]:
    """Return the devices that every node with the driver publishes.

    >>> [device.name for device in domain_devices()]
    ['channel-0', 'daemon-0']
    """
    return tuple(
        Device(name=f"{kind}-0", attributes={"id": DeviceAttribute(int_=0), "type": DeviceAttribute(string=kind)})
        for kind in ("channel", "daemon")
    )
