"""MIG layouts in the format of NVIDIA's mig-parted, so that a planned node boots with its planned partitions.

The name of a layout is a hash of it, and the value of a node label. The MIG manager on the node finds the layout by
this name in its configuration and partitions the GPUs before the driver publishes them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from allotment.fleet.description import parse_fleet
from allotment.fleet.errors import FleetError
from allotment.fleet.modes import StaticMig
from allotment.model.trees import Tree
from allotment.planning.report import PlannedMachine

#: Profiles by GPU; an empty tuple is a whole GPU.
MigLayout: TypeAlias = tuple[tuple[str, ...], ...]

#: The label that NVIDIA's MIG manager follows, and the file that it reads.
MIG_LABEL: Final = "nvidia.com/mig.config"
MIG_FILE: Final = "config.yaml"
_HEAD: Final = "version: v1\nmig-configs:\n"
_NAME: Final = re.compile(r"^  ([^\s:#]+|\"[^\"]+\"):", re.MULTILINE)


def mig_layout(machine: PlannedMachine) -> MigLayout:
    """The layout if the GPUs must be partitioned before the driver starts, else empty.

    Dynamic MIG needs none: the driver creates a partition when a claim is prepared.
    """
    if not machine.form:
        return ()
    try:
        (parsed,) = parse_fleet([machine.form])
    except FleetError:
        return machine.layout
    if not isinstance(parsed.mode, StaticMig):
        return ()
    return tuple(tuple(piece.profile.name for piece in pieces) for pieces in parsed.mode.layouts)


def mig_config_name(layout: MigLayout) -> str:
    """The name of a layout in the MIG manager's configuration; equal layouts have equal names.

    >>> mig_config_name((("1g.5gb",) * 7,))
    'allotment-7426916d'
    """
    text = "\n".join(",".join(sorted(profiles)) for profiles in layout)
    return f"allotment-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def mig_parted(layouts: Iterable[MigLayout]) -> str:
    """The mig-parted configuration with each layout once; empty if there is none."""
    text = ""
    for layout in layouts:
        if layout:
            text = with_layout(text, layout)
    return text


def with_layout(text: str, layout: MigLayout) -> str:
    """The mig-parted configuration with one more layout; existing text is unchanged."""
    name = mig_config_name(layout)
    if name in _NAME.findall(text):
        return text
    lines = [f"  {name}:"]
    for profiles, devices in _devices_by_profiles(layout):
        lines.append(f"    - devices: [{', '.join(map(str, devices))}]")
        lines.append(f"      mig-enabled: {'true' if profiles else 'false'}")
        if profiles:
            lines.append("      mig-devices:")
            counts = {profile: profiles.count(profile) for profile in profiles}
            lines += [f'        "{profile}": {count}' for profile, count in counts.items()]
    return (text.rstrip("\n") + "\n" if text else _HEAD) + "\n".join(lines) + "\n"


def _devices_by_profiles(layout: MigLayout) -> list[tuple[tuple[str, ...], list[int]]]:
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, profiles in enumerate(layout):
        groups.setdefault(tuple(sorted(profiles)), []).append(number)
    return list(groups.items())


def mig_config_map(text: str, name: str = "allotment-mig-parted-config", namespace: str = "gpu-operator") -> Tree:
    """A mig-parted configuration as a ConfigMap. ``migManager.config.name`` of the GPU operator refers to it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {MIG_FILE: text},
    }
