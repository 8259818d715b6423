"""Names of MIG profiles, for drivers that do not tell them (NVML before version 2 of its profile information).

A name is made of compute slices, memory in GB as on the label, and what kind of profile it is: ``1g.5gb+me``.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.fleet.profiles import MIB


class ProfileKind(NamedTuple):
    """What NVML's number of a GPU instance profile says: how many slices, and what is special."""

    slices: int
    suffix: str = ""


#: NVML's ``NVML_GPU_INSTANCE_PROFILE_*`` by number. A profile's id, which names and tools show, is something else.
KINDS: tuple[ProfileKind, ...] = (
    ProfileKind(1),
    ProfileKind(2),
    ProfileKind(3),
    ProfileKind(4),
    ProfileKind(7),
    ProfileKind(8),
    ProfileKind(6),
    ProfileKind(1, "+me"),
    ProfileKind(2, "+me"),
    ProfileKind(1),  # twice the memory
    ProfileKind(1, "+gfx"),
    ProfileKind(2, "+gfx"),
    ProfileKind(4, "+gfx"),
    ProfileKind(1, "-me"),
    ProfileKind(2, "-me"),
    ProfileKind(1, "+me.all"),
    ProfileKind(2, "+me.all"),
    ProfileKind(3, "+gfx"),
)


def profile_name(number: int, slices: int, memory_mib: int, total_bytes: int) -> str:
    """The name of NVML's profile ``number``, of that many slices and MiB on a GPU of ``total_bytes``.

    Memory counts in eighths of the GPU, rounded up, of the GPU's GiB, rounded up.

    >>> profile_name(7, 1, 4864, 40960 * MIB)
    '1g.5gb+me'
    >>> profile_name(2, 3, 71168, 143771 * MIB)  # 70.5, and half goes up
    '3g.71gb'
    """
    eighths = -(-memory_mib * MIB * 8 // total_bytes)
    label = -(-total_bytes >> 30)
    # floor(eighths / 8 * label + 1/2) in whole numbers
    gigabytes = (eighths * label + 4) // 8
    suffix = KINDS[number].suffix if 0 <= number < len(KINDS) else ""
    return f"{slices}g.{gigabytes}gb{suffix}"
