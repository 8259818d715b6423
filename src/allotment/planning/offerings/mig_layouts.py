"""MIG layouts of GPUs, derived from the partitions that were allocated while the layout was undecided."""

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

#: Profiles by GPU, in the order in which they are published; an empty tuple is a whole GPU.
Layout: TypeAlias = tuple[tuple[str, ...], ...]

_WHOLE: Final = "full"


def allocated_layout(view: NodeView, state: NodeState, gpus: int) -> Layout:
    """The allocated profiles of each GPU by index. Smaller ones come first, so that unspecific requests get those."""
    found: list[list[str]] = [[] for _ in range(gpus)]
    for slot in slots_of(state.in_use):
        device = view.records[slot].device
        profile = device.attributes.get("profile")
        if profile is not None and profile.string:
            found[_gpu_index(device)].append(profile.string)
    return tuple(map(tuple, found))


def filled_layout(layout: Layout, accelerator: Accelerator) -> Layout:
    """The layout in which GPUs with a single profile are filled with partitions of it, so that no space is unusable."""
    return tuple(_filled_gpu(pieces, accelerator) for pieces in layout)


def mode_of(layout: Layout) -> str:
    """The mode in the syntax of ``--fleet``; empty if every GPU stays whole.

    >>> mode_of((("1g.5gb", "1g.5gb", "2g.10gb"), ()))
    'static-mig=1g.5gb:2+2g.10gb:1/full'
    """
    if not any(layout):
        return ""
    texts = [_text(pieces) for pieces in layout]
    if len(set(texts)) == 1:
        return f"static-mig={texts[0]}"
    # A single text would apply to all GPUs; GPUs that are not named stay whole.
    while len(texts) > 2 and texts[-1] == texts[-2] == _WHOLE:
        texts.pop()
    return f"static-mig={'/'.join(texts)}"


def is_possible(layout: Layout, accelerator: Accelerator) -> bool:
    """Whether the driver supports the layout on these GPUs."""
    try:
        for pieces in set(layout):
            parse_layout(_text(pieces), accelerator)
    except FleetError:
        return False
    return True


def _filled_gpu(pieces: tuple[str, ...], accelerator: Accelerator) -> tuple[str, ...]:
    if len(set(pieces)) != 1:
        return pieces
    more = pieces
    while is_possible(((*more, pieces[0]),), accelerator):
        more = (*more, pieces[0])
    return more


def _text(pieces: Sequence[str]) -> str:
    counts = Counter(pieces)
    return "+".join(f"{name}:{count}" for name, count in counts.items()) or _WHOLE


def _gpu_index(device: Device) -> int:
    """The index of the GPU that a partition is on: 3 for ``gpu-3-mig-1g5gb-19-0``."""
    return int(device.name.split("-")[1])
