"""Cluster-wide identifiers of pools and devices."""

from __future__ import annotations

from typing import NamedTuple


class PoolID(NamedTuple):
    """A pool: its driver and its name. Drivers may use the same pool name (commonly the node's)."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceID(NamedTuple):
    """A device: driver, pool and name."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"
