"""Attributes that the GPUs and the network cards of the example have."""

from __future__ import annotations

from allotment.fleet.identity import name_uuid
from allotment.model.resource import DeviceAttribute


def facts(profile: str, node: str, index: int) -> dict[str, DeviceAttribute]:
    """The same for a node each time."""
    identity = name_uuid(f"{node}/{profile}/{index}")
    return {
        "index": DeviceAttribute(int_=index),
        "uuid": DeviceAttribute(string=f"{profile}-{identity}"),
        "model": DeviceAttribute(string=f"LATEST-{profile.upper()}-MODEL"),
        "driverVersion": DeviceAttribute(version="1.0.0"),
    }
