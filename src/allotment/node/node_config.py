"""What a node runs its pods with; a simulated node needs to be told nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from allotment.cdi.store import SpecStore
from allotment.node.runtimes.runtime import Runtime


class Machine(NamedTuple):
    """How one node runs pods.

    ``runtime``: what runs its containers; None for the simulated one, that all nodes share. ``cdi``: where its drivers
    write what containers need; of two with the same device the later wins. ``state``: a folder of the node's own for
    what must outlive the agent (the kubelet's ``dra_manager_state``, folders of volumes); without one the agent
    remembers nothing and prepares again.
    """

    runtime: Runtime | None = None
    cdi: Sequence[SpecStore] = ()
    state: Path | None = None
