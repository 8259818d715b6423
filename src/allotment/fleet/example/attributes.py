"""Attributes of the example driver's GPUs and network cards."""

from __future__ import annotations

from allotment.fleet.identity import name_uuid
from allotment.model.resource import DeviceAttribute


def facts(profile: str, node: str, index: int) -> dict[str, DeviceAttribute]:
    """Return the attributes of a device; they are stable for a node."""
    identity = name_uuid(f"{node}/{profile}/{index}")
    return {
        "index": DeviceAttribute(int_=index),
        "uuid": DeviceAttribute(string=f"{profile}-{identity}"),
        "model": DeviceAttribute(string=f"LATEST-{profile.upper()}-MODEL"),
        "driverVersion": DeviceAttribute(version="1.0.0"),
    }
