"""MIG placements of a GPU: parsing of layouts, capacity totals, and search for placements that fit.

A GPU is a row of memory slices. A MIG device of a profile covers ``size`` of them, from one of the allowed starts, and
also uses engines and multiprocessors. The same totals bound a static layout and, published as
shared counters (KEP-4815), a dynamic one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from allotment.fleet.errors import FleetError, suggestion
from allotment.fleet.profiles import Accelerator, Mig, MigProfile

#: (field of a profile, name as a capacity, name as a counter). Counter names must be DNS labels, capacities need not.
DIMENSIONS = (
    ("multiprocessors", "multiprocessors", "multiprocessors"),
    ("copy_engines", "copyEngines", "copy-engines"),
    ("decoders", "decoders", "decoders"),
    ("encoders", "encoders", "encoders"),
    ("jpeg_engines", "jpegEngines", "jpeg-engines"),
    ("ofa_engines", "ofaEngines", "ofa-engines"),
    ("memory_mib", "memory", "memory"),
)

#: Profile suffixes that follow a ``+``, which also separates the profiles of a layout.
_SUFFIXES = ("me", "me.all", "gfx")

#: A common mistake for ``1g.5gb:7``: ``7x1g.5gb``.
_COUNT_FIRST = re.compile(r"([0-9]+)x(.+)")


@dataclass(frozen=True, slots=True)
class MigPlacement:
    """A MIG device of a layout: a profile and its first memory slice."""

    profile: MigProfile
    start: int

    @property
    def slices(self) -> range:
        """The occupied memory slices."""
        return range(self.start, self.start + self.profile.size)


def totals(mig: Mig) -> dict[str, int]:
    """Return the total capacity of a GPU for its MIG devices, by field of ``DIMENSIONS``.

    NVIDIA's driver takes the largest profile. On B200 every profile has one decoder, so by that rule one MIG device
    would use up the GPU; here the total is at least what the maximum number of equal MIG devices uses.
    """
    return {
        field: max(profile.max_instances * int(getattr(profile, field)) for profile in mig.profiles)
        for field, _, _ in DIMENSIONS
    }


def placements(mig: Mig) -> Iterator[MigPlacement]:
    """Yield every profile at every start, in the order of the table."""
    for profile in mig.profiles:
        for start in profile.starts:
            yield MigPlacement(profile, start)


def mig_of(accelerator: Accelerator) -> Mig:
    """Return the MIG tables of an accelerator. Raises FleetError if it has no MIG."""
    if accelerator.mig is None:
        raise FleetError(f"{accelerator.product} does not support MIG", "use mode full")
    return accelerator.mig


def parse_layout(text: str, accelerator: Accelerator) -> tuple[MigPlacement, ...]:
    """Return the placements of a layout ``PROFILE[:COUNT][+PROFILE[:COUNT]…]``, in the order written.

    Each takes the first start that leaves room for the rest. ``full`` means no MIG and returns no placements. Raises
    FleetError for a layout that is malformed or does not fit.
    """
    if text == "full":
        return ()
    mig = mig_of(accelerator)
    by_name = {profile.name: profile for profile in mig.profiles}
    wanted: list[MigProfile] = []
    for part in _layout_parts(text):
        name, _, count_text = part.partition(":")
        profile = by_name.get(name)
        if profile is None and (times := _COUNT_FIRST.fullmatch(name)) and times[2] in by_name:
            raise FleetError(f"MIG layout {text!r}: expected PROFILE:COUNT", f"write {times[2]}:{times[1]}")
        if profile is None:
            raise FleetError(
                f"MIG layout {text!r}: {accelerator.product} has no profile {name!r}",
                suggestion(name, by_name) or f"its profiles are {', '.join(by_name)}",
            )
        if count_text and not (count_text.isascii() and count_text.isdigit() and 0 < int(count_text) <= 64):
            raise FleetError(f"MIG layout {text!r}: expected a count after {name}:, found {count_text!r}")
        wanted.extend([profile] * int(count_text or 1))
    for profile in by_name.values():
        if wanted.count(profile) > profile.max_instances:
            raise FleetError(
                f"MIG layout {text!r}: {accelerator.product} fits at most {profile.max_instances} × {profile.name}; "
                f"{wanted.count(profile)} requested"
            )
    left = {field: amount - sum(getattr(p, field) for p in wanted) for field, amount in totals(mig).items()}
    fits = min(left.values()) >= 0 and sum(p.size for p in wanted) <= mig.memory_slices
    placed = _find_placements(tuple(wanted), 0) if fits else None
    if placed is None:
        raise FleetError(f"MIG layout {text!r} does not fit on one {accelerator.product}")
    return placed


def _layout_parts(text: str) -> list[str]:
    parts: list[str] = []
    for part in text.split("+"):
        if parts and part.partition(":")[0] in _SUFFIXES:
            parts[-1] += f"+{part}"
        else:
            parts.append(part)
    return parts


def _find_placements(wanted: tuple[MigProfile, ...], occupied: int) -> tuple[MigPlacement, ...] | None:
    """Search depth first. The caller has checked the total size, so there are at most twelve placements."""
    if not wanted:
        return ()
    profile = wanted[0]
    for start in profile.starts:
        mask = ((1 << profile.size) - 1) << start
        if occupied & mask:
            continue
        tail = _find_placements(wanted[1:], occupied | mask)
        if tail is not None:
            return (MigPlacement(profile, start), *tail)
    return None
