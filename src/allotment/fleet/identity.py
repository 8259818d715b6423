"""Stable generated identities: RFC 9562 version 5 UUIDs of names.

The standard uuid module is not used because it also generates random UUIDs, which the layers below the CLI must not.
"""

from __future__ import annotations

from hashlib import sha1

_DNS = bytes.fromhex("6ba7b8109dad11d180b400c04fd430c8")


def _bits(name: str) -> int:
    digest = sha1(_DNS + name.encode(), usedforsecurity=False).digest()[:16]
    bits = int.from_bytes(digest, "big")
    bits = bits & ~(0xF << 76) | 5 << 76  # version
    return bits & ~(0x3 << 62) | 0x2 << 62  # variant


def name_uuid(name: str) -> str:
    """Return the UUID of a name in the DNS namespace.

    >>> name_uuid("node-a100/0000:07:00.0")
    '7b87886d-1164-5d74-9d38-3ac3c50b31dd'
    """
    digits = f"{_bits(name):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def name_number(name: str) -> int:
    """Return a 64-bit number for a name: the lower half of its UUID."""
    return _bits(name) & (1 << 64) - 1


def uuid_variable(device: str) -> str:
    """Return the environment variable with the UUID of a device that is created on demand, for simulated containers.

    >>> uuid_variable("gpu-0-mig-1g5gb-19-3")
    'ALLOTMENT_UUID_GPU_0_MIG_1G5GB_19_3'
    """
    return f"ALLOTMENT_UUID_{device.upper().replace('-', '_')}"
