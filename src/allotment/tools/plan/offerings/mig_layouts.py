"""MIG layouts as decisions: from the pieces that pods got on GPUs that were still to be cut to a layout for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from allotment.engine.cluster.layout import NodeState, NodeView
from allotment.engine.search.attempt import slots_of
from allotment.fleet.errors import FleetError
from allotment.fleet.mig import parse_layout
from allotment.fleet.profiles import Accelerator
from allotment.model.resource import Device

#: Profiles by GPU, in the order in which they are published; none: the GPU stays whole.
Layout: TypeAlias = tuple[tuple[str, ...], ...]

_WHOLE: Final = "full"


def layout_of(view: NodeView, state: NodeState, gpus: int) -> Layout:
    """What was taken of each GPU by number. Smaller pieces come first, so that who asks for any takes those first."""
    found: list[list[str]] = [[] for _ in range(gpus)]
    for slot in slots_of(state.in_use):
        device = view.records[slot].device
        profile = device.attributes.get("profile")
        if profile is not None and profile.string:
            found[_number(device)].append(profile.string)
    return tuple(map(tuple, found))


def filled(layout: Layout, accelerator: Accelerator) -> Layout:
    """With more pieces of the same profile where a GPU has one profile only: nobody could use the rest otherwise."""
    return tuple(_filled(pieces, accelerator) for pieces in layout)


def mode_of(layout: Layout) -> str:
    """The mode in the words of ``--fleet``; empty where every GPU stays whole.

    >>> mode_of((("1g.5gb", "1g.5gb", "2g.10gb"), ()))
    'static-mig=1g.5gb:2+2g.10gb:1/full'
    """
    if not any(layout):
        return ""
    texts = [_text(pieces) for pieces in layout]
    if len(set(texts)) == 1:
        return f"static-mig={texts[0]}"
    # One text alone would be for all GPUs; those that are not named stay whole.
    while len(texts) > 2 and texts[-1] == texts[-2] == _WHOLE:
        texts.pop()
    return f"static-mig={'/'.join(texts)}"


def is_possible(layout: Layout, accelerator: Accelerator) -> bool:
    """Whether the driver could cut the GPUs so."""
    try:
        for pieces in set(layout):
            parse_layout(_text(pieces), accelerator)
    except FleetError:
        return False
    return True


def _filled(pieces: tuple[str, ...], accelerator: Accelerator) -> tuple[str, ...]:
    if len(set(pieces)) != 1:
        return pieces
    more = pieces
    while is_possible(((*more, pieces[0]),), accelerator):
        more = (*more, pieces[0])
    return more


def _text(pieces: Sequence[str]) -> str:
    counts = Counter(pieces)
    return "+".join(f"{name}:{count}" for name, count in counts.items()) or _WHOLE


def _number(device: Device) -> int:
    """The GPU that a piece is of: ``gpu-3-mig-1g5gb-19-0``."""
    return int(device.name.split("-")[1])
