"""In which modes a type's GPUs are worth asking about for claims, and which MIG layout follows from the answer.

Whole GPUs come first: what fits them as they are needs no decision. After them come modes whose devices the claims
speak of. For MIG the engine is asked with everything that could be cut; the layout is what it then gave.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from allotment.fleet.catalog.instance import InstanceType
from allotment.fleet.catalog.templates import modes_of
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.showroom import Asked, Fits, Showroom

_MIG: Final = ("static-mig", "dynamic-mig")
_SHARED: Final[dict[str, tuple[str, ...]]] = {
    "shared": ("shared",), "consumable-shares": ("consumable-shares=memory", "consumable-shares=10"),
}  # fmt: skip
#: What only selectors of MIG devices speak of.
_OF_MIG: Final = re.compile(r"\bmig\b|\.(profile|parentUUID|memorySlice[0-9]+)\b")
#: What GPUs do as they are, or what no container gets.
_NO_CHOICE: Final = ("full", "spx", "vfio", "auto")
_PIECE: Final = re.compile(r"gpu-(?P<gpu>[0-9]+)-mig-(?P<profile>.+)-[0-9]+-[0-9]+")


def modes_for(instance: InstanceType, showroom: Showroom, asked: Asked, limits: Limits) -> tuple[str, ...]:
    """The modes to ask about, whole GPUs first, in the words of ``--fleet``."""
    kinds = [kind for kind in modes_of(instance) if kind not in _NO_CHOICE]
    wanted = limits.modes or _spoken_of(showroom, asked)
    found = [""]
    if any(kind in wanted and kind in kinds for kind in _MIG):
        found.append("dynamic-mig")
    for kind, words in _SHARED.items():
        if kind in wanted and kind in kinds:
            found += words
    return (*found, *(kind for kind in kinds if kind in wanted and kind not in _MIG and kind not in _SHARED))


def _spoken_of(showroom: Showroom, asked: Asked) -> frozenset[str]:
    """The kinds of modes whose devices the claims describe."""
    text = " ".join(showroom.expressions(asked))
    found: set[str] = set()
    if _OF_MIG.search(text):
        found.update(_MIG)
    if "partition" in text:
        found.update(("dpx", "qpx", "cpx"))
    if any(amounts for amounts in showroom.amounts(asked)):
        found.update(_SHARED)
    return frozenset(found)


def settled(
    showroom: Showroom, instance: InstanceType, mode: str, fits: Fits, asked: Asked, limits: Limits
) -> tuple[str, int]:
    """The mode to buy the machine in, and how often the claims then fit: a MIG layout where one is to be cut."""
    if mode != "dynamic-mig" or (limits.modes and "static-mig" not in limits.modes):
        return mode, fits.times
    layout = f"static-mig={layout_of(fits.devices, 1 if fits.on_each else instance.gpus)}"
    cut = showroom.fits_type(instance, layout, asked, fits.times) if showroom.single(instance, layout) else None
    return (layout, cut.times) if cut is not None else (mode, fits.times)


def layout_of(devices: Iterable[str], gpus: int) -> str:
    """The pieces that were given, as a static layout; GPUs of which none was stay whole.

    >>> layout_of(["gpu-0-mig-1g5gb-19-0", "gpu-0-mig-1g5gb-19-1"], 2)
    '1g.5gb:2/full'
    """
    by_gpu: list[dict[str, int]] = [{} for _ in range(gpus)]
    for name in devices:
        piece = _PIECE.fullmatch(name)
        if piece is not None:
            counts = by_gpu[int(piece["gpu"])]
            profile = _profile(piece["profile"])
            counts[profile] = counts.get(profile, 0) + 1
    layouts = ["+".join(f"{name}:{count}" for name, count in counts.items()) or "full" for counts in by_gpu]
    return layouts[0] if len(set(layouts)) == 1 else "/".join(layouts)


def _profile(text: str) -> str:
    """A profile as devices' names have it, with its dot and plus again: ``1g5gb-me`` is ``1g.5gb+me``."""
    return re.sub(r"^([0-9]+g)([0-9]+gb)", r"\1.\2", text).replace("-", "+", 1)
