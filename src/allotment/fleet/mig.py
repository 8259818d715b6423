"""MIG arithmetic: what a GPU can be cut into, and what the pieces consume.

A GPU is a row of memory slices. A profile covers ``size`` of them, starting at one of its allowed places; beside
the slices every piece takes engines and multiprocessors. The same totals bound a static layout and, published as
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

#: Suffixes that begin with the sign that also separates the profiles of a layout.
_SUFFIXES = ("me", "me.all", "gfx")

#: What people write where a layout has ``1g.5gb:7``.
_COUNT_FIRST = re.compile(r"([0-9]+)x(.+)")


@dataclass(frozen=True, slots=True)
class MigPlacement:
    """One MIG device: a profile at a place."""

    profile: MigProfile
    start: int

    @property
    def slices(self) -> range:
        """The memory slices that it occupies."""
        return range(self.start, self.start + self.profile.size)


def totals(mig: Mig) -> dict[str, int]:
    """What the whole GPU has to share, by field of ``DIMENSIONS``.

    NVIDIA's driver takes the largest profile. On B200 every profile has one decoder, so that rule would let one piece
    use up the GPU; here the total is at least what the largest number of equal pieces takes.
    """
    return {
        field: max(profile.max_instances * int(getattr(profile, field)) for profile in mig.profiles)
        for field, _, _ in DIMENSIONS
    }


def placements(mig: Mig) -> Iterator[MigPlacement]:
    """Every profile at every place, in the order of the table."""
    for profile in mig.profiles:
        for start in profile.starts:
            yield MigPlacement(profile, start)


def mig_of(accelerator: Accelerator) -> Mig:
    """The MIG tables of an accelerator that has them."""
    if accelerator.mig is None:
        raise FleetError(f"{accelerator.product} has no MIG", "use mode full")
    return accelerator.mig


def parse_layout(text: str, accelerator: Accelerator) -> tuple[MigPlacement, ...]:
    """Where the pieces of ``PROFILE[:COUNT][+PROFILE[:COUNT]…]`` come to lie, in the order written.

    Each piece takes the first place that leaves room for the rest. ``full`` means no MIG and gives no pieces.
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
            raise FleetError(f"MIG layout {text!r}: wanted PROFILE:COUNT", f"write {times[2]}:{times[1]}")
        if profile is None:
            raise FleetError(
                f"MIG layout {text!r}: {accelerator.product} has no profile {name!r}",
                suggestion(name, by_name) or f"its profiles are {', '.join(by_name)}",
            )
        if count_text and not (count_text.isascii() and count_text.isdigit() and 0 < int(count_text) <= 64):
            raise FleetError(f"MIG layout {text!r}: wanted a count after {name}:, found {count_text!r}")
        wanted.extend([profile] * int(count_text or 1))
    for profile in by_name.values():
        if wanted.count(profile) > profile.max_instances:
            raise FleetError(
                f"MIG layout {text!r}: {accelerator.product} holds at most {profile.max_instances} × {profile.name}, "
                f"wanted {wanted.count(profile)}"
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
    """Depth first; the caller has checked that the sizes add up, so there are at most twelve pieces."""
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
